"""Passes on what Spark and the slots print: a user's ``print``, warnings, stack traces of broken connections.

It goes to ``sys.stderr`` line by line, so that it neither runs into a progress bar nor misses a notebook. While the
session is being stopped no user code runs, so stack traces only complain about broken pipes, and are dropped. A stack
trace with only PySpark's frames that ends in a broken pipe is always dropped: Spark closed the connection to a worker
that it no longer needs.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterable
from threading import Thread

_TRACE = ("Traceback ", "Exception ")
_HUNG_UP = ("BrokenPipeError", "ConnectionResetError")
_NOISE = "WARNING: Using incubator modules"
_LAST_WORDS_SECONDS = 2.0


class SparkOutput:
    """The standard error of the JVM, which the slots share for their standard error and output."""

    def __init__(self) -> None:
        self._is_ending = False
        self._held: list[str] | None = None
        self._holding = threading.Lock()
        self._reader: Thread | None = None

    def pipe(self) -> int:
        """Return the file descriptor for a new JVM's output, which is passed on. The caller closes it after the
        start.
        """
        read, write = os.pipe()
        lines = open(read, encoding="utf-8", errors="replace")  # noqa: SIM115 - read until the JVM ends
        self._reader = Thread(target=self.pass_on, args=(lines,), name="penstock-spark-output", daemon=True)
        self._reader.start()
        return write

    def hold(self) -> None:
        """Hold further output back: a JVM that does not start prints a lot, of which one line gives the reason."""
        with self._holding:
            self._held = []

    def release(self) -> None:
        """Pass on the held output, and all further output."""
        with self._holding:
            held, self._held = self._held, None
            _print(*(held or ()))

    def taken(self) -> list[str]:
        """Return the held output of a JVM that has ended, without passing it on."""
        if self._reader is not None:
            self._reader.join(_LAST_WORDS_SECONDS)
        with self._holding:
            held, self._held = self._held, None
        return held or []

    def _put(self, *lines: str) -> None:
        with self._holding:
            if self._held is None:
                _print(*lines)
            else:
                self._held.extend(lines)

    def expect_session(self) -> None:
        """A session begins: pass on all output."""
        self._is_ending = False

    def expect_end(self) -> None:
        """The session is about to stop: drop the output from the first stack trace on."""
        self._is_ending = True

    def pass_on(self, lines: Iterable[str]) -> None:
        """Print lines as they come, and stack traces when they are complete."""
        is_dropped = False
        trace: list[str] = []
        for line in lines:
            is_dropped = self._is_ending and (is_dropped or line.startswith(_TRACE))
            if is_dropped:
                trace.clear()
            elif line.startswith("Traceback ") or (trace and line.startswith(" ")):
                trace.append(line)
            elif trace and line.startswith(_HUNG_UP) and _is_sparks_own(trace):
                trace.clear()
            elif not line.startswith(_NOISE):
                self._put(*trace, line)
                trace.clear()
        self._put(*trace)


def _is_sparks_own(trace: list[str]) -> bool:
    """Return whether all frames of a stack trace are PySpark's or the interpreter's."""
    frames = [line for line in trace if line.lstrip().startswith('File "')]
    return all(re.search(r'[/\\]pyspark(\.zip)?[/\\]|File "<frozen |[/\\]runpy\.py"', line) for line in frames)


def _print(*lines: str) -> None:
    for line in lines:
        sys.stderr.write(line)
    sys.stderr.flush()


SPARK_OUTPUT = SparkOutput()
"""A process has one JVM."""
