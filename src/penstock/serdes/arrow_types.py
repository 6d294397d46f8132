"""The Arrow type of a Python type: a dataclass, a Struct or a TypedDict is a struct of its fields."""

from __future__ import annotations

from typing import Any

import msgspec.inspect as kinds
import pyarrow as pa

_PLAIN: dict[type, Any] = {
    kinds.StrType: pa.string(),
    kinds.IntType: pa.int64(),
    kinds.FloatType: pa.float64(),
    kinds.BoolType: pa.bool_(),
    kinds.NoneType: pa.null(),
}


def arrow_type(type_: Any) -> Any:
    """The Arrow type of JSON values of a type; None if it depends on the values.

    >>> arrow_type(dict[str, int]), arrow_type(list[float | None])
    (MapType(map<string, int64>), ListType(list<item: double>))
    """
    return _of(kinds.type_info(type_), ())


def _of(kind: kinds.Type, within: tuple[Any, ...]) -> Any:
    if type(kind) in _PLAIN:
        return _PLAIN[type(kind)]
    if isinstance(kind, kinds.UnionType):
        others = [one for one in kind.types if not isinstance(one, kinds.NoneType)]
        return _of(others[0], within) if len(others) == 1 else None
    if isinstance(kind, kinds.ListType | kinds.VarTupleType | kinds.SetType):
        item = _of(kind.item_type, within)
        return None if item is None else pa.list_(item)
    if isinstance(kind, kinds.DictType):
        key, value = _of(kind.key_type, within), _of(kind.value_type, within)
        return None if value is None or key != pa.string() else pa.map_(key, value)
    if isinstance(kind, kinds.DataclassType | kinds.StructType | kinds.TypedDictType | kinds.NamedTupleType):
        return None if kind.cls in within else _struct(kind, (*within, kind.cls))
    return None


def _struct(kind: Any, within: tuple[Any, ...]) -> Any:
    if getattr(kind, "array_like", False) or isinstance(kind, kinds.NamedTupleType) or getattr(kind, "tag", None):
        return None
    fields = [(field.encode_name, _of(field.type, within)) for field in kind.fields]
    return None if not fields or any(type_ is None for _, type_ in fields) else pa.struct(fields)
