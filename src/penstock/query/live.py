"""Stores with what is written and not committed yet, for programs that run at least once (KIP-892).

Each call asks the tasks where they are at work; for one that is not open, what is committed is all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import UnionType
from typing import Any

import msgspec

from penstock.engine.task.live import LiveTasks, StoreQuestion
from penstock.errors import StoreError
from penstock.query.commits import StoreShape
from penstock.query.committed import CommittedStore
from penstock.query.key_value import KeyValueView
from penstock.query.session import SessionView
from penstock.query.stores import view_class_of
from penstock.query.versioned import VersionedView
from penstock.query.versions import Pinned, Version
from penstock.query.view import View
from penstock.query.window import WindowView
from penstock.record import SessionKey
from penstock.state.kinds.versioned.store import VersionRow

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
}
"""What views read, and what it comes back as. What suppressions hold back is shown as it is committed."""


def has_live_reads(shape: StoreShape) -> bool:
    """Whether stores of this shape can be asked where they are."""
    return view_class_of(shape) in _ANSWERS


class UncommittedStore:
    """All of a store as it is now, with each call.

    Args:
        committed: what stands in for tasks that are not at work, and what snapshots are of.
    """

    def __init__(self, committed: CommittedStore, live: LiveTasks):
        self._committed = committed
        self._live = live

    def now(self) -> Version:
        """The store of each task; what was read up to is that of the last commit, and more may be seen."""
        format_ = self._committed.shape.format
        tasks = self._live.task_names(format_.sub)[: 1 if format_.is_everywhere else None]
        stores = {task: LiveStore(self._committed, task, self._live) for task in tasks}
        where = self._committed.where()
        return Version(where.commit, stores, where.positions, where.at)

    def pinned(self) -> Pinned:
        """The store after the newest commit, for good."""
        return self._committed.pinned()


class LiveStore:
    """One task's store, read where the task is at work."""

    def __init__(self, committed: CommittedStore, task: str, live: LiveTasks):
        self._committed = committed
        self._task = task
        self._live = live
        self._types = _ANSWERS[view_class_of(committed.shape)]

    def __getattr__(self, read: str) -> Callable[..., Any]:
        if read not in self._types:
            raise AttributeError(read)
        return lambda *arguments: self._read(read, arguments)

    def range(self, low: bytes | None = None, high: bytes | None = None, reverse: bool = False) -> Iterator[_Row]:
        """The rows of a range of keys, some at a time: what is written meanwhile is seen where it is still ahead."""
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

    def _read(self, read: str, arguments: tuple[Any, ...], limit: int | None = None) -> Any:
        question = StoreQuestion(self._task, self._committed.name, read, msgspec.msgpack.encode(arguments), limit)
        answer = self._live.ask(question)
        if answer.error:
            raise StoreError(answer.error)
        if not answer.is_here:
            return self._read_committed(read, arguments)
        found = msgspec.msgpack.decode(answer.rows, type=self._types[read])
        return iter(found) if isinstance(found, list) else found

    def _read_committed(self, read: str, arguments: tuple[Any, ...]) -> Any:
        store = self._committed.now().tasks.get(self._task)
        if store is not None:
            return getattr(store, read)(*arguments)
        return None if isinstance(self._types[read], UnionType) else iter(())
