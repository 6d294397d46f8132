"""Turns filters of a DataFrame into ranges of a topic, by place and time; Spark 4.1 and newer hand filters over."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from math import ceil, floor
from typing import Any

from pyspark.sql import datasource as ds

from penstock.engine.spark.frame_readers import BatchReader, Columns
from penstock.engine.spark.log_option import Place
from penstock.engine.spark.read_options import Range, ReadOptions
from penstock.log.base import Log

_Bounds = tuple[int | None, int | None]
"""The lowest value that passes a filter, and the value from which on none passes; None for no bound."""

_PARTITION, _OFFSET, _TIME = ("partition",), ("offset",), ("timestamp",)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class FilteringBatchReader(BatchReader):
    """Reads only the records that its DataFrame's filters allow.

    Spark refuses such a reader unless ``spark.sql.python.filterPushdown.enabled`` is on; it is off by default.
    """

    def __init__(self, log: Place, topic: str, columns: Columns, asked: ReadOptions):
        super().__init__(log, topic, columns, asked)
        self._filters = PushedFilters()

    def pushFilters(self, filters: Sequence[ds.Filter]) -> list[ds.Filter]:  # noqa: N802
        self._filters = PushedFilters(filters)
        return [one for one in filters if not is_exact(one)]

    def _narrowed(self, log: Log, ranges: Sequence[Range]) -> list[Range]:
        return self._filters.narrowed(log, self._topic, ranges)


class PushedFilters:
    """The records of a topic that pass all of some filters.

    Records are ordered by offset, so offsets are bounded on both sides. Their times may be out of order: only records
    before the first one of a time are left out, never records after it.
    """

    def __init__(self, filters: Sequence[ds.Filter] = ()):
        self._filters = filters

    def narrowed(self, log: Log, topic: str, ranges: Sequence[Range]) -> list[Range]:
        """Return the parts of ranges in which records may pass. Raise the errors of ``Log.offset_at``."""
        first, behind = _common([_bounds(one) for one in self._filters if _column(one) == _OFFSET])
        time, _ = _common([_bounds(one) for one in self._filters if _column(one) == _TIME])
        found = []
        for partition, start, stop in ranges:
            start = start if first is None else max(start, first)
            stop = stop if behind is None else min(stop, behind)
            if start >= stop or not self._has(partition):
                continue
            if time is not None:
                at = log.offset_at(topic, partition, time)
                start = stop if at is None else max(start, at)
            if start < stop:
                found.append((partition, start, stop))
        return found

    def _has(self, partition: int) -> bool:
        return all(_holds(one, partition) is not False for one in self._filters if _column(one) == _PARTITION)


def is_exact(one: ds.Filter) -> bool:
    """Return whether ``PushedFilters`` selects exactly a filter's records, so that Spark need not filter again.

    >>> is_exact(ds.GreaterThan(("offset",), 5)), is_exact(ds.In(("offset",), (1, 9)))
    (True, False)
    """
    if isinstance(one, ds.IsNotNull):
        return _column(one) in (_PARTITION, _OFFSET, _TIME)  # every record has these
    if _column(one) == _OFFSET:
        return isinstance(one, _ORDERED) and isinstance(one.value, int)
    return _column(one) == _PARTITION and _holds(one, 0) is not None


_ORDERED = (ds.EqualTo, ds.GreaterThan, ds.GreaterThanOrEqual, ds.LessThan, ds.LessThanOrEqual)


def _column(one: ds.Filter) -> Any:
    inner = one.child if isinstance(one, ds.Not) else one
    return getattr(inner, "attribute", None)


def _holds(one: ds.Filter, number: int) -> bool | None:
    """Return whether a number passes a filter; None if that is unknown here."""
    if isinstance(one, ds.Not):
        inner = _holds(one.child, number)
        return None if inner is None else not inner
    if isinstance(one, ds.IsNotNull):
        return True
    if isinstance(one, ds.In):
        return number in one.value if all(isinstance(value, int) for value in one.value) else None
    first, behind = _bounds(one)
    if first is None and behind is None:
        return None
    return (first is None or number >= first) and (behind is None or number < behind)


def _bounds(one: ds.Filter) -> _Bounds:
    """Return the bounds, as whole numbers or milliseconds, of all values that pass a filter."""
    if isinstance(one, ds.In):
        values = [_number(value) for value in one.value]
        known = [value for value in values if value is not None]
        return (ceil(min(known)), floor(max(known)) + 1) if known and len(known) == len(values) else (None, None)
    value = _number(one.value) if isinstance(one, (*_ORDERED, ds.EqualNullSafe)) else None
    if value is None:
        return None, None
    if isinstance(one, ds.GreaterThan):
        return floor(value) + 1, None
    if isinstance(one, ds.GreaterThanOrEqual):
        return ceil(value), None
    if isinstance(one, ds.LessThan):
        return None, ceil(value)
    if isinstance(one, ds.LessThanOrEqual):
        return None, floor(value) + 1
    return ceil(value), floor(value) + 1


def _number(value: Any) -> Fraction | None:
    """Return one of Spark's literals: a number, or a time as milliseconds."""
    if isinstance(value, int):
        return Fraction(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        since = value - _EPOCH
        return Fraction((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds, 1000)
    return None


def _common(all_bounds: Sequence[_Bounds]) -> _Bounds:
    firsts = [first for first, _ in all_bounds if first is not None]
    behind = [end for _, end in all_bounds if end is not None]
    return max(firsts, default=None), min(behind, default=None)
