"""JSON into dicts and lists, dataclasses, msgspec Structs, TypedDicts."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import msgspec.inspect
import numpy as np
import pyarrow as pa

from penstock.arrays import EMPTY_INTS, Binary, BoolArray, IntArray, binary, spans
from penstock.errors import ConfigError, SerdeError
from penstock.messages import describe, show
from penstock.serdes.arrow_types import arrow_type
from penstock.serdes.base import Serde
from penstock.serdes.json_fields import Finder, finder_of, unknown_fields_of
from penstock.serdes.json_flat import FlatColumns, FlatField, flat_fields, is_made_of_fields, maker_of
from penstock.serdes.json_keys import all_distinct, check_keys, may_hold_other_keys
from penstock.serdes.non_finite import may_hold_floats, with_floats, with_text
from penstock.usage.calls import close
from penstock.values.decoding import converted, json_decoder


class JsonSerde(Serde):
    """JSON of one type, or any JSON with ``Any``. The text ``null`` is a null, whatever the type.

    Bytes are text in base64. Decimals and times are text. If the type is float, NaN and the infinities are text, too.

    Args:
        type_: the type of values.
        unknown_fields: how to read a value with fields that the type does not have: ``"ignore"`` leaves them out,
            ``"refuse"`` fails, so that ``on_error`` decides. By default they are left out, and a program that writes
            such values again warns.

    >>> JsonSerde(dict).decode(b'{"a": 1}'), JsonSerde(dict).encode({"a": 1})
    ({'a': 1}, b'{"a":1}')
    """

    def __init__(self, type_: Any = Any, unknown_fields: Literal["ignore", "refuse"] | None = None):
        self.type = type_
        self.name = "json" if type_ is Any else f"json[{getattr(type_, '__name__', str(type_))}]"
        try:
            decoder = json_decoder(type_)
        except TypeError as error:
            raise SerdeError(f"JSON cannot be read into {type_!r}: {error}") from None
        if isinstance(msgspec.inspect.type_info(type_), msgspec.inspect.CustomType):
            raise SerdeError(
                f"JSON cannot be read into {type_!r}: it does not say what its fields are; use a dataclass or a "
                "msgspec.Struct"
            )
        self._decode: Callable[[bytes], Any] = decoder.decode
        self._decode_lines = decoder.decode_lines
        encoder = msgspec.json.Encoder()
        self._encode, self._encode_lines = encoder.encode, encoder.encode_lines
        self._may_hold_floats = may_hold_floats(type_)
        self._immutable = _is_immutable(type_, _SCALARS)
        self._exact = type_ if type_ not in _SCALARS and _is_immutable(type_, _EXACT) else None
        self._check = _check_of(type_, self._read)
        self._may_hold_other_keys = may_hold_other_keys(type_)
        if unknown_fields not in (None, "ignore", "refuse"):
            raise ConfigError(f"unknown_fields of JsonSerde takes 'ignore' or 'refuse'; got {show(unknown_fields)}")
        self._unknown = unknown_fields
        self._finder = None if unknown_fields == "ignore" else finder_of(type_)
        if unknown_fields == "refuse" and self._finder is not None:
            self._decode = self._refusing(self._finder)

    def _refusing(self, finder: Finder) -> Callable[[bytes], Any]:
        """Return a decoder that fails for fields that the type does not have."""
        decode = self._decode

        def decoded(data: bytes) -> Any:
            value = decode(data)
            if unknown := unknown_fields_of(finder, data):
                raise SerdeError(
                    f"{self.name} has no {_named(unknown)}, which the record has, and unknown_fields='refuse'"
                )
            return value

        return decoded

    def left_out(self, data: bytes) -> list[str]:
        return [] if self._finder is None else unknown_fields_of(self._finder, data)

    @property
    def leaves_out(self) -> bool:
        return self._finder is not None and self._unknown is None

    @property
    def immutable(self) -> bool:
        return self._immutable

    @property
    def gives_none(self) -> bool:
        return False  # for no bytes other than those that ``null_rows`` finds

    def null_rows(self, data: Binary) -> IntArray:
        return null_texts(data)

    @property
    def exact(self) -> type | None:
        return self._exact

    def encode(self, value: Any) -> bytes:
        try:
            data = self._finite(value)
        except Exception as error:
            close(value)
            raise SerdeError(f"cannot write {show(value)} as JSON: {_text(error)}") from None
        try:
            if self._check is not None:
                self._check(value, data)
        except Exception as error:
            raise self._of(value, f"{show(value)} does not fit the type {self.name}: {_text(error)}") from None
        return data

    def _of(self, value: Any, problem: str) -> SerdeError:
        error = SerdeError(problem)
        if type(value) is not self.type:
            error.got, error.shown = type(value), show(value)
        return error

    def decode(self, data: bytes) -> Any:
        try:
            return self._read(data)
        except msgspec.DecodeError as error:
            if _is_null(data):
                return None
            raise SerdeError(f"{why_unread(error, data)}; the bytes are {show(data, 80)}") from None
        except SerdeError as error:
            raise SerdeError(f"{error}; the bytes are {show(data, 80)}") from None
        except Exception as error:  # JSON that is nested too deeply, a __post_init__ that raises
            raise SerdeError(f"{describe(error)}; the bytes are {show(data, 80)}") from None

    def _read(self, data: bytes) -> Any:
        """The value of bytes, which may have text in the place of a float; raises what ``msgspec`` does."""
        try:
            return self._decode(data)
        except msgspec.ValidationError:
            if not self._may_hold_floats or not _FLOAT_TEXT.search(data):
                raise
        return converted(with_floats(msgspec.json.decode(data), self.type), self.type, str_keys=True)

    def _finite(self, value: Any) -> bytes:
        """The bytes of a value after checking it for NaN, which would be written as null, and for keys that are the
        same text."""
        data = self._encode(value)
        if self._may_hold_other_keys:
            check_keys(value, data)
        if b"null" in data and _may_have_nan(value):
            return self._encode(with_text(msgspec.to_builtins(value, str_keys=True), self.type))
        return data

    @property
    def converters(self) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
        return self._finite, self._read if self._may_hold_floats else self._decode

    def encode_all(self, values: list[Any]) -> Binary:
        present = [value for value in values if value is not None]
        try:
            data = self._lines(present) or self._one_by_one(present)
        except Exception:  # encoding each value by itself finds the one that fails
            return super().encode_all(values)
        if len(present) == len(values):
            return binary(data)
        items = iter(data)
        return binary([None if value is None else next(items) for value in values])

    def _lines(self, values: list[Any]) -> list[bytes] | None:
        """The bytes of all values, or None if a value may contain NaN or keys that are the same text, or take more than
        one line. Writing and checking all at once saves two thirds of the time."""
        text = self._encode_lines(values)
        lines = text.split(b"\n")
        if len(lines) != len(values) + 1 or (b"null" in text and _may_have_nan(values)):
            return None
        if self._may_hold_other_keys and not all_distinct(values, text):
            return None
        if self.type in (dict, list):
            if not all(isinstance(value, self.type) for value in values):
                return None
        elif self._check is not None:
            self._decode_lines(text)
        return lines[:-1]

    def _one_by_one(self, values: list[Any]) -> list[bytes]:
        data = list(map(self._finite, values))
        if self._check is not None:
            for value, item in zip(values, data, strict=True):
                self._check(value, item)
        return data

    def decode_all(self, data: Binary) -> list[Any]:
        decode = self._decode
        try:
            if not data.null_count:
                return list(map(decode, data.to_pylist()))
            return [None if item is None else decode(item) for item in data.to_pylist()]
        except Exception:
            return super().decode_all(data)

    @cached_property
    def is_flat(self) -> bool:
        """Whether values are objects of text, numbers and booleans, and nothing else happens when one is read."""
        return type(self) is JsonSerde and self._unknown != "refuse" and flat_fields(self.type) is not None

    @cached_property
    def names(self) -> list[str]:
        """The names of the fields in JSON, in the order of the class."""
        return [field.encode_name for field in msgspec.inspect.type_info(self.type).fields]  # type: ignore[attr-defined]

    @cached_property
    def made(self) -> Callable[..., Any]:
        """A function that makes an object of its fields, in the order of the class."""
        return maker_of(self.type)

    @cached_property
    def written_fields(self) -> list[FlatField] | None:
        """The fields of a class that is no more than its fields, which are plain; None for other types."""
        fields = flat_fields(self.type) if type(self) is JsonSerde else None
        return None if fields is None or not is_made_of_fields(self.type) else list(fields.values())

    @cached_property
    def _flat(self) -> FlatColumns | None:
        return None if self._unknown == "refuse" else FlatColumns.of(self.type)

    def arrow(self, data: Binary) -> Any:
        found = None if self._flat is None else self._flat.read(data)
        return self._arrow_of_values(data) if found is None else found

    def _arrow_of_values(self, data: Binary) -> Any:
        values = self.decode_all(data)
        kind, flat = arrow_type(self.type), flat_fields(self.type)
        try:
            if flat is not None:
                return _struct_of(values, flat)
            return pa.array(msgspec.to_builtins(values), kind)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise SerdeError(
                f"values of type {self.name} do not go into one Arrow array for a @columnar function: {error}; take "
                "@columnar away, or read them as a class whose fields say their types"
            ) from None

    def from_arrow(self, values: Any) -> list[Any]:
        plain: list[Any] = values.to_pylist(maps_as_pydicts="strict")
        try:
            return converted(plain, list[self.type | None])  # type: ignore[name-defined]
        except Exception:  # values that do not fit are found when they are written
            return plain

    def __reduce__(self) -> Any:
        return JsonSerde, (self.type, self._unknown)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonSerde) and self.type == other.type

    def __hash__(self) -> int:
        return hash((JsonSerde, self.name))


def _struct_of(values: list[Any], fields: dict[str, FlatField]) -> Any:
    """Return objects as an Arrow array of a struct; also with fields that have their defaults, which ``msgspec`` leaves
    out of dataclasses."""
    columns = [[None if one is None else getattr(one, field.name) for one in values] for field in fields.values()]
    arrays = [pa.array(column, field.column) for column, field in zip(columns, fields.values(), strict=True)]
    return pa.StructArray.from_arrays(arrays, list(fields), mask=pa.array([one is None for one in values], pa.bool_()))


def _named(fields: list[str]) -> str:
    shown = ", ".join(map(repr, fields[:_MOST_NAMED])) + (", ..." if len(fields) > _MOST_NAMED else "")
    return f"field{'s' if len(fields) > 1 else ''} {shown}"


def null_texts(data: Binary, head: int = 0) -> IntArray:
    """The rows of a column that are the JSON text ``null`` after ``head`` other bytes.

    >>> null_texts(binary([b"null", b'{"a": null}', None, b" null\\n", b"nullx"])).tolist()
    [0, 3]
    """
    where = spans(data)
    if not len(where.data):
        return EMPTY_INTS
    begins = where.data[np.minimum(where.start + head, len(where.data) - 1)]
    rows = np.flatnonzero(_BEGINS_NULL[begins] & (where.length >= head + len(_NULL)))
    if rows.size:
        rows = rows[_ENDS_NULL[where.data[where.start[rows] + where.length[rows] - 1]]]
    found = [row for row in rows.tolist() if _is_null((data[row].as_py() or b"")[head:])]
    return np.array(found, np.int64)


def _is_null(text: bytes) -> bool:
    return text.strip(_BLANK) == _NULL


def _any_of(characters: bytes) -> BoolArray:
    found = np.zeros(256, np.bool_)
    found[list(characters)] = True
    return found


_NULL, _BLANK = b"null", b" \t\n\r"
_BEGINS_NULL, _ENDS_NULL = _any_of(_BLANK + b"n"), _any_of(_BLANK + b"l")


class UnsaidSerde(JsonSerde):
    """JSON of results without a known type, such as those of joins: only of values with fields or elements.

    Text, numbers and bytes have formats of their own, so the user must say which one is meant.

    >>> from penstock.serdes import UNSAID
    >>> UNSAID.encode({"delay": 5})
    b'{"delay":5}'
    """

    def _finite(self, value: Any) -> bytes:
        if type(value) in _WITH_FORMATS:
            error = SerdeError(f"nothing tells the type of {show(value)}, of type {type(value).__name__}")
            error.got, error.shown = type(value), show(value)
            raise error
        return super()._finite(value)

    def encode(self, value: Any) -> bytes:
        return self._finite(value) if type(value) in _WITH_FORMATS else super().encode(value)

    def _lines(self, values: list[Any]) -> list[bytes] | None:
        return super()._lines(values) if _WITH_FORMATS.isdisjoint(map(type, values)) else None

    def __reduce__(self) -> Any:
        return UnsaidSerde, ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnsaidSerde)

    def __hash__(self) -> int:
        return hash((UnsaidSerde, self.name))


_MOST_NAMED = 10
_SCALARS = frozenset((str, int, float, bool, bytes, type(None)))
_WITH_FORMATS = frozenset((str, int, float, bytes))
_EXACT = frozenset((str, int, bool, type(None)))
"""Scalars that come back from JSON unchanged; a float without a fraction may come back as an int."""


def _is_immutable(type_: Any, scalars: frozenset[Any], within: tuple[Any, ...] = ()) -> bool:
    """True if values of a type are completely immutable: frozen classes of scalars, and of themselves."""
    if get_origin(type_) in (Union, UnionType):
        return all(_is_immutable(one, scalars, within) for one in get_args(type_))
    if type_ in within or _is_one_of(type_, scalars):
        return True
    config = getattr(type_, "__struct_config__", None) or getattr(type_, "__dataclass_params__", None)
    if config is None or not config.frozen:
        return False
    try:
        fields = get_type_hints(type_).values()
    except NameError:  # a class inside a function that names itself
        return False
    return all(_is_immutable(field, scalars, (*within, type_)) for field in fields)


def _is_one_of(type_: Any, scalars: frozenset[Any]) -> bool:
    try:
        return type_ in scalars
    except TypeError:  # an unhashable type, such as Annotated[..., a Meta with a list]
        return False


def _check_of(type_: Any, decode: Callable[[bytes], Any]) -> Callable[[Any, bytes], None] | None:
    """Make a function that raises for a value that can be written but does not fit the type; None if every value
    fits."""
    if type_ is Any:
        return None
    if type_ in (dict, list):
        return _has_type(type_)

    def check(value: Any, data: bytes) -> None:
        decode(data)

    return check


def _has_type(type_: type) -> Callable[[Any, bytes], None]:
    def check(value: Any, data: bytes) -> None:
        if not isinstance(value, type_):
            raise TypeError(f"it is of type {type(value).__name__}")

    return check


def why_unread(error: Exception, data: bytes) -> str:
    """Why bytes are not valid JSON: the parser's message, or a clearer one."""
    if _HALF_PAIR.search(data) and "truncated" in str(error):
        return "half a surrogate pair, as of an emoji that was cut in two, is no text that can be kept"
    if _NO_NUMBER.search(data) and "malformed" in str(error):
        return f"{error}; JSON has no NaN and no Infinity: write null or text, or use the type float"
    return str(error)


_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")
_FLOAT_TEXT = re.compile(rb'"(NaN|-?Infinity)"')
_NO_NUMBER = re.compile(rb"\b(NaN|Infinity)\b")


def _text(error: Exception) -> str:
    """The text of an error; of msgspec's own errors only the text."""
    return str(error) if type(error) in (TypeError, ValueError, msgspec.ValidationError) else describe(error)


_NO_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
"""The first bytes of NaN and the infinities in MessagePack; they never occur in text."""
_pack = msgspec.msgpack.Encoder().encode


def _may_have_nan(value: Any) -> bool:
    """True if a value may contain NaN or an infinity: searching its bytes in MessagePack, which has both, costs a tenth
    of visiting its parts."""
    try:
        return _NO_FINITE.search(_pack(value)) is not None
    except Exception:  # an int that is too large
        return True
