"""Converts any library's tables to Arrow record batches, and their columns to keys, values and times of records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, IntArray, nulls
from penstock.columns.batch import HEADERS
from penstock.columns.returned import from_arrow
from penstock.errors import ConfigError, SerdeError
from penstock.log.contract.topics import TopicInfo
from penstock.log.records import Records
from penstock.log.rows import BATCH_BYTES, BATCH_ROWS, now
from penstock.log.schema import packed
from penstock.serdes import BYTES, FLOAT, INT, JSON, STR, Serde, json_columns
from penstock.serdes.json_types import plain
from penstock.serdes.row import plain_serde
from penstock.values.times import UNITS, Unit, parsed, unit_named

_ARROW_TYPES = {INT.name: pa.int64(), FLOAT.name: pa.float64(), STR.name: pa.string(), BYTES.name: pa.binary()}
_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
"""pandas' column name of an index without a name."""


def reader_of(columns: Any, method: str) -> Any:
    """Return a table of any library as a reader of record batches.

    Raises:
        ConfigError: it is no table, or Arrow does not know a column's type.
    """
    if isinstance(columns, Mapping):
        columns = _table(dict(columns), method)
    elif isinstance(columns, pa.RecordBatch):
        columns = pa.Table.from_batches([columns])
    if not hasattr(columns, "__arrow_c_stream__"):
        raise ConfigError(
            f"{method} takes a dict of arrays, an Arrow table or an object that Arrow can read; "
            f"got {type(columns).__name__}"
        )
    _check_no_objects(columns, method)
    try:
        return pa.RecordBatchReader.from_stream(columns)
    except Exception as error:  # the library that made the table may raise anything
        raise _unreadable(columns, method, error) from None


def small(batch: Any) -> Iterator[Any]:
    """A record batch in pieces of at most ``BATCH_ROWS`` rows and about ``BATCH_BYTES``."""
    if batch.num_rows > BATCH_ROWS or (batch.num_rows > 1 and batch.nbytes > BATCH_BYTES):
        half = min(batch.num_rows // 2, BATCH_ROWS)
        yield from small(batch.slice(0, half))
        yield from small(batch.slice(half))
    else:
        yield batch


def _table(columns: dict[Any, Any], method: str) -> Any:
    arrays = {}
    for name, values in columns.items():
        try:
            arrays[str(name)] = pa.table({"": values}).column(0)
        except Exception as error:
            raise _mixed(method, name, error) from None
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
        raise ConfigError(f"{method}: the columns of a table have equally many values; {told}. Fill the shorter ones")
    return pa.table(arrays)


def _check_no_objects(columns: Any, method: str) -> None:
    """Refuse polars' columns of Python objects, because polars passes their addresses to Arrow."""
    if type(columns).__module__.partition(".")[0] != "polars" or not hasattr(columns, "collect_schema"):
        return
    for name, kind in columns.collect_schema().items():
        if "Object" in str(kind):
            raise _mixed(method, name, TypeError(f"it is of type {kind}"))


def _unreadable(columns: Any, method: str, error: Exception) -> ConfigError:
    """Return the error for a DataFrame that cannot become Arrow, naming the first bad column, if any."""
    names = list(getattr(columns, "columns", ()))
    _check_names(names, method)
    for name in names:
        try:
            pa.RecordBatchReader.from_stream(columns[[name]])
        except Exception as found:
            return _mixed(method, name, found)
    return ConfigError(f"{method}: Arrow cannot read this {type(columns).__name__}: {_first_line(error)}")


def _check_names(names: list[str], method: str) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"{method}: there are two columns {twice!r}; rename one of them")


def _unnamed_index(schema: Any) -> list[str]:
    """The columns of an index of pandas that has no name."""
    said = json.loads((schema.metadata or {}).get(b"pandas", b"{}")).get("index_columns", [])
    return [name for name in said if isinstance(name, str) and _UNNAMED_INDEX.fullmatch(name)]


def _check_index(schema: Any, method: str) -> None:
    """Raise an error for an index of pandas that would be lost: an unnamed index that is more than row numbers, or an
    index with the name of a column, which pandas leaves out."""
    for name in _unnamed_index(schema):
        if name in schema.names and not pa.types.is_integer(schema.field(name).type):
            raise ConfigError(
                f"{method}: the index of this DataFrame has no name and holds {schema.field(name).type}. Give "
                'it a name to have it as a column (df.rename_axis("name")), or drop it '
                "(df.reset_index(drop=True))"
            )
    told = json.loads((schema.metadata or {}).get(b"pandas", b"{}")).get("columns", [])
    for column in told:
        if column["name"] is not None and _UNNAMED_INDEX.fullmatch(column["field_name"] or ""):
            raise ConfigError(
                f"{method}: the index of this DataFrame has the name {column['name']!r}, as a column has. Give it "
                'another one (df.rename_axis("name")), or drop it (df.reset_index(drop=True))'
            )


def _mixed(method: str, name: object, error: Exception) -> ConfigError:
    return ConfigError(
        f"{method}: column {str(name)!r} does not hold values of one type that Arrow knows: {_first_line(error)}. "
        "Convert the column to one type (astype, cast), or leave it out"
    )


def _first_line(error: Exception) -> str:
    text = str(error.args[0] if error.args else error)
    return text.partition("\n")[0].rstrip(".")


def serde_of(kind: Any) -> Serde:
    """Return the serde for values of an Arrow type."""
    return plain_serde(kind.value_type if pa.types.is_dictionary(kind) else kind) or JSON


class Chosen(NamedTuple):
    """The columns of a table with the keys, values and times of records, and the public method for messages."""

    method: str
    key: str | tuple[str, ...] | None
    """Several columns make a struct of them."""
    value: str | None
    timestamp: str | None
    timestamp_unit: str | None = None
    """The unit of times that are numbers; milliseconds by default."""
    headers: str | None = None
    """The column with the headers."""

    def types(self, schema: Any) -> tuple[Serde, Serde]:
        """Return the types of the keys and of the values.

        Raises:
            ConfigError: a column does not exist, the column of times has none, or JSON cannot keep a column's values.
        """
        for name in self.names():
            if name not in schema.names:
                known = ", ".join(schema.names)
                guess = f"; names are text: say {str(name)!r}" if str(name) in schema.names else ""
                raise ConfigError(f"{self.method}: there is no column {name!r}; the columns are {known}{guess}")
        _check_names(schema.names, self.method)
        unit = unit_named(self.timestamp_unit, f"{self.method}: timestamp_unit")
        self._check_unit(schema)
        if self.timestamp is not None and not _holds_times(kind := schema.field(self.timestamp).type, unit):
            raise ConfigError(f"{self._times_must_be()} {kind}")
        if self.headers is not None:
            _check_headers(schema.field(self.headers).type, self.headers, self.method)
        if self.value is None:
            _check_index(schema, self.method)
        columns = self._columns(schema)
        keys, values = (serde_of(columns[part].type) if part in columns else BYTES for part in ("key", "value"))
        as_json = list(self.keys) if keys is JSON else []
        as_json += self._in_rows(schema) if self.value is None else [self.value] if values is JSON else []
        for name in as_json:
            json_columns.check(schema.field(name).type, str(name), self.method)
        if isinstance(self.key, tuple):
            check_composite(columns["key"].type, self.method)
        return keys, values

    def _check_unit(self, schema: Any) -> None:
        """Raise an error for a unit that no column's times are in."""
        if self.timestamp_unit is None:
            return
        if self.timestamp is None:
            why = "there is no timestamp=: name the column with the times"
        elif not _is_number(kind := schema.field(self.timestamp).type):
            why = f"the column {self.timestamp!r} holds {kind}, which says its own: leave timestamp_unit out"
        else:
            return
        said = f"{self.method}: timestamp_unit={self.timestamp_unit!r}"
        raise ConfigError(f"{said} is for times that are numbers, but {why}")

    def topic(self, name: str, partitions: int, schema: Any, spark: str = "") -> TopicInfo:
        """Return the description of a new topic for these columns; raises as ``types`` does.

        Args:
            spark: the columns ``key`` and ``value`` in Spark's own words, if they are Spark's.
        """
        keys, values = self.types(schema)
        kinds = [pa.field(part, plain(field.type)) for part, field in self._columns(schema).items()]
        return TopicInfo(name, partitions, keys.name, values.name, schema=packed(pa.schema(kinds), spark))

    def names(self) -> list[str]:
        """The columns that are named."""
        return [name for name in (*self.keys, self.value, self.timestamp, self.headers) if name is not None]

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that the keys are made of."""
        return self.key if isinstance(self.key, tuple) else () if self.key is None else (self.key,)

    def _columns(self, schema: Any) -> dict[str, Any]:
        """The fields that keys and values are; a struct of several columns."""
        found = {}
        if self.key is not None:
            found["key"] = _struct(schema, self.keys) if isinstance(self.key, tuple) else schema.field(self.key)
        found["value"] = _struct(schema, self._in_rows(schema)) if self.value is None else schema.field(self.value)
        return found

    def encode(self, batch: Any) -> Records:
        """Return a record batch of the table as records."""
        if isinstance(self.key, tuple):
            keys = json_columns.encode_rows(batch.select(list(self.key)), self.method)
        else:
            keys = nulls(batch.num_rows) if self.key is None else self._column(batch, self.key)
        if self.value is None:
            rows = batch.select(self._in_rows(batch.schema))
            values = json_columns.encode_rows(rows, self.method)
        else:
            values = self._column(batch, self.value)
        headers = None if self.headers is None else _headers(batch.column(self.headers), self.headers, self.method)
        return Records(-1, keys, values, self._times(batch), headers)

    def _in_rows(self, schema: Any) -> list[str]:
        """Return the columns that form a JSON object: all but the headers and an unnamed index of pandas."""
        unnamed = _unnamed_index(schema)
        return [name for name in schema.names if name not in unnamed and name != self.headers]

    def _column(self, batch: Any, name: str) -> Binary:
        values = batch.column(name)
        serde = serde_of(values.type)
        if serde is JSON:
            return json_columns.encode(values, name, self.method)
        try:
            if serde is STR:
                _check_text(values)
            return from_arrow(_cast(values, _ARROW_TYPES[serde.name]), serde).encoded()
        except pa.ArrowInvalid as error:
            raise ConfigError(f"{self.method}: column {name!r} does not fit the type {serde.name}: {error}") from None

    def _times(self, batch: Any) -> IntArray:
        """Return timestamps in milliseconds."""
        if self.timestamp is None:
            return np.full(batch.num_rows, now())
        times = batch.column(self.timestamp)
        if times.null_count:
            row = pc.index(times.is_null(), True).as_py()
            raise ConfigError(
                f"{self.method}: column {self.timestamp!r} holds no time in row {row} of {len(times)} (null or NaT). "
                "Fill it (fillna, fill_null, coalesce), or leave such rows out"
            )
        is_text, unit = json_columns.is_text(times.type), unit_named(self.timestamp_unit)
        times = self._parsed(times.to_pylist()) if is_text else self._as_milliseconds(times, unit)
        result: IntArray = times.to_numpy(zero_copy_only=False).astype(np.int64)
        if result.size and result.min() < 0:
            raise ConfigError(
                f"{self.method}: column {self.timestamp!r} holds {result.min()}; a timestamp is not before 1970. "
                "Correct it, or leave such rows out"
            )
        return result

    def _parsed(self, texts: list[str]) -> Any:
        times = [parsed(text) for text in texts]
        for text, time_ in zip(texts, times, strict=True):
            if time_ is None:
                raise ConfigError(f"{self._times_must_be()} {text!r}, which is no time in ISO 8601")
        return pa.array(times, pa.int64())

    def _as_milliseconds(self, times: Any, unit: Unit) -> Any:
        if unit is UNITS["ms"] or not _is_number(times.type):
            return _as_milliseconds(times)
        try:
            return pa.array(unit.all_to_ms(times.to_numpy(zero_copy_only=False)))
        except ValueError:
            raise ConfigError(f"{self._times_must_be()} a number that is no time in {unit.name}") from None

    def _times_must_be(self) -> str:
        numbers = "whole milliseconds" if self.timestamp_unit in (None, "ms") else "numbers"
        return (
            f"{self.method}: the column {self.timestamp!r} with the times must hold timestamps or {numbers}; it holds"
        )


def _struct(schema: Any, names: Iterable[str]) -> Any:
    return pa.field("", pa.struct([schema.field(name) for name in names]))


def check_composite(kind: Any, method: str) -> None:
    """Raise ``ConfigError`` for a key of several columns, as a struct, of which equal ones may have other bytes."""
    for field in kind:
        if _has_map(field.type):
            raise ConfigError(
                f"{method}: column {field.name!r} is of type {field.type}, and cannot be part of a key: equal maps may "
                "have their entries in another order. Use its contents as columns of their own"
            )


def _has_map(kind: Any) -> bool:
    inner = [field.type for field in kind] if pa.types.is_struct(kind) else []
    inner += [kind.value_type] if json_columns.is_list(kind) else []
    return bool(pa.types.is_map(kind)) or any(map(_has_map, inner))


def _check_headers(kind: Any, name: str, method: str) -> None:
    inner = kind.value_type if json_columns.is_list(kind) else kind
    fields = list(inner) if pa.types.is_struct(inner) and inner is not kind else []
    is_pair = [field.name for field in fields] == ["key", "value"]
    if is_pair and json_columns.is_text(fields[0].type) and json_columns.is_bytes(fields[1].type):
        return
    raise ConfigError(
        f"{method}: the column {name!r} with the headers must be an array<struct<key: string, value: binary>>; it is "
        f"of type {kind}"
    )


def _headers(column: Any, name: str, method: str) -> Any:
    """The headers of records; None when no record has any."""
    headers = column.cast(HEADERS)
    pairs = headers.flatten()
    if pairs.flatten()[0].null_count:  # also where the whole pair is null
        raise SerdeError(f"{method}: column {name!r} holds a header without a name (null). Leave it out (filter)")
    return headers if len(pairs) else None


def _check_text(values: Any) -> None:
    """Raise ``ArrowInvalid`` for text that is no UTF-8, which Spark has room for."""
    text = values.dictionary if pa.types.is_dictionary(values.type) else values
    text.cast(pa.large_binary()).cast(pa.large_string())


def _cast(values: Any, kind: Any) -> Any:
    """Return an array as another type; categories as their values."""
    if not pa.types.is_dictionary(values.type):
        return values.cast(kind)
    # Arrow cannot decode categories of all kinds of text, so these become plain text first
    return pa.DictionaryArray.from_arrays(values.indices, values.dictionary.cast(kind)).dictionary_decode()


def _holds_times(kind: Any, unit: Unit) -> bool:
    times = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    is_time = times or pa.types.is_integer(kind) or json_columns.is_text(kind)
    return is_time or (unit is not UNITS["ms"] and _is_number(kind))


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _as_milliseconds(times: Any) -> Any:
    """Return times that are no text as an Arrow array of whole milliseconds; times without a zone are UTC."""
    if pa.types.is_date(times.type):
        times = times.cast(pa.timestamp("ms"))
    if pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp("ms", tz=times.type.tz), safe=False)
    return times.cast(pa.int64(), safe=False)
