"""Forwarded records, on their way from Python objects to columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import is_
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import IntArray
from penstock.columns.batch import HEADERS, Batch, Order, Origins, header_list, take_order, why_no_headers
from penstock.columns.column import Column, ValuesColumn
from penstock.errors import ProcessingError
from penstock.messages import show
from penstock.ops.core.operator import Collector
from penstock.record import Record
from penstock.serdes import Serde
from penstock.values.durations import MAX_MS


@dataclass(frozen=True)
class Forwarded:
    """Records in the order in which they were forwarded."""

    records: list[Record]
    addressed: dict[int, int]
    """For records that are sent to one step alone: from the index of the record to the step's number."""
    order: Order
    given: Column | None = None
    """The key of the input record behind each forwarded record; None for records of punctuations."""
    held: Origins | None = None
    """The origins of the input records, as in ``Batch``."""

    def take(self, rows: IntArray) -> Forwarded:
        """Select records by index, in their order."""
        number = {row: new for new, row in enumerate(rows.tolist())}
        addressed = {number[row]: step for row, step in self.addressed.items() if row in number}
        given = None if self.given is None else self.given.take(rows)
        held = None if self.held is None else self.held.take(rows)
        return Forwarded([self.records[row] for row in number], addressed, take_order(self.order, rows), given, held)

    def wrong_times(self) -> Iterator[tuple[int, ProcessingError]]:
        """Yield the records with invalid timestamps."""
        _, _, times, _ = self._columns
        if set(map(type, times)) <= {int} and 0 <= min(times, default=0) <= max(times, default=0) <= MAX_MS:
            return
        for row, time in enumerate(times):
            if type(time) is not int or not 0 <= time <= MAX_MS:
                yield (
                    row,
                    ProcessingError(
                        f"it forwards a record with the timestamp {show(time)}; that must be an int of milliseconds "
                        f"since 1970 from 0 to {MAX_MS}"
                    ),
                )

    def wrong_headers(self) -> Iterator[tuple[int, ProcessingError]]:
        """Yield the records with invalid headers."""
        *_, headers = self._columns
        for row, given in enumerate(headers) if any(headers) else ():
            if given and (why := why_no_headers(given)):
                yield row, ProcessingError(f"it forwards a record whose headers cannot be written: {why}")

    def wrong_keys(self) -> Iterator[tuple[int, ProcessingError]]:
        """Yield the records whose key differs from the key of their input record."""
        if self.has_given_keys:
            return
        given = [None] * len(self.records) if self.given is None else self.given.decoded()
        for row, (record, key) in enumerate(zip(self.records, given, strict=True)):
            if self.given is None:
                yield row, ProcessingError("a processor of process_values cannot forward records in a punctuation")
            elif record.key != key:
                yield (
                    row,
                    ProcessingError(
                        f"a processor of process_values cannot change the key {show(key)} of a record; got "
                        f"{show(record.key)}. Use record.with_value(...), or process(...), which may change keys"
                    ),
                )

    @property
    def has_given_keys(self) -> bool:
        """True if all records have the very keys of their input records."""
        if self.given is None:
            return False
        return all(map(is_, self._columns[0], self.given.decoded()))

    @cached_property
    def _columns(self) -> tuple[list[Any], ...]:
        """The keys, values, timestamps and headers."""
        given = self.records
        return (
            [r.key for r in given],
            [r.value for r in given],
            [r.timestamp for r in given],
            [r.headers for r in given],
        )

    def emit(self, key: Serde, value: Serde, children: int, out: Collector) -> None:
        """Emit all records, as columns.

        Args:
            children: the number of steps after the processor.
        """
        if not self.records:
            return
        keys, values, timestamps, headers = self._columns
        batch = Batch(
            self.given if self.given is not None and self.has_given_keys else ValuesColumn(keys, key),
            ValuesColumn(values, value),
            np.array(timestamps, np.int64),
            self.order,
            _headers(headers),
            held=self.held,
        )
        if not self.addressed:
            out.emit(batch)
            return
        to = np.full(len(batch), -1)
        to[list(self.addressed)] = list(self.addressed.values())
        for child in range(children):
            out.emit(batch.keep((to < 0) | (to == child)), child)


def _headers(headers: list[Any]) -> Any:
    return pa.array(map(header_list, headers), HEADERS) if any(headers) else None
