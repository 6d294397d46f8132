"""Final results: one for each key and window, sent on when the window has closed (``EmitStrategy.on_window_close``)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, IntArray, nulls
from penstock.batch import Batch, Changes, take_order
from penstock.columns import BytesColumn, WindowedColumn
from penstock.ops.core.context import Context
from penstock.ops.core.looks import Looks
from penstock.serdes import Serde, WindowedSerde
from penstock.state.clock import StreamTime

FINAL_EMITTED = "window-aggregate-final-emit-total"


class Closing:
    """Sends on the results of windows that have closed, each by the record that closed it.

    Args:
        emitted: the close time up to which results have been sent on.
        by_key: whether results that end together come by key and then by start, and not the other way round.
        at_end: whether a window closes when its close time is reached, and not only when it is passed.
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
        """What had closed at this time has been sent on."""
        return self._emitted.now

    def is_due(self) -> bool:
        """Whether it is time to look for windows that have closed; if so, the next time begins."""
        return self._looks.is_due()

    def done(self, closed_at: IntArray) -> None:
        """All windows that the records close have been sent on."""
        self._emitted.advance(closed_at[-1:])

    def closed_by(self, closed_at: IntArray, ends: IntArray) -> IntArray:
        """The rows of the records that close windows with these ends; as many as there are rows where none does."""
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
        """The results of windows, each sent on by the record of a row: in order."""
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
