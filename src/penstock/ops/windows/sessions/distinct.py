"""``distinct`` in sessions: emits only the record that begins a session (KIP-655)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, binary, concat
from penstock.columns.batch import Batch, Changes
from penstock.columns.column import BytesColumn, Column
from penstock.ops.windows.distinct import first_records
from penstock.ops.windows.sessions.fold import Folded, Met, SessionFold
from penstock.ops.windows.sessions.operator import SessionAggregate
from penstock.ops.windows.sessions.processing import SessionOutcome
from penstock.serdes import BYTES
from penstock.serdes.nullable import mark_nulls


class FirstOfSession(SessionFold):
    """Keeps the value of a session's first record to arrive, marked, so that null is a value like any other."""

    def initial(self) -> Any:
        return None

    def add(self, key: Any, value: Any, aggregate: Any) -> Any:
        return value if aggregate is None else aggregate

    def fold(self, key: Any, value: Any, found: list[Any]) -> Any:
        return found[0] if found else value

    def fold_all(self, met: Met, stored: Binary, batch: Batch) -> Folded:
        values = concat([stored, mark_nulls(batch.value.encoded()).take(pa.array(met.record))])
        kept, found = (BytesColumn(values.take(pa.array(seed)), BYTES) for seed in (met.seed, met.met_seed))
        return Folded(kept, found)

    def keys(self, batch: Batch) -> Sequence[Any]:
        return range(len(batch))

    def values(self, batch: Batch) -> Sequence[Any]:
        marked: list[bytes] = mark_nulls(batch.value.encoded()).to_pylist()
        return marked

    def load(self, data: Binary) -> list[Any]:
        return data.to_pylist()  # type: ignore[no-any-return]

    def column(self, results: list[Any]) -> Column:
        return BytesColumn(binary(results), BYTES)


class SessionDistinct(SessionAggregate):
    """Emits the records that begin a session, but not those that extend or merge sessions."""

    def _changes(self, batch: Batch, outcome: SessionOutcome) -> Changes | None:
        rows = np.sort(outcome.fresh)
        if not len(rows):
            return None
        wide = batch.take(rows)
        key = self._windowed(wide.key, wide.timestamp, wide.timestamp)
        return first_records(wide.with_key(key), wide.value, np.arange(len(rows)), wide.timestamp, self._sends_old)
