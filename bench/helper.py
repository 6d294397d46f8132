"""Processes that stay warm and are asked again and again: a measurement asks, the helper's ``main`` answers.

Question and answer are one line of JSON each.
"""

from __future__ import annotations

import json
import select
import sys
from collections.abc import Callable, Sequence
from typing import Any

from bench.measure import RunError, kill_session, start

PATIENCE = 300.0


class Helper:
    """A helper, seen from the process that asks.

    Args:
        arguments: the module, and what its ``main`` takes.
    """

    def __init__(self, arguments: Sequence[str]):
        self._name = " ".join(arguments)
        self._process = start([sys.executable, "-m", *arguments], with_input=True)

    def ask(self, question: Any) -> Any:
        """Ask, and wait for the answer.

        Raises:
            RunError: the helper failed, or gives no answer.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(json.dumps(question), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise self._failure("ended") from None
        if not select.select([self._process.stdout], [], [], PATIENCE)[0]:
            raise self._failure(f"gave no answer in {PATIENCE:g} s")
        line = self._process.stdout.readline()
        if not line:
            raise self._failure("ended")
        return json.loads(line)

    def end(self) -> None:
        """Kill the helper with everything it started."""
        kill_session(self._process.pid)
        self._process.communicate()

    def _failure(self, what: str) -> RunError:
        kill_session(self._process.pid)
        return RunError(f"{self._name} {what}:\n{self._process.communicate()[1][-3000:]}")


def answer(to: Callable[[Any], Any]) -> None:
    """Answer every question, in a helper, with what a function says to it."""
    for line in sys.stdin:
        print(json.dumps(to(json.loads(line))), flush=True)
