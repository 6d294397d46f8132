"""Stores including uncommitted writes, for programs that run at least once (KIP-892).

Each call asks the running tasks; for a task that is not open, only committed rows are available.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import UnionType
from typing import Any

import msgspec
import numpy as np

from penstock.arrays import binary
from penstock.engine.task.live import LiveTasks, StoreQuestion
from penstock.engine.task.questions import TasksElsewhere
from penstock.errors import StoreError
from penstock.query.commits import StoreShape
from penstock.query.committed import CommittedStore
from penstock.query.key_value import BufferView, KeyValueView
from penstock.query.session import SessionView
from penstock.query.stores import view_class_of
from penstock.query.versioned import VersionedView
from penstock.query.versions import Pinned, Version
from penstock.query.view import View
from penstock.query.window import WindowView
from penstock.record import SessionKey
from penstock.state.columns.rows import Values
from penstock.state.kinds.buffer import Entries
from penstock.state.kinds.versioned.store import VersionRow
from penstock.values.decoding import from_msgpack

_PAGE = 10_000
_Row = tuple[bytes, bytes, int]
_WindowRow = tuple[bytes, int, bytes, int]
_SessionRow = tuple[SessionKey, bytes]
_ANSWERS: dict[type[View], dict[str, Any]] = {
    KeyValueView: {"get_one": tuple[bytes, int] | None, "range": list[_Row], "rows": list[_Row]},
    WindowView: {"fetch": list[tuple[int, bytes, int]], "scan_windows": list[_WindowRow], "rows": list[_WindowRow]},
    SessionView: {
        "find_sessions": list[_SessionRow],
        "scan_sessions": list[_SessionRow],
        "fetch_session": bytes | None,
        "rows": list[_SessionRow],
    },
    VersionedView: {"get_one": VersionRow | None, "versions": list[VersionRow], "rows": list[VersionRow]},
    BufferView: {"rows": list[_WindowRow]},
}
"""By view: what it reads, and the type of the answer."""


def has_live_reads(shape: StoreShape) -> bool:
    """True if running tasks can be asked for stores of this shape."""
    return view_class_of(shape) in _ANSWERS


class UncommittedStore:
    """A whole store with its uncommitted writes, read again at each call.

    Args:
        committed: the committed store, which replaces tasks that do not run, and of which snapshots are taken.
    """

    def __init__(self, committed: CommittedStore, live: LiveTasks | TasksElsewhere):
        self._committed = committed
        self._live = live

    def now(self) -> Version:
        """The store of each task; the position is that of the last commit, although later input may be visible."""
        format_ = self._committed.shape.format
        names = self._live.task_names(format_.sub) or list(self._committed.now().tasks)  # those, if it has ended
        tasks = names[: 1 if format_.is_everywhere else None]
        stores = {task: LiveStore(self._committed, task, self._live) for task in tasks}
        where = self._committed.where()
        return Version(where.commit, stores, where.positions, where.at)

    def pinned(self) -> Pinned:
        """The store after the newest commit, which will not change."""
        return self._committed.pinned()


class LiveStore:
    """One task's store, read from the running task."""

    def __init__(self, committed: CommittedStore, task: str, live: LiveTasks | TasksElsewhere):
        self._committed = committed
        self._task = task
        self._live = live
        self._types = _ANSWERS[view_class_of(committed.shape)]

    def __getattr__(self, read: str) -> Callable[..., Any]:
        if read not in self._types:
            raise AttributeError(read)
        return lambda *arguments: self._read(read, arguments)

    def range(self, low: bytes | None = None, high: bytes | None = None, reverse: bool = False) -> Iterator[_Row]:
        """Yield the rows of a range of keys, some at a time; later writes are visible if they are still ahead."""
        rows = self._page(low, high, reverse)
        while rows:
            yield from rows
            if len(rows) < _PAGE:
                return
            low, high = (low, rows[-1][0]) if reverse else (rows[-1][0] + b"\x00", high)
            rows = self._page(low, high, reverse)

    def _page(self, low: bytes | None, high: bytes | None, reverse: bool) -> list[_Row]:
        return list(self._read("range", (low, high, reverse), _PAGE))

    def rows(self) -> Iterator[Any]:
        """All rows."""
        return self.range() if "range" in self._types else self._read("rows", ())

    def oldest_first(self, at_least: int) -> Iterator[Entries]:
        """All held entries, in the order in which they will go."""
        rows = list(self._read("rows", ()))
        keys, times, held, timestamps = zip(*rows, strict=True) if rows else ((), (), (), ())
        values = Values(binary(list(held)), np.array(timestamps, np.int64))
        yield Entries(binary(list(keys)), np.array(times, np.int64), values)

    @property
    def numbers(self) -> dict[str, int]:
        """The number of held records."""
        return {"records": len(list(self._read("rows", ())))}

    def _read(self, read: str, arguments: tuple[Any, ...], limit: int | None = None) -> Any:
        question = StoreQuestion(self._task, self._committed.name, read, msgspec.msgpack.encode(arguments), limit)
        answer = self._live.ask(question)
        if answer.error:
            raise StoreError(answer.error)
        if not answer.is_here:
            return self._read_committed(read, arguments)
        found = from_msgpack(answer.rows, self._types[read])
        return iter(found) if isinstance(found, list) else found

    def _read_committed(self, read: str, arguments: tuple[Any, ...]) -> Any:
        store = self._committed.now().tasks.get(self._task)
        if store is not None:
            return getattr(store, read)(*arguments)
        return None if isinstance(self._types[read], UnionType) else iter(())
