"""Columns of Arrow as JSON: one encoding for each type, which keeps every value exactly, or a refusal.

Whole rows, one column and what is nested in either are written the same way, by any of the methods that take tables:

    text, booleans, whole numbers   as JSON has them
    floats                          as JSON numbers, to the last bit; NaN and infinity are refused
    decimals, UUIDs                 as text: "12.50"
    timestamps                      as text in ISO 8601, to the microsecond: "2026-01-02T03:04:05.678901Z"
    dates, times of day, durations  as text in ISO 8601: "2026-01-02", "03:04:05", "P1D"
    nulls                           as null, those of fields too
    structs, lists                  as objects and arrays
    maps with keys of text          as objects; other keys are refused
    anything else                   is refused: bytes, intervals of months, extension types

``datetime``, ``date``, ``time``, ``timedelta``, ``Decimal`` and ``UUID`` in a dataclass read it back unchanged.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_

from penstock.arrays import Binary, binary
from penstock.errors import ConfigError, SerdeError

_ENCODER = msgspec.json.Encoder()
_FIRST, _LAST = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999 in seconds, the range of Python's times and of ISO 8601."""
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_BY_ITSELF = "Write the column by itself, as value=, or convert it to text (base64, hex)"
_CAST = "Convert it (cast), or leave it out (select)"


def is_text(kind: Any) -> bool:
    return bool(is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind))


def is_bytes(kind: Any) -> bool:
    sized = is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_fixed_size_binary(kind)
    return bool(sized or is_.is_binary_view(kind))


def check(kind: Any, name: str, method: str) -> None:
    """Raise ``ConfigError`` for a type that JSON cannot keep, also nested ones.

    Args:
        kind: the Arrow type.
        name: the column, and the path to the nested field.
        method: the public method, for messages.
    """
    if is_.is_dictionary(kind):
        check(kind.value_type, name, method)
    elif is_.is_struct(kind):
        fields = list(kind)
        names = [field.name for field in fields]
        for field in fields:
            if names.count(field.name) > 1:
                raise _refused(kind, name, method, f"it has two fields {field.name!r}", "Rename one of them")
            check(field.type, f"{name}.{field.name}", method)
    elif is_.is_map(kind):
        if not is_text(kind.key_type):
            raise _refused(kind, name, method, "the names in a JSON object are text", "Cast its keys: map<string, ...>")
        check(kind.item_type, f"{name}.value", method)
    elif _is_list(kind):
        if _in_microseconds(kind) == kind and _in_microseconds(kind.value_type) != kind.value_type:
            raise _refused(kind, name, method, "Arrow cannot look into such lists", _CAST)
        check(kind.value_type, f"{name}.element", method)
    elif is_bytes(kind):
        raise _refused(kind, name, method, "JSON has no bytes", _BY_ITSELF)
    elif not _is_plain(kind):
        raise _refused(kind, name, method, "JSON has nothing like it", _CAST)


def encode(values: Any, name: str, method: str) -> Binary:
    """Return a column with each value as JSON; a null stays null.

    Raises:
        SerdeError: JSON cannot keep a value.
        ConfigError: JSON cannot keep the type.
    """
    check(values.type, name, method)
    return _lines(_values(values, name, method), name, method)


def encode_rows(batch: Any, method: str) -> Binary:
    """Return each row of a record batch as a JSON object; raises like ``encode``."""
    for field in batch.schema:
        check(field.type, field.name, method)
    columns = [_values(values, name, method) for name, values in zip(batch.schema.names, batch.columns, strict=True)]
    return _lines(_objects(batch.schema.names, columns, batch.num_rows), "", method)


def _refused(kind: Any, name: str, method: str, why: str, way_out: str) -> ConfigError:
    return ConfigError(f"{method}: column {name!r} is of type {kind}, which JSON would change: {why}. {way_out}")


def _is_list(kind: Any) -> bool:
    sized = is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind)
    return bool(sized or is_.is_list_view(kind) or is_.is_large_list_view(kind))


def _is_plain(kind: Any) -> bool:
    number = is_.is_integer(kind) or is_.is_floating(kind) or is_.is_decimal(kind) or is_.is_boolean(kind)
    time = is_.is_timestamp(kind) or is_.is_date(kind) or is_.is_time(kind) or is_.is_duration(kind)
    return bool(number or time or is_.is_null(kind) or is_text(kind) or isinstance(kind, pa.UuidType))


def _lines(values: list[Any], name: str, method: str) -> Binary:
    try:
        lines: list[bytes | None] = _ENCODER.encode_lines(values).split(b"\n")[:-1]  # type: ignore[assignment]
    except (TypeError, ValueError, OverflowError) as error:
        raise SerdeError(f"{method}: column {name!r} holds what cannot be written as JSON: {error}") from None
    for row in [row for row, value in enumerate(values) if value is None]:
        lines[row] = None
    return binary(lines)


def _objects(names: list[str], columns: list[list[Any]], count: int) -> list[Any]:
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] if names else [{}] * count


def _values(array: Any, name: str, method: str) -> list[Any]:
    """Return the values of a column in the form that ``msgspec`` writes."""
    kind = array.type
    try:
        if is_.is_dictionary(kind):
            known = [*_values(array.dictionary, name, method), None]
            return [known[code] for code in array.indices.fill_null(len(known) - 1).to_pylist()]
        if is_.is_struct(kind):
            return _struct(array, name, method)
        if is_.is_timestamp(kind):
            return _timestamps(array)
        _check_numbers(array, name, method)
        exact = _in_microseconds(kind)
        array = array if exact == kind else array.cast(exact)
        values: list[Any] = array.to_pylist(maps_as_pydicts="strict") if is_.is_nested(kind) else array.to_pylist()
    except (pa.ArrowInvalid, OverflowError, ValueError, KeyError) as error:
        if isinstance(error, SerdeError):
            raise
        raise SerdeError(f"{method}: column {name!r} holds a value that JSON would change: {error}. {_CAST}") from None
    return values


def _struct(array: Any, name: str, method: str) -> list[Any]:
    names = [field.name for field in array.type]
    columns = [_values(part, f"{name}.{field}", method) for field, part in zip(names, array.flatten(), strict=True)]
    objects = _objects(names, columns, len(array))
    if array.null_count:
        for row in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
            objects[row] = None
    return objects


def _timestamps(array: Any) -> list[Any]:
    """Return times in ISO 8601 as ``msgspec`` writes them, by columns: one by one takes twenty times as long."""
    kind = array.type
    limits = pc.min_max(array.cast(pa.int64())).as_py().values()
    if any(one is not None and not _FIRST <= one // _PER_SECOND[kind.unit] <= _LAST for one in limits):
        raise OverflowError("a time outside of the years 1 to 9999")
    array = array.cast(pa.timestamp("us", tz=kind.tz))
    if kind.tz in (None, "UTC"):
        text = pc.replace_substring(array.cast(pa.timestamp("us")).cast(pa.string()), " ", "T")
        text = text if kind.tz is None else pc.binary_join_element_wise(text, "Z", "")
    else:
        text = pc.strftime(array, "%Y-%m-%dT%H:%M:%S%Ez")
    values: list[Any] = pc.replace_substring(text, ".000000", "").to_pylist()
    return values


def _check_numbers(array: Any, name: str, method: str) -> None:
    """Raise ``SerdeError`` for a number that JSON cannot represent, at any depth."""
    kind = array.type
    if is_.is_floating(kind):
        wide = array.cast(pa.float64())
        bad = wide.filter(pc.invert(pc.is_finite(wide)).fill_null(False))
        if len(bad):
            raise SerdeError(
                f"{method}: column {name!r} holds {bad[0].as_py()}, and JSON has no such number. Replace it (null, "
                "text), leave such rows out, or write the column by itself, as value=, into a topic of float"
            )
    elif is_.is_map(kind):
        _check_numbers(array.filter(array.is_valid()).items, f"{name}.value", method)
    elif _is_list(kind):
        _check_numbers(array.flatten(), f"{name}.element", method)
    elif is_.is_struct(kind):
        for field, part in zip(kind, array.flatten(), strict=True):
            _check_numbers(part, f"{name}.{field.name}", method)
    elif is_.is_dictionary(kind):
        _check_numbers(array.dictionary, name, method)


def _in_microseconds(kind: Any) -> Any:
    """Return the type with times in Python's units, so that a cast fails for more precise values."""
    if is_.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", tz=kind.tz)
    if is_.is_time(kind) and kind == pa.time64("ns"):
        return pa.time64("us")
    if is_.is_duration(kind) and kind.unit == "ns":
        return pa.duration("us")
    if kind == pa.float16():
        return pa.float32()
    if is_.is_struct(kind):
        return pa.struct([pa.field(field.name, _in_microseconds(field.type)) for field in kind])
    if is_.is_map(kind):
        return pa.map_(kind.key_type, _in_microseconds(kind.item_type))
    if is_.is_fixed_size_list(kind):
        return pa.list_(_in_microseconds(kind.value_type), kind.list_size)
    if is_.is_large_list(kind):
        return pa.large_list(_in_microseconds(kind.value_type))
    return pa.list_(_in_microseconds(kind.value_type)) if is_.is_list(kind) else kind
