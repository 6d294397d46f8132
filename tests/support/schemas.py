"""Random schemas of Arrow, and values for them in Python's own types."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as is_
from hypothesis import strategies as st

from penstock.serdes.json_columns import is_bytes, is_list, is_named, is_text
from penstock.serdes.json_types import limits

ZONES = (None, "UTC", "Europe/Berlin", "America/St_Johns", "+05:30")
UNITS = ("s", "ms", "us", "ns")
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)

PLAIN = [
    *(pa.bool_(), pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary(3)),
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.uuid()),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), *map(pa.duration, UNITS)),
]
scalars = st.one_of(
    st.sampled_from(PLAIN),
    st.builds(pa.timestamp, st.sampled_from(UNITS), st.sampled_from(ZONES)),
    st.integers(1, 38).flatmap(lambda digits: st.builds(pa.decimal128, st.just(digits), st.integers(0, digits))),
    st.integers(39, 76).flatmap(lambda digits: st.builds(pa.decimal256, st.just(digits), st.integers(0, digits))),
)


def fields(kinds: st.SearchStrategy[Any], least: int = 0) -> st.SearchStrategy[Any]:
    """Columns of a schema, or fields of a struct."""
    return st.lists(st.tuples(names, kinds), min_size=least, max_size=4, unique_by=lambda field: field[0])


kinds = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.builds(pa.list_, inner),
        st.builds(pa.large_list, inner),
        st.builds(pa.list_, inner, st.integers(1, 3)),
        st.builds(pa.map_, inner, inner),
        st.builds(pa.struct, fields(inner)),
    ),
    max_leaves=5,
)
schemas = st.builds(pa.schema, fields(kinds, 1))


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type, and nulls."""
    return st.none() | present(kind)


def present(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type."""
    if is_.is_struct(kind):
        return st.fixed_dictionaries({field.name: values(field.type) for field in kind})
    if is_.is_map(kind):
        keys, items = present(kind.key_type), values(kind.item_type)
        pairs = st.lists(st.tuples(keys, items), max_size=3, unique_by=lambda pair: repr(pair[0]))
        if not is_named(kind.key_type):
            return pairs
        return st.dictionaries(keys.filter(lambda key: key == key), items, max_size=3)
    if is_list(kind):
        least, most = (kind.list_size,) * 2 if is_.is_fixed_size_list(kind) else (0, 3)
        return st.lists(values(kind.value_type), min_size=least, max_size=most)
    return _scalar(kind)


def _scalar(kind: Any) -> st.SearchStrategy[Any]:
    if is_.is_integer(kind):
        return st.integers(*limits(kind))
    if is_.is_floating(kind):
        return st.floats(width=kind.bit_width)
    if is_.is_decimal(kind):
        most = 10**kind.precision - 1
        return st.integers(-most, most).map(lambda number: _decimal(number, kind.scale))
    if is_.is_timestamp(kind):
        least = datetime(1678, 1, 1) if kind.unit == "ns" else datetime(1, 1, 3)
        most = datetime(2262, 1, 1) if kind.unit == "ns" else datetime(9999, 12, 29)
        zones = st.none() if kind.tz is None else st.just(UTC)
        return st.datetimes(least, most, timezones=zones, allow_imaginary=False).map(lambda one: _whole(one, kind.unit))
    if is_.is_time(kind):
        return st.times().map(lambda one: _whole(one, kind.unit))
    if is_.is_duration(kind):
        most = timedelta(seconds=min(2**63 // _PER_SECOND[kind.unit], 10**13) - 1)
        return st.timedeltas(-most, most).map(lambda one: _whole(one, kind.unit))
    if is_bytes(kind):
        return st.binary(min_size=3, max_size=3) if is_.is_fixed_size_binary(kind) else st.binary(max_size=5)
    if is_.is_date(kind):
        return st.dates()
    return st.booleans() if is_.is_boolean(kind) else st.text(max_size=5) if is_text(kind) else st.uuids()


def _decimal(number: int, scale: int) -> Decimal:
    sign, digits = int(number < 0), tuple(map(int, str(abs(number))))
    return Decimal((sign, digits, -scale))


def _whole(one: Any, unit: str) -> Any:
    """A time without what its unit has no room for."""
    coarse = {"s": 10**6, "ms": 10**3}.get(unit, 1)
    if isinstance(one, timedelta):
        return one - timedelta(microseconds=one.microseconds % coarse)
    return one.replace(microsecond=one.microsecond // coarse * coarse, fold=0)


@st.composite
def tables(draw: Any, schemas: st.SearchStrategy[Any] = schemas, rows: int = 4) -> tuple[Any, list[dict[str, Any]]]:
    """A table, and its rows as Python has them."""
    schema = draw(schemas)
    found = draw(st.lists(st.fixed_dictionaries({one.name: values(one.type) for one in schema}), max_size=rows))
    return table_of(schema, found), found


def table_of(schema: Any, rows: list[dict[str, Any]]) -> Any:
    """Rows as a record batch, with UUIDs too, which Arrow makes of no Python values inside of others."""
    from penstock.serdes.json_types import stored

    kind = pa.struct(list(schema))
    made = pa.array(rows, stored(kind)).cast(kind)
    return pa.RecordBatch.from_struct_array(made)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same, of the same types, to the bit: NaN is NaN, -0.0 is not 0.0."""
    if isinstance(one, dict):
        return isinstance(other, dict) and same(_sorted(one), _sorted(other))
    if isinstance(one, list | tuple):
        alike = isinstance(other, list | tuple) and len(one) == len(other)
        return alike and all(same(*pair) for pair in zip(one, other, strict=True))
    if isinstance(one, datetime) and isinstance(other, datetime):
        return one == other and (one.tzinfo is None) == (other.tzinfo is None)
    if isinstance(one, float) and isinstance(other, float):
        return repr(one) == repr(other)
    return type(one) is type(other) and bool(one == other)


def _sorted(found: dict[Any, Any]) -> list[Any]:
    return sorted(found.items(), key=lambda pair: repr(pair[0]))


def first_difference(one: Any, other: Any) -> str:
    """Where two lists of rows differ first, for messages."""
    pairs = zip(one, other, strict=False)
    return next(
        (f"{name}: {a[name]!r} != {b[name]!r}" for a, b in pairs for name in b if not same(a.get(name), b[name])), ""
    )
