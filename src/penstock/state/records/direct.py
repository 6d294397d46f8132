"""A store of a user's class as processors see it: the object itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.columns.column import Column
from penstock.state.kinds.own.direct import DirectStore


class DirectView:
    """It has nothing to load and nothing to write: the object has done so when a method returns."""

    on_refused: Any = None

    def __init__(self, store: DirectStore):
        self.handed = store.handed
        self.name = store.name

    def begin(self, keys: Column | None = None) -> None: ...

    def end(self) -> None: ...

    def abandon(self) -> None: ...

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def sync(self) -> None: ...

    def pending(self) -> int:
        return 0

    def open_transactions(self) -> Sequence[object]:
        """None of its own: the object's current transaction ends with the task's commit."""
        return ()

    def commit(self, changelog_offsets: Any) -> None: ...

    def roll_back_transactions(self) -> None: ...
