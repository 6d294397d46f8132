"""Live queries: reads of running tasks' stores that include uncommitted writes.

Under ``READ_UNCOMMITTED`` (KIP-892, at least once) a query sees writes at once. Only the task has them, so the question
goes there, as plain data that any connection can carry, and is answered between two chunks. The answer comes from the
thread that runs the tasks, or from the asking thread while none runs. Neither waits longer than one chunk or one answer
takes.
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
"""The permitted reads: the methods of stores that only read."""


class StoreQuestion(msgspec.Struct, frozen=True, tag=True):
    """A request: read from the store of a task in its present state."""

    task: str
    store: str
    read: str
    """The method of the store."""
    arguments: bytes = b"\x90"
    """Its arguments, as MessagePack: bytes, numbers, booleans and None."""
    limit: int | None = None
    """Most rows to answer with."""


class StoreAnswer(msgspec.Struct, frozen=True, tag=True):
    """The answer to a ``StoreQuestion``."""

    is_here: bool
    """Whether the task runs there; if not, only committed state exists."""
    rows: bytes = b"\xc0"
    """A row or None, or a list of rows, as MessagePack."""
    error: str = ""


class LiveTasks:
    """The tasks of a running application, for queries.

    Args:
        ask: takes a question to its task, wherever that is; from any thread but the one that makes commits.
    """

    def __init__(self, layout: Layout, ask: Callable[[StoreQuestion], StoreAnswer]):
        self._layout = layout
        self.ask = ask
        self.is_there = True

    def task_names(self, sub: int) -> list[str]:
        """Return the tasks of a sub-topology."""
        return [str(TaskId(sub, partition)) for partition in range(self._layout.tasks[sub])]


class Desk:
    """Queue of questions, answered while no thread runs the tasks.

    Args:
        find: returns the store of a task, by their names; None if the task does not run here.
    """

    def __init__(self, find: Callable[[str, str], StateStore | None]):
        self._find = find
        self._working = threading.Lock()
        self._waiting: deque[tuple[StoreQuestion, Future[StoreAnswer]]] = deque()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Context in which the tasks run."""
        with self._working:
            yield
            self.answer()
        self._answer_if_free()

    def answer(self) -> None:
        """Answer the waiting questions; called between two chunks by the thread that runs the tasks."""
        while self._waiting:
            question, answer = self._waiting.popleft()
            answer.set_result(self._answer(question))

    def ask(self, question: StoreQuestion) -> StoreAnswer:
        """Return the answer to a question; from any thread but the one that runs the tasks."""
        answer: Future[StoreAnswer] = Future()
        self._waiting.append((question, answer))
        self._answer_if_free()
        return answer.result()

    def _answer_if_free(self) -> None:
        """Answer waiting questions if no thread runs the tasks. A running thread answers the rest when it stops."""
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
            with store.read_anywhere():
                return StoreAnswer(True, msgspec.msgpack.encode(_read(store, question)))
        except PenstockError as error:
            return StoreAnswer(True, error=str(error))
        except Exception as error:  # the question is at fault, and the work continues
            return StoreAnswer(True, error=f"{type(error).__name__}: {error}")


def _read(store: StateStore, question: StoreQuestion) -> Any:
    if question.read not in READS or not hasattr(store, question.read):
        raise StoreError(f"the store {question.store!r} has no read {question.read!r}")
    found = getattr(store, question.read)(*msgspec.msgpack.decode(question.arguments))
    return list(islice(found, question.limit)) if isinstance(found, Iterator) else found
