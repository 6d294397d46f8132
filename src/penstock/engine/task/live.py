"""What queries ask of tasks while they work: reads of stores with all that is written and not committed yet.

Under ``READ_UNCOMMITTED`` (KIP-892, at least once) a query sees writes at once. They are where the task is, so the
question goes there, as plain data that any connection may carry, and is answered between two chunks: by whoever works
on the tasks, or by whoever asks while nobody does. Neither waits for longer than a chunk, or an answer, takes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import islice
from typing import Any

import msgspec

from penstock.engine.shared.layout import Layout, TaskId
from penstock.errors import PenstockError, StoreError
from penstock.state.store import StateStore

READS = frozenset(
    ("get_one", "range", "rows", "fetch", "scan_windows", "find_sessions", "scan_sessions", "fetch_session", "versions")
)
"""What may be asked: the methods of stores that only read."""


class StoreQuestion(msgspec.Struct, frozen=True, tag=True):
    """An order: read from the store of a task as it is now."""

    task: str
    store: str
    read: str
    """The method of the store."""
    arguments: bytes = b"\x90"
    """Its arguments, as MessagePack: bytes, numbers, truth values and None."""
    limit: int | None = None
    """How many rows to answer with at most."""


class StoreAnswer(msgspec.Struct, frozen=True, tag=True):
    """What was read."""

    is_here: bool
    """Whether the task is at work there; if not, what is committed is all there is."""
    rows: bytes = b"\xc0"
    """A row or None, or a list of rows, as MessagePack."""
    error: str = ""


class LiveTasks:
    """The tasks of a running application, for those who ask.

    Args:
        ask: takes a question to its task, wherever that is; from any thread but the one that makes commits.
    """

    def __init__(self, layout: Layout, ask: Callable[[StoreQuestion], StoreAnswer]):
        self._layout = layout
        self.ask = ask

    def task_names(self, sub: int) -> list[str]:
        """The tasks of a sub-topology."""
        return [str(TaskId(sub, partition)) for partition in range(self._layout.tasks[sub])]


class Desk:
    """Where questions wait for a moment at which nobody works on the tasks.

    Args:
        find: the store of a task, by their names; None where the task is not at work here.
    """

    def __init__(self, find: Callable[[str, str], StateStore | None]):
        self._find = find
        self._working = threading.Lock()
        self._waiting: deque[tuple[StoreQuestion, Future[StoreAnswer]]] = deque()

    @contextmanager
    def working(self) -> Iterator[None]:
        """While somebody works on the tasks."""
        with self._working:
            yield
            self.answer()
        self._answer_if_free()

    def answer(self) -> None:
        """Answer what was asked until now; for whoever works on the tasks, between two chunks."""
        while self._waiting:
            question, answer = self._waiting.popleft()
            answer.set_result(self._answer(question))

    def ask(self, question: StoreQuestion) -> StoreAnswer:
        """The answer to a question; from any thread but the one that works on the tasks."""
        answer: Future[StoreAnswer] = Future()
        self._waiting.append((question, answer))
        self._answer_if_free()
        return answer.result()

    def _answer_if_free(self) -> None:
        """Whoever works looks again once he has stopped, so nothing that was asked is left lying."""
        while self._waiting and self._working.acquire(blocking=False):
            try:
                self.answer()
            finally:
                self._working.release()

    def _answer(self, question: StoreQuestion) -> StoreAnswer:
        try:
            store = self._find(question.task, question.store)
            if store is None:
                return StoreAnswer(False)
            return StoreAnswer(True, msgspec.msgpack.encode(_read(store, question)))
        except PenstockError as error:
            return StoreAnswer(True, error=str(error))
        except Exception as error:  # it is the question's, and the work goes on
            return StoreAnswer(True, error=f"{type(error).__name__}: {error}")


def _read(store: StateStore, question: StoreQuestion) -> Any:
    if question.read not in READS or not hasattr(store, question.read):
        raise StoreError(f"the store {question.store!r} has no read {question.read!r}")
    found = getattr(store, question.read)(*msgspec.msgpack.decode(question.arguments))
    return list(islice(found, question.limit)) if isinstance(found, Iterator) else found
