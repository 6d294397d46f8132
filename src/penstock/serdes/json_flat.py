"""JSON objects of plain fields, read into columns without an object a record.

Arrow's reader and ``msgspec`` differ in what they take. So it only reads what both read the same, and leaves everything
else to ``msgspec``: nested values, unknown and missing fields, escapes like ``\\u0061``, NaN, and whatever is no JSON.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec.inspect as kinds
import numpy as np
import pyarrow as pa
import pyarrow.json

from penstock.arrays import Binary, spans

_PLAIN = (
    (kinds.StrType(), pa.string()),
    (kinds.IntType(), pa.int64()),
    (kinds.FloatType(), pa.float64()),
    (kinds.BoolType(), pa.bool_()),
)
"""Types without constraints, and those of their columns."""

_MOST_BYTES = 1 << 30

_FIRST_PRINTED = ord(" ")
"""Bytes before it are control characters, which only separate the lines."""


class FlatField(NamedTuple):
    """A field of text, numbers or booleans."""

    name: str
    """Its name in Python."""
    column: Any
    """The Arrow type of its column."""
    takes_none: bool
    is_none_by_default: bool
    """Whether null is the same as nothing there."""
    default: Any = None
    """The text, number or truth that it is if it is not there; None if it has no such default."""


class FlatColumns:
    """Reads JSON objects of a type whose fields are text, whole numbers, floats and booleans."""

    def __init__(self, fields: dict[str, FlatField]):
        self._may_be_null = {name for name, field in fields.items() if field.is_none_by_default}
        self._kind = pa.struct([(name, field.column) for name, field in fields.items()])
        schema = pa.schema(list(self._kind))
        self._options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")

    @classmethod
    def of(cls, type_: Any) -> FlatColumns | None:
        """Return the reader for a type; None if it has other fields, or rules of its own."""
        fields = flat_fields(type_)
        return None if fields is None else cls(fields)

    def read(self, data: Binary) -> Any:
        """Return the records as a struct array; None if they need more than this."""
        lines = self._lines(data)
        if lines is None:
            return None
        whole = pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
        try:
            table = pyarrow.json.read_json(pa.BufferReader(lines), whole, self._options)
        except (pa.ArrowException, UnicodeDecodeError):
            return None
        columns = [column.combine_chunks() for column in table.columns]
        columns = [pa.concat_arrays(one.chunks) if isinstance(one, pa.ChunkedArray) else one for one in columns]
        if table.num_rows != len(data) or not all(map(self._is_same, self._kind, columns)):
            return None
        return pa.StructArray.from_arrays(columns, fields=list(self._kind))

    def _lines(self, data: Binary) -> bytes | None:
        """Return the records as lines, if each of them is one object of one line."""
        where = spans(data)
        if not len(data) or data.null_count or where.length.min() < 2 or where.length.sum() > _MOST_BYTES:
            return None
        text = b"\n".join(data.to_pylist())
        if text.count(b"{") != len(data) or b"[" in text or b"\\" in text:
            return None
        if np.count_nonzero(np.frombuffer(text, np.uint8) < _FIRST_PRINTED) != len(data) - 1:
            return None
        ends = where.data[where.start + where.length - 1]
        return text if (where.data[where.start] == ord("{")).all() and (ends == ord("}")).all() else None

    def _is_same(self, field: Any, column: Any) -> bool:
        """Return whether ``msgspec`` reads the values of a column as Arrow has."""
        if column.null_count and field.name not in self._may_be_null:
            return False
        if pa.types.is_string(field.type):
            try:
                column.validate(full=True)  # text is UTF-8
            except pa.ArrowInvalid:
                return False
        if pa.types.is_floating(field.type):
            numbers = column.drop_null().to_numpy()
            return bool(np.isfinite(numbers).all() and not (np.signbit(numbers) & (numbers == 0)).any())
        return True


def flat_fields(type_: Any) -> dict[str, FlatField] | None:
    """Return the fields of a type by their names in JSON; None if it has others than plain ones, or rules of its own.

    >>> import msgspec
    >>> class Order(msgspec.Struct):
    ...     cents: int | None
    >>> flat_fields(Order)
    {'cents': FlatField(name='cents', column=DataType(int64), takes_none=True, is_none_by_default=False, default=None)}
    """
    kind = kinds.type_info(type_)
    if not _is_simple(kind):
        return None
    fields = {field.encode_name: _flat(field) for field in kind.fields}  # type: ignore[attr-defined]
    if not fields or any(field is None for field in fields.values()):
        return None
    return fields  # type: ignore[return-value]


def _is_simple(kind: kinds.Type) -> bool:
    """Return whether values of a type are their fields, and nothing else happens when one is read."""
    if isinstance(kind, kinds.DataclassType):
        cls = kind.cls
        return not hasattr(cls, "__post_init__") and all(field.init for field in dataclasses.fields(cls))
    if isinstance(kind, kinds.StructType):
        config = kind.cls.__struct_config__
        is_plain = not (kind.tag or kind.array_like or kind.forbid_unknown_fields or config.omit_defaults)
        return is_plain and not hasattr(kind.cls, "__post_init__")
    return False


def is_made_of_fields(type_: Any) -> bool:
    """Return whether a class is made with its fields as arguments, and no others."""
    names = [field.name for field in kinds.type_info(type_).fields]  # type: ignore[attr-defined]
    try:
        parameters = inspect.signature(type_).parameters.values()
    except (TypeError, ValueError):
        return False
    return sorted(names) == sorted(one.name for one in parameters) and all(one.kind in _NAMED for one in parameters)


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def maker_of(type_: Any) -> Callable[..., Any]:
    """Return a function that makes an object of its fields, in the order of the class.

    >>> import msgspec
    >>> class Order(msgspec.Struct, kw_only=True):
    ...     cents: int
    ...     note: str
    >>> maker_of(Order)(5, "tea")
    Order(cents=5, note='tea')
    """
    names = [field.name for field in kinds.type_info(type_).fields]  # type: ignore[attr-defined]
    parameters = list(inspect.signature(type_).parameters.values())
    if [one.name for one in parameters] == names and all(one.kind is _NAMED[0] for one in parameters):
        return type_  # type: ignore[no-any-return]

    def made(*values: Any) -> Any:
        return type_(**dict(zip(names, values, strict=True)))

    return made


def _flat(field: kinds.Field) -> FlatField | None:
    every = field.type.types if isinstance(field.type, kinds.UnionType) else (field.type,)
    [*others] = [one for one in every if not isinstance(one, kinds.NoneType)]
    if len(others) != 1:
        return None
    found = next((type_ for plain, type_ in _PLAIN if plain == others[0]), None)
    takes_none = len(every) > 1
    if found is None:
        return None
    default: Any = field.default
    if type(default) is not TYPES[found] or (isinstance(default, int) and abs(default) >= _WHOLE):
        default = None
    return FlatField(field.name, found, takes_none, takes_none and field.default is None, default)


TYPES = {pa.string(): str, pa.int64(): int, pa.float64(): float, pa.bool_(): bool}
_WHOLE = 2**63
