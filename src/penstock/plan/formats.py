"""The times of records whose values are envelopes: from a field of the row, or from the envelope itself."""

from __future__ import annotations

from typing import Any

from penstock.errors import SerdeError, TopologyError
from penstock.plan.fields import MISSING, field, found_at
from penstock.plan.functions import caller
from penstock.plan.timestamps import Extractor, Timestamp, extractor_of
from penstock.record import ConsumerRecord
from penstock.serdes.formats.base import Format
from penstock.values.times import UNITS, Unit, parsed, unit_named
from penstock.values.timestamps import TimestampExtractor, is_extractor


class RowTime(TimestampExtractor):
    """Takes the time of a record from a field of the row in its envelope, or from the envelope.

    Args:
        format: how to open the envelope.
        path: the field; None for the time of the envelope.
        unit: the unit of times given as numbers.
    """

    def __init__(self, format: Format, path: tuple[str, ...] | None, unit: Unit):
        self.format, self.path, self.unit = format, path, unit

    def extract(self, record: ConsumerRecord, partition_time: int) -> Any:
        """The time, or the one that the record carries: if there is no row, as after a deletion, and if the value is no
        envelope, which the next step says."""
        headers = dict(record.headers)
        if self.path is None:
            found = self.format.time(record.value, headers)
            return record.timestamp if found is None else found
        if record.value is None:
            return record.timestamp
        try:
            row = self.format.row(record.value, headers)
        except SerdeError:
            return record.timestamp
        return record.timestamp if row is None else self.of_row(row)

    def of_row(self, row: Any) -> Any:
        """The time in the field of one row; None if it has no such field."""
        assert self.path is not None
        found = found_at(row, self.path)
        if isinstance(found, int | float) and self.unit is not UNITS["ms"]:
            return parsed(found, self.unit)
        return None if found is MISSING else found


def row_time(given: Timestamp | None, format: Format, unit: str | None, method: str) -> Extractor | None:
    """Return the source of the times of records with envelopes; None for the times that they carry.

    Raises:
        TopologyError: it is a function, or both the format and ``timestamp=`` say it.
    """
    if format.event_time and given is not None:
        raise TopologyError(
            f"{method} at {caller()}: timestamp= and event_time=True of {format.name} both say the time of records; "
            "leave one out"
        )
    if given is not None and is_extractor(given):
        return extractor_of(given)
    if isinstance(given, str):
        path = field(given, "timestamp", format.value).path
        return extractor_of(RowTime(format, path, unit_named(unit, f"timestamp_unit at {caller()}")))
    if given is not None:
        raise TopologyError(
            f"{method} at {caller()}: with format={format.name}, timestamp= is the name of a field of the rows, or a "
            "TimestampExtractor, which gets the envelope; got a function. Name the field"
        )
    if unit is not None:
        raise TopologyError(f"timestamp_unit at {caller()} is for times in a field of the rows; name it in timestamp=")
    return extractor_of(RowTime(format, None, UNITS["ms"])) if format.event_time else None
