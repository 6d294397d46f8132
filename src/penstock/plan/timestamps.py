"""The times of a source's records: from a field, a function, or an extractor (KS-07)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from penstock.errors import ConfigError, TopologyError
from penstock.plan.aggregates.reading import field_type
from penstock.plan.fields import time_field
from penstock.plan.functions import UserFunction, caller, user_function
from penstock.serdes import Serde
from penstock.usage.calls import why_methods_unusable
from penstock.values.times import unit_named
from penstock.values.timestamps import (
    InvalidTimestampExtractor,
    TimestampExtractor,
    WallclockTimestampExtractor,
    is_extractor,
)

Timestamp = (
    Callable[[Any], int | datetime]
    | Callable[[Any, Any], int | datetime]
    | str
    | TimestampExtractor
    | type[TimestampExtractor]
)
"""Where a record's time comes from: a function of (value) or (key, value), a field of the value, or an extractor."""


@dataclass(frozen=True)
class Extractor:
    """An extractor, the user's or a built-in one, whose method ``extract`` is used as a function."""

    extractor: Any
    function: UserFunction

    @property
    def looks_into_records(self) -> bool:
        """True if it may use keys and values; built-in extractors use only the carried time."""
        return type(self.extractor).__module__ != TimestampExtractor.__module__

    @property
    def is_wall_clock(self) -> bool:
        return type(self.extractor) is WallclockTimestampExtractor

    @property
    def is_of_carried_times(self) -> bool:
        """True if it only passes on the time that a record carries, where there is one."""
        return isinstance(self.extractor, InvalidTimestampExtractor) and (
            type(self.extractor).extract is InvalidTimestampExtractor.extract
        )


def timestamp_of(given: Timestamp | None, value: Serde, unit: str | None = None) -> UserFunction | Extractor | None:
    """Return the source of the times of records; None for the times that they carry.

    Args:
        given: the user's argument.
        value: the type of the source's values.
        unit: the unit of numeric times in a field; None for milliseconds.

    Raises:
        TopologyError: it has none of the forms.
    """
    try:
        of_field = unit_named(unit, f"timestamp_unit at {caller()}")
    except ConfigError as error:
        raise TopologyError(str(error)) from None
    if isinstance(given, str):
        named = time_field(given, value, of_field)
        field_type(given, f"timestamp at {named.where}", value)
        return named
    if unit is not None:
        got = "there is no timestamp=" if given is None else "timestamp= is none"
        raise TopologyError(
            f"timestamp_unit at {caller()} is for times in a field of the value, but {got}: name a field; functions "
            "and extractors return milliseconds or a datetime"
        )
    if given is not None and is_extractor(given):
        return extractor_of(given)
    return None if given is None else user_function(given, "timestamp", ("value",), ("key", "value"), context=True)


def extractor_of(given: Any) -> Extractor:
    """Return an extractor, which may be given as an object or as a class."""
    try:
        extractor = given() if isinstance(given, type) else given
    except TypeError as error:
        raise TopologyError(
            f"timestamp at {caller()}: an extractor cannot be made of {given.__name__} without arguments ({error}); "
            "give one, not its class"
        ) from None
    function = user_function(extractor.extract, "timestamp: extract", ("record", "partition_time"))
    if why := why_methods_unusable(extractor, "on_invalid_timestamp"):
        raise TopologyError(f"timestamp at {caller()}: of the extractor {type(extractor).__name__} {why}")
    return Extractor(extractor, function)
