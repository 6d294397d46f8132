"""Python values as the JSON of an Arrow type: as ``json_columns`` writes columns of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from math import isfinite
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.types as is_

from penstock.errors import SerdeError
from penstock.messages import show
from penstock.serdes import json_columns
from penstock.serdes.json_columns import is_bytes, is_list, is_named, is_text
from penstock.serdes.json_types import limits

Write = Callable[[Any, str], Any]
"""Makes of a value what ``msgspec`` writes; the text says where the value is, for errors. It takes no None."""

_MICROSECONDS = {"s": 10**6, "ms": 10**3, "us": 1, "ns": 1}
_EXACT = Context(prec=100, traps=[Inexact, InvalidOperation])


def writer(kind: Any) -> Write:
    """Return the writer for an Arrow type. It raises ``SerdeError`` for a value of another type, or one it would
    change.

    >>> write = writer(pa.struct([("price", pa.decimal128(9, 2)), ("at", pa.timestamp("us", "UTC"))]))
    >>> write({"at": datetime(2026, 1, 2, tzinfo=UTC), "price": Decimal("1.5")}, "value")
    {'price': Decimal('1.50'), 'at': '2026-01-02T00:00:00Z'}
    """
    for fits, made in _WRITERS:
        if fits(kind):
            return made(kind)
    raise AssertionError(f"json_columns.check let {kind} through")


def _or_none(write: Write) -> Write:
    return lambda value, where: None if value is None else write(value, where)


def _refused(value: Any, where: str, kind: Any, why: str = "") -> SerdeError:
    problem = why or f"it is of type {type(value).__name__}"
    return SerdeError(f"{where} is {show(value)}, which does not fit the type {kind}: {problem}")


# --- what is nested --------------------------------------------------------------------------------------------------


def _struct(kind: Any) -> Write:
    fields = {field.name: _or_none(writer(field.type)) for field in kind}

    def write(value: Any, where: str) -> Any:
        if not isinstance(value, Mapping):
            raise _refused(value, where, kind)
        if value.keys() != fields.keys():
            missing, unknown = (", ".join(map(repr, names)) for names in (fields.keys() - value, value.keys() - fields))
            told = [f"it has no {missing} (say None for null)"] * bool(missing) + [f"{unknown} is no field"] * bool(
                unknown
            )
            raise _refused(value, where, kind, "; ".join(told))
        return {name: one(value[name], f"{where}.{name}") for name, one in fields.items()}

    return write


def _list(kind: Any) -> Write:
    element = _or_none(writer(kind.value_type))
    size = kind.list_size if is_.is_fixed_size_list(kind) else None

    def write(value: Any, where: str) -> Any:
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            raise _refused(value, where, kind)
        if size not in (None, len(value)):
            raise _refused(value, where, kind, f"it has {len(value)} elements")
        return [element(one, f"{where}.element") for one in value]

    return write


def _map(kind: Any) -> Write:
    key, item = writer(kind.key_type), _or_none(writer(kind.item_type))

    def write(value: Any, where: str) -> Any:
        pairs = list(value.items()) if isinstance(value, Mapping) else value
        if not isinstance(pairs, list | tuple) or not all(
            isinstance(one, list | tuple) and len(one) == 2 for one in pairs
        ):
            raise _refused(value, where, kind)
        found = [(key(one, f"{where}.key"), item(other, f"{where}.value")) for one, other in pairs]
        if not is_named(kind.key_type):
            return found
        if len(dict(found)) < len(found):
            raise _refused(value, where, kind, "two of its keys are equal")
        return dict(found)

    return write


# --- what is not -----------------------------------------------------------------------------------------------------


def _int(kind: Any) -> Write:
    least, most = limits(kind)

    def write(value: Any, where: str) -> Any:
        if type(value) is not int or not least <= value <= most:
            raise _refused(value, where, kind, "" if type(value) is not int else f"it goes from {least} to {most}")
        return value

    return write


def _float(kind: Any) -> Write:
    narrow: Any = {pa.float16(): np.float16, pa.float32(): np.float32}.get(kind)

    def write(value: Any, where: str) -> Any:
        if type(value) not in (int, float):
            raise _refused(value, where, kind)
        number = float(value)
        if narrow is not None and isfinite(number):
            with np.errstate(over="ignore"):
                number = float(narrow(number))
            if not isfinite(number):
                raise _refused(value, where, kind, "it is too large")
        return number if isfinite(number) else json_columns.text_of(number)

    return write


def _decimal(kind: Any) -> Write:
    unit = Decimal(1).scaleb(-kind.scale)

    def write(value: Any, where: str) -> Any:
        if type(value) not in (Decimal, int):
            raise _refused(value, where, kind)
        try:
            exact = Decimal(value).quantize(unit, context=_EXACT)
        except (Inexact, InvalidOperation):
            raise _refused(value, where, kind, f"it has {kind.scale} digits behind the point") from None
        if exact.adjusted() + kind.scale >= kind.precision and exact:
            raise _refused(value, where, kind, f"it has {kind.precision} digits")
        return exact

    return write


def _timestamp(kind: Any) -> Write:
    def write(value: Any, where: str) -> Any:
        if not isinstance(value, datetime):
            raise _refused(value, where, kind)
        if (value.tzinfo is None) != (kind.tz is None):
            raise _refused(value, where, kind, "it has a zone" if kind.tz is None else "it has no zone")
        if value.microsecond % _MICROSECONDS[kind.unit]:
            raise _refused(value, where, kind, f"it is more exact than {kind.unit}")
        if kind.tz is None:
            return value.replace(fold=0).isoformat()
        if kind.tz == "UTC":
            return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
        return json_columns.timestamps(pa.array([value], kind))[0]

    return write


def _time(kind: Any) -> Write:
    def write(value: Any, where: str) -> Any:
        if type(value) is not time or value.tzinfo is not None:
            raise _refused(value, where, kind)
        if value.microsecond % _MICROSECONDS[kind.unit]:
            raise _refused(value, where, kind, f"it is more exact than {kind.unit}")
        return value

    return write


def _duration(kind: Any) -> Write:
    most = (2**63 - 1) // {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]

    def write(value: Any, where: str) -> Any:
        if type(value) is not timedelta:
            raise _refused(value, where, kind)
        if value.microseconds % _MICROSECONDS[kind.unit]:
            raise _refused(value, where, kind, f"it is more exact than {kind.unit}")
        if abs(value.total_seconds()) >= most:
            raise _refused(value, where, kind, f"it has at most {most} seconds")
        return value

    return write


def _bytes(kind: Any) -> Write:
    size = kind.byte_width if is_.is_fixed_size_binary(kind) else None

    def write(value: Any, where: str) -> Any:
        if type(value) is not bytes:
            raise _refused(value, where, kind)
        if size not in (None, len(value)):
            raise _refused(value, where, kind, f"it has {len(value)} bytes")
        return value

    return write


def _instances(*types: type) -> Callable[[Any], Write]:
    """Writes values of exactly these types as they are."""

    def made(kind: Any) -> Write:
        def write(value: Any, where: str) -> Any:
            if type(value) not in types:
                raise _refused(value, where, kind)
            return value

        return write

    return made


_WRITERS: tuple[tuple[Callable[[Any], bool], Callable[[Any], Write]], ...] = (
    (is_.is_struct, _struct),
    (is_.is_map, _map),
    (is_list, _list),
    (is_.is_integer, _int),
    (is_.is_floating, _float),
    (is_.is_decimal, _decimal),
    (is_.is_timestamp, _timestamp),
    (is_.is_time, _time),
    (is_.is_duration, _duration),
    (is_bytes, _bytes),
    (is_text, _instances(str)),
    (is_.is_boolean, _instances(bool)),
    (is_.is_date, _instances(date)),
    (is_.is_null, _instances()),
    (lambda kind: isinstance(kind, pa.UuidType), _instances(UUID)),
)
