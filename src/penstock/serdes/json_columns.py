"""Columns of Arrow as JSON: one encoding for each type, which keeps every value exactly, or a refusal.

Whole rows, one column and what is nested in either are written the same way, by any of the methods that take tables:

    text, booleans, whole numbers   as JSON has them
    floats                          as JSON numbers, to the last bit; "NaN", "Infinity" and "-Infinity" as text
    decimals, UUIDs                 as text: "12.50"
    timestamps                      as text in ISO 8601, to the microsecond: "2026-01-02T03:04:05.678901Z"
    dates, times of day, durations  as text in ISO 8601: "2026-01-02", "03:04:05", "P1D"
    bytes                           as text in base64: "3q2+7w=="
    nulls                           as null, those of fields too
    structs, lists                  as objects and arrays
    maps                            as objects whose names are the keys as text: {"2026-01-02": 1}
    maps with other keys            as arrays of [key, value]: booleans, structs, lists and maps
    anything else                   is refused: intervals of months, extension types

``json_types`` has the Python types that read it back.
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
_END, _MINUTE = (_LAST + 1) * 10**6, 60 * 10**6
"""The end of these years, and the smallest unit of a zone's offset in ISO 8601, in microseconds."""
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_CAST = "Convert it (cast), or leave it out (select)"


def is_text(kind: Any) -> bool:
    return bool(is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind))


def is_bytes(kind: Any) -> bool:
    sized = is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_fixed_size_binary(kind)
    return bool(sized or is_.is_binary_view(kind))


def is_list(kind: Any) -> bool:
    sized = is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind)
    return bool(sized or is_.is_list_view(kind) or is_.is_large_list_view(kind))


def is_named(kind: Any) -> bool:
    """Whether maps with keys of a type are JSON objects, which have text for names; others are arrays of pairs."""
    is_pair = is_.is_nested(kind) or is_.is_boolean(kind) or is_.is_null(kind)
    return is_named(kind.value_type) if is_.is_dictionary(kind) else not is_pair


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
        check(kind.key_type, f"{name}.key", method)
        check(kind.item_type, f"{name}.value", method)
    elif is_list(kind):
        check(kind.value_type, f"{name}.element", method)
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


def _is_plain(kind: Any) -> bool:
    number = is_.is_integer(kind) or is_.is_floating(kind) or is_.is_decimal(kind) or is_.is_boolean(kind)
    time = is_.is_timestamp(kind) or is_.is_date(kind) or is_.is_time(kind) or is_.is_duration(kind)
    others = is_.is_null(kind) or is_text(kind) or is_bytes(kind) or isinstance(kind, pa.UuidType)
    return bool(number or time or others)


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
    if array.null_count == len(array):  # Arrow cannot look into all kinds of nothing
        return [None] * len(array)
    try:
        if is_.is_dictionary(kind):
            known = [*_values(array.dictionary, name, method), None]
            return [known[code] for code in array.indices.fill_null(len(known) - 1).to_pylist()]
        if is_.is_struct(kind):
            return _struct(array, name, method)
        if is_.is_map(kind):
            return _maps(array, name, method)
        if is_list(kind):
            return _lists(array, name, method)
        if is_.is_timestamp(kind):
            return timestamps(array)
        if is_.is_floating(kind):
            return _floats(array)
        exact = _in_microseconds(kind)
        values: list[Any] = (array if exact == kind else array.cast(exact)).to_pylist()
    except (pa.ArrowInvalid, OverflowError, ValueError) as error:
        if isinstance(error, SerdeError):
            raise
        raise SerdeError(f"{method}: column {name!r} holds a value that JSON would change: {error}. {_CAST}") from None
    return values


def _in_rows(values: list[Any], lengths: list[int | None]) -> list[Any]:
    """Values cut into lists of these lengths, or None."""
    rows: list[Any] = []
    end = 0
    for length in lengths:
        start, end = end, end + (length or 0)
        rows.append(None if length is None else values[start:end])
    return rows


def _lists(array: Any, name: str, method: str) -> list[Any]:
    if is_.is_list(array.type) or is_.is_large_list(array.type):
        (elements,), lengths = _inside(array, array.values)
    else:
        elements, lengths = array.flatten(), pc.list_value_length(array).to_pylist()
    return _in_rows(_values(elements, f"{name}.element", method), lengths)


def _maps(array: Any, name: str, method: str) -> list[Any]:
    (keys, items), lengths = _inside(array, array.keys, array.items)
    pairs = zip(_values(keys, f"{name}.key", method), _values(items, f"{name}.value", method), strict=True)
    found = _in_rows(list(pairs), lengths)
    return [None if one is None else _named(one) for one in found] if is_named(array.type.key_type) else found


def _inside(array: Any, *children: Any) -> tuple[list[Any], list[int | None]]:
    """The items of lists or maps, without items of nulls and outside the slice; and the number of items of each."""
    offsets, valid = array.offsets.to_numpy(), array.is_valid().to_numpy(zero_copy_only=False)
    lengths = np.diff(offsets)
    if lengths[~valid].any():
        ranges = list(zip(offsets[:-1][valid].tolist(), lengths[valid].tolist(), strict=True))
        found = [pa.concat_arrays([one.slice(*range_) for range_ in ranges]) for one in children]
    else:
        found = [one.slice(int(offsets[0]), int(lengths.sum())) for one in children]
    return found, [length if there else None for length, there in zip(lengths.tolist(), valid.tolist(), strict=True)]


def _named(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"in maps with duplicate keys one would be lost; the duplicate key was {_twice(keys)!r}")
    return found


def _twice(keys: list[Any]) -> Any:
    return next(key for number, key in enumerate(keys) if key in keys[:number])


def _floats(array: Any) -> list[Any]:
    """Numbers, and text for those that JSON does not have."""
    array = array.cast(pa.float32()) if array.type == pa.float16() else array
    values: list[Any] = array.to_pylist()
    for row in np.flatnonzero(pc.invert(pc.is_finite(array)).fill_null(False).to_numpy(zero_copy_only=False)).tolist():
        values[row] = text_of(values[row])
    return values


def text_of(number: float) -> str:
    """How JSON has a float that is no number or not finite.

    >>> text_of(float("-inf"))
    '-Infinity'
    """
    return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"


def _struct(array: Any, name: str, method: str) -> list[Any]:
    names = [field.name for field in array.type]
    columns = [_values(part, f"{name}.{field}", method) for field, part in zip(names, array.flatten(), strict=True)]
    objects = _objects(names, columns, len(array))
    if array.null_count:
        for row in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
            objects[row] = None
    return objects


def timestamps(array: Any) -> list[Any]:
    """Return times in ISO 8601 as ``msgspec`` writes them, by columns: one by one takes twenty times as long.

    They have the offset of their zone if it is of whole minutes, which ISO 8601 can express; else they are in UTC.
    """
    kind = array.type
    limits = pc.min_max(array.cast(pa.int64())).as_py().values()
    if any(one is not None and not _FIRST <= one // _PER_SECOND[kind.unit] <= _LAST for one in limits):
        raise OverflowError("a time outside of the years 1 to 9999")
    array = array.cast(pa.timestamp("us", tz=kind.tz))
    text = pc.replace_substring(array.cast(pa.timestamp("us")).cast(pa.string()), " ", "T")
    if kind.tz is not None:
        text = pc.binary_join_element_wise(text, "Z", "")
    if kind.tz not in (None, "UTC"):
        local = pc.local_timestamp(array).cast(pa.int64())
        offset = pc.subtract(local, array.cast(pa.int64()))
        seconds = pc.subtract(offset, pc.multiply(pc.divide(offset, _MINUTE), _MINUTE))
        has_text = pc.and_(pc.equal(seconds, 0), pc.and_(pc.greater_equal(local, _FIRST * 10**6), pc.less(local, _END)))
        text = pc.if_else(has_text, pc.strftime(array, "%Y-%m-%dT%H:%M:%S%Ez"), text)
    values: list[Any] = pc.replace_substring(text, ".000000", "").to_pylist()
    return values


def _in_microseconds(kind: Any) -> Any:
    """Return the type with times in Python's units, so that a cast fails for more precise values."""
    if is_.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", tz=kind.tz)
    if is_.is_time(kind) and kind == pa.time64("ns"):
        return pa.time64("us")
    if is_.is_duration(kind) and kind.unit == "ns":
        return pa.duration("us")
    return kind
