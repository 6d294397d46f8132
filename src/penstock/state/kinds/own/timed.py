"""The engine's stores by time whose rows are in a window or session store of a user: one for each kind (KIP-892)."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.arrays import binary, last_numbers, without_last
from penstock.errors import ConfigError
from penstock.state.columns.rows import Keys, Values
from penstock.state.interface import RestoreCallback
from penstock.state.kinds.duplicates import DuplicateWindowStore
from penstock.state.kinds.join_window import JoinWindowStore
from penstock.state.kinds.own.places import Places
from penstock.state.kinds.own.segment import OwnSegment
from penstock.state.kinds.own.store import OwnStore
from penstock.state.kinds.own.supplied import supplied
from penstock.state.kinds.own.windows import Duplicates, Sessions, SlidingWindows, Windows
from penstock.state.kinds.segments import SegmentedStore
from penstock.state.kinds.session import SessionStore
from penstock.state.kinds.sliding import SlidingStore
from penstock.state.kinds.slots import SlottedStore
from penstock.state.kinds.window import WindowStore
from penstock.state.shapes import SessionStore as SessionInterface
from penstock.state.shapes import TimestampedBytesStore
from penstock.state.shapes import WindowStore as WindowInterface
from penstock.state.store import Located
from penstock.state.transactional import Base, TransactionalRows
from penstock.state.wrappers import InTransactions


class OwnSegmentedStore(OwnStore, SegmentedStore):
    """A store by key and time with its rows in a user's store, which is read for rows that are not in memory.

    Args:
        supplier: returns a new object of the user's class from each ``get()``.
        timestamped: True if values have timestamps, like those of tables.
        name: the store's name.
        arguments: those of the engine's store, behind its name.
    """

    interface: type = WindowInterface

    def __init__(self, supplier: Any, timestamped: bool, name: str, *arguments: Any):
        super().__init__(name, *arguments)
        made = supplied(supplier, name, self.interface, f"penstock.{self.interface.__name__}")
        self._own = InTransactions(made)
        self._keeps_own_timestamps = timestamped and (isinstance(made, TimestampedBytesStore) or not made.persistent)

    def _keys_of(self, family: str, keys: list[bytes]) -> Keys:
        every = binary(keys)
        return Keys(without_last(every, 8), last_numbers(every))

    def _below(self, id_: int, family: Base) -> Base:
        if not isinstance(self._medium, Places):
            return family
        count = self._numbers_a_segment()
        return OwnSegment(self._medium, family, id_ * count, (id_ + 1) * count - 1)

    def _below_in_copy(self) -> list[tuple[TransactionalRows, Base]]:
        every = [*self._segments.values(), *self._expired.values()]
        return [(segment, segment.base.copy) for segment in every if isinstance(segment.base, OwnSegment)]

    def _numbers_a_segment(self) -> int:
        return self._slots_a_segment if isinstance(self, SlottedStore) else self.segment_interval

    def _windows(self, restore: RestoreCallback | None) -> Windows:
        return Windows(self._own, self._keeps_own_timestamps, restore)

    def _untimed(self, values: Values) -> Values:
        """Values without timestamps, where the class does not keep them."""
        if self._keeps_own_timestamps:
            return values
        return Values(values.data, np.full(len(values.timestamps), -1, np.int64))


class OwnWindowStore(OwnSegmentedStore, WindowStore):
    """Windows of a user's store."""

    copied_as = WindowStore

    def _medium_of(self, restore: RestoreCallback | None) -> Windows:
        return self._windows(restore)

    def put(self, located: Located, values: Values) -> None:
        super().put(located, self._untimed(values))


class OwnSlidingStore(OwnSegmentedStore, SlidingStore):
    """Sliding windows of a user's store."""

    copied_as = SlidingStore

    def __init__(self, supplier: Any, timestamped: bool, name: str, *arguments: Any):
        super().__init__(supplier, timestamped, name, *arguments)
        if not self._keeps_own_timestamps:
            kind = type(self._own.wrapped)
            raise ConfigError(
                f"the store {name!r}: {kind.__module__}.{kind.__qualname__} does not keep timestamps, which sliding "
                "windows need. Let the class extend TimestampedBytesStore, too: 8 bytes of timestamp are in front of "
                "each value. Nothing was started"
            )

    def _medium_of(self, restore: RestoreCallback | None) -> SlidingWindows:
        return SlidingWindows(self, self._windows(restore), self._own)


class OwnJoinWindowStore(OwnSegmentedStore, JoinWindowStore):
    """One side of a stream-stream join in a user's store."""

    copied_as = JoinWindowStore

    def _medium_of(self, restore: RestoreCallback | None) -> Duplicates:
        return Duplicates(self, Windows(self._own, False, restore, no_timestamp=0), self._own)


class OwnDuplicateWindowStore(OwnSegmentedStore, DuplicateWindowStore):
    """Windows with duplicates in a user's store."""

    copied_as = DuplicateWindowStore

    def _medium_of(self, restore: RestoreCallback | None) -> Duplicates:
        return Duplicates(self, self._windows(restore), self._own)


class OwnSessionStore(OwnSegmentedStore, SessionStore):
    """Sessions of a user's store."""

    copied_as = SessionStore
    interface = SessionInterface

    def _medium_of(self, restore: RestoreCallback | None) -> Sessions:
        return Sessions(self, self._own, restore)
