"""Takes rows, and perhaps keys, out of their envelopes (``format=``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from penstock.arrays import binary, is_too_large
from penstock.columns.batch import Batch
from penstock.columns.column import BytesColumn, Column, ValuesColumn
from penstock.handlers import DESERIALIZATION
from penstock.ops.core.context import Context
from penstock.ops.core.functions import call_each, row_numbers
from penstock.ops.core.operator import Collector, Operator
from penstock.ops.core.record_context import headers_of
from penstock.ops.stateless.left_out import LeftOut
from penstock.ops.stateless.timestamps import INVALID
from penstock.plan.formats import RowTime
from penstock.plan.timestamps import Extractor
from penstock.serdes import BYTES, JSON, Serde
from penstock.serdes.formats.base import Format, Headers, Opened, Texts
from penstock.serdes.formats.keys import PLAIN, json_key, plain_key, plain_keys
from penstock.values.times import parsed


class Unwrap(Operator):
    """Emits the rows in envelopes. A value that is no envelope is handled like one that does not decode.

    Args:
        key: the type of the keys in envelopes; None if keys are none.
        value: the type of the rows.
        row_time: the source of the times of rows, where one envelope has several.
        decodes: which of ``key`` and ``value`` later steps use.
        left_out: notices fields of rows that their type does not have.
    """

    def __init__(
        self,
        node: str,
        context: Context,
        format: Format,
        key: Serde | None,
        value: Serde,
        row_time: Extractor | None,
        decodes: tuple[str, ...],
        left_out: LeftOut | None,
    ):
        self._node = node
        self._context = context
        self._format = format
        self._key = key
        self._value = value
        self._row_time = row_time.extractor if row_time is not None else None
        self._decodes = decodes
        self._left_out = left_out

    def step(self, batch: Batch, out: Collector) -> None:
        if self._key is not None:
            batch = self._with_keys(batch, self._key)
        batch = self._opened(batch)
        if self._left_out is not None:
            self._left_out.look(batch.value)
        batch = self._context.read(self._node, batch, *self._decodes)
        out.emit(batch if self._row_time is None else self._with_times(batch, self._row_time))

    # --- keys ----------------------------------------------------------------------------------------------------

    def _with_keys(self, batch: Batch, key: Serde) -> Batch:
        if key == BYTES:
            return batch.with_key(BytesColumn(batch.key.encoded(), key))
        batch, texts = self._texts(batch, "key")
        if key not in PLAIN:
            batch, keys = self._each(batch, json_key(self._format), texts)
            return batch.with_key(BytesColumn(binary(keys), key))
        found = plain_keys(self._format, texts, PLAIN[key]) if None not in texts else None
        if found is None:
            batch, found = self._each(batch, plain_key(self._format, key), texts)
        return self._context.encoded(self._node, batch.with_key(ValuesColumn(found, key)), "key")

    # --- values --------------------------------------------------------------------------------------------------

    def _opened(self, batch: Batch) -> Batch:
        batch, texts = self._texts(batch, "value")
        opened = None if self._has_headers(batch) else self._at_once(texts)
        if opened is not None:
            rows, kept = opened
            batch = batch if kept is None else batch.take(np.array(kept, np.int64))
            return batch.with_value(BytesColumn(binary(rows), self._value))
        headers: list[Headers] = [{}] * len(batch)
        if self._format.reads_headers:
            headers = list(map(dict, headers_of(batch)))
        batch, several = self._each(batch, self._format.one, texts, headers)
        taken, within = row_numbers([len(rows) for rows in several])
        batch = batch.take(taken)
        batch = replace(batch, order=(*batch.order, within))
        return batch.with_value(BytesColumn(binary(list(chain.from_iterable(several))), self._value))

    def _has_headers(self, batch: Batch) -> bool:
        return self._format.reads_headers and batch.headers is not None and batch.headers.null_count < len(batch)

    def _at_once(self, texts: Texts) -> Opened | None:
        try:
            return self._format.all(texts)
        except KeyboardInterrupt:
            raise
        except Exception as error:  # opening them one by one finds the one that fails
            if is_too_large(error):
                raise
            return None

    def _texts(self, batch: Batch, name: str) -> tuple[Batch, Texts]:
        """The JSON of keys or values, and the batch without the records whose envelopes do not decode."""
        column: Column = getattr(batch, name)
        if column.serde == JSON or column.serde == BYTES:
            return batch, column.encoded().to_pylist()
        batch = self._context.decoded(self._node, batch, name)
        values = getattr(batch, name).decoded()
        return batch, [None if value is None else msgspec.json.encode(value) for value in values]

    def _each(self, batch: Batch, call: Callable[..., Any], *arguments: list[Any]) -> tuple[Batch, list[Any]]:
        """The results of a call for each record, and the batch without the records for which it fails."""
        results, failed = call_each(call, len(batch), *arguments)
        if not failed:
            return batch, results
        for row, error in failed:
            self._context.failed(
                self._node, int(batch.position[row]), error, way_out=self._format.hint, kind=DESERIALIZATION
            )
        kept = np.setdiff1d(np.arange(len(results)), [row for row, _ in failed])
        return batch.take(kept), [results[row] for row in kept.tolist()]

    # --- times ---------------------------------------------------------------------------------------------------

    def _with_times(self, batch: Batch, row_time: RowTime) -> Batch:
        """The rows with the times in their own fields; those without keep the time of their record."""
        batch = self._context.decoded(self._node, batch, "value")
        found = [None if value is None else parsed(row_time.of_row(value)) for value in batch.value.decoded()]
        carried = batch.timestamp.tolist()
        times = [before if time is None else time for time, before in zip(found, carried, strict=True)]
        batch = replace(batch, timestamp=np.array(times, np.int64))
        self._context.drop(self._node, batch.position[batch.timestamp < 0], INVALID)
        return batch.keep(batch.timestamp >= 0)
