"""Final results: one for each key and window, emitted when the window has closed (``EmitStrategy.on_window_close``)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, IntArray, nulls
from penstock.columns.batch import Batch, Changes, take_order
from penstock.columns.column import BytesColumn, WindowedColumn
from penstock.ops.core.context import Context
from penstock.ops.core.looks import Looks
from penstock.serdes import Serde, WindowedSerde
from penstock.state.clock import StreamTime

FINAL_EMITTED = "window-aggregate-final-emit-total"


class Closing:
    """Emits the results of closed windows, each at the record that closed it.

    Args:
        emitted: the close time up to which results have been emitted.
        by_key: True if results with the same end are sorted by key and then by start; False for start and then key.
        at_end: True if a window closes when its close time is reached, not only when it is passed.
    """

    def __init__(
        self,
        node: str,
        context: Context,
        key: WindowedSerde,
        value: Serde,
        sends_old: bool,
        emitted: StreamTime,
        at_end: bool,
        by_key: bool = False,
    ):
        self._node = node
        self._context = context
        self._key = key
        self._value = value
        self._sends_old = sends_old
        self._emitted = emitted
        self._looks = Looks(context)
        self._order = ("row", "end", "key", "start") if by_key else ("row", "end", "start", "key")
        self._side = "left" if at_end else "right"

    @property
    def closed_before(self) -> int:
        """The results of windows that had closed at this time have been emitted."""
        return self._emitted.now

    def is_due(self) -> bool:
        """True if it is time to check for closed windows; the next interval then begins."""
        return self._looks.is_due()

    def done(self, closed_at: IntArray) -> None:
        """Note that all windows closed by these records have been emitted."""
        self._emitted.advance(closed_at[-1:])

    def closed_by(self, closed_at: IntArray, ends: IntArray) -> IntArray:
        """For windows with these ends, the rows of the records that close them; the number of rows if no record
        does."""
        return np.searchsorted(closed_at, ends, self._side)  # type: ignore[call-overload, no-any-return]

    def results(
        self,
        batch: Batch,
        row: IntArray,
        keys: Binary,
        start: IntArray,
        end: IntArray,
        data: Binary,
        timestamps: IntArray,
    ) -> Changes | None:
        """The results of windows in order, each placed at the record of its row."""
        if not len(row):
            return None
        columns = {"row": row, "end": end, "start": start, "key": keys}
        order = pc.sort_indices(pa.table(columns), [(name, "ascending") for name in self._order]).to_numpy()
        order = order.astype(np.int64)
        row = row[order]
        self._context.count(FINAL_EMITTED, self._node, len(row))
        inner = BytesColumn(keys.take(pa.array(order)), self._key.inner)
        key = WindowedColumn(inner, start[order], end[order], self._key)
        value = BytesColumn(data.take(pa.array(order)), self._value)
        old = BytesColumn(nulls(len(row)), self._value) if self._sends_old else None
        headers = None if batch.headers is None else batch.headers.take(pa.array(row))
        places = (*take_order(batch.order, row), np.arange(len(row)))
        held = None if batch.held is None else batch.held.take(row)
        return Changes(key, value, timestamps[order], places, headers, None, old, held=held)
