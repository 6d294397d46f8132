"""Serdes: how keys and values become bytes, by Python type or by name.

>>> of(str), of(dict), of(b"".__class__)
(<serde str>, <serde json[dict]>, <serde bytes>)
"""

from __future__ import annotations

from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, NewType, Union, get_args, get_origin

import pyarrow as pa

from penstock.errors import ConfigError, SerdeError
from penstock.serdes.base import Serde
from penstock.serdes.json import JsonSerde, UnsaidSerde
from penstock.serdes.kafka import from_kafkas_name
from penstock.serdes.primitives import BYTES, FLOAT, INT, STR
from penstock.serdes.row import RowSerde, serde_of_type
from penstock.serdes.windowed import SessionWindowedSerde, TimeWindowedSerde, WindowedSerde
from penstock.usage.callers import caller
from penstock.usage.calls import why_methods_unusable
from penstock.usage.java_names import KafkaNames
from penstock.values.window_ends import ends_named

__all__ = [
    "BYTES",
    "FLOAT",
    "INT",
    "JSON",
    "STR",
    "UNSAID",
    "JsonSerde",
    "RowSerde",
    "Serde",
    "SessionWindowedSerde",
    "TimeWindowedSerde",
    "WindowedSerde",
    "fits",
    "from_name",
    "is_known",
    "of",
    "plain_type",
]

JSON = JsonSerde()
UNSAID = UnsaidSerde()
"""The type of results of unknown type: JSON of values with fields or elements."""

_TYPES = "str, int, float, bytes, dict, a dataclass, a msgspec.Struct, a schema or a Serde"
_NESTED = 20
"""How many levels of type aliases are resolved."""
_BY_TYPE: dict[Any, Serde] = {bytes: BYTES, str: STR, int: INT, float: FLOAT, Any: JSON}


def of(type_: Any, what: str = "type") -> Serde:
    """The serde of a Python type; a serde stands for itself.

    Args:
        type_: ``str``, ``int`` and ``float`` (8 bytes, as Kafka's Long and Double), ``bytes``; a dict, list,
            dataclass, ``msgspec.Struct`` or ``TypedDict`` (JSON); a schema or type of Arrow or Spark (dicts with
            Python's own types, :class:`RowSerde`); or a :class:`Serde`.
        what: the argument's name, for the error message.

    Raises:
        ConfigError: the type cannot be read from JSON.

    >>> of(int), of(dict), of(pa.schema([("id", pa.int32())]))
    (<serde int>, <serde json[dict]>, <serde json[struct<id: int32>]>)
    """
    if isinstance(type_, Serde):
        _check_at_once(type(type_), what)
        return type_
    if isinstance(type_, pa.Schema | pa.DataType):
        return serde_of_type(type_)
    if type(type_).__module__ == "pyspark.sql.types":
        return serde_of_type(_of_spark(type_, what))
    try:
        known = _BY_TYPE.get(type_)
    except TypeError:  # unhashable
        known = None
    if known is not None:
        return known
    if isinstance(type_, str):
        raise ConfigError(
            f"{what}: the text {type_!r} is no type; use {_TYPES}, without quotes. If it names a store: store={type_!r}"
        )
    if isinstance(type_, KafkaNames):
        raise ConfigError(
            f"{what} at {caller()}: a {type(type_).__name__} is no type; give it under the name of its own argument, "
            f"where this step takes one. For {what}= use {_TYPES}"
        )
    try:
        return JsonSerde(type_)
    except SerdeError as error:
        raise ConfigError(f"{what}: {error}; use {_TYPES}") from None


def _of_spark(kind: Any, what: str) -> Any:
    """The Arrow type of one of Spark's."""
    from pyspark.sql.pandas.types import to_arrow_type

    try:
        try:
            return to_arrow_type(kind, timezone="UTC")
        except TypeError:  # before Spark 4.2 times were UTC without being told
            return to_arrow_type(kind)
    except Exception as error:  # of PySpark, whatever it says
        raise ConfigError(f"{what}: a topic cannot keep {kind.simpleString()}: {error}") from None


def plain_type(type_: Any) -> Any:
    """The type that an annotation comes down to as far as bytes are concerned: None is no value, and names change
    nothing.

    >>> from typing import Annotated, NewType
    >>> plain_type(str | None), plain_type(NewType("UserId", int)), plain_type(Annotated[str, "an id"])
    (<class 'str'>, <class 'int'>, <class 'str'>)
    """
    found = type_
    for _ in range(_NESTED):
        if isinstance(found, NewType):
            found = found.__supertype__
        elif get_origin(found) is Annotated:
            found = get_args(found)[0]
        elif hasattr(type(found), "__value__"):  # type Name = ..., of Python 3.12
            found = found.__value__
        elif get_origin(found) in (Union, UnionType):
            others = [one for one in get_args(found) if one is not NoneType]
            if len(others) != 1:
                return type_
            found = others[0]
        else:
            break
    try:
        return found if found in (str, int, float, bytes) else type_
    except TypeError:  # values without equality
        return type_


@cache
def _check_at_once(type_: type, what: str) -> None:
    """Raise ``ConfigError`` for a serde whose methods only return a coroutine or a generator."""
    if why := why_methods_unusable(type_, "encode", "decode", "encode_all", "decode_all"):
        raise ConfigError(f"{what}: of the serde {type_.__name__} {why}")


def fits(held: str, serde: Serde) -> bool:
    """Whether values of a type belong into a topic that holds those of the type with a name.

    A topic of bytes takes any type, and bytes go into any topic as they are.

    >>> fits("json[Delay]", JSON), fits("bytes", INT), fits("str", BYTES), fits("int", FLOAT)
    (True, True, True, False)
    """
    return BYTES.name in (held, serde.name) or held == serde.name or from_name(held) == from_name(serde.name)


def is_known(serde: Serde) -> bool:
    """Whether it is one of Penstock's own formats, not one that a program brings along.

    >>> is_known(INT), is_known(from_name("a format of somebody else"))
    (True, True)
    """
    return serde is BYTES or from_name(serde.name) is not BYTES


def from_name(name: str) -> Serde:
    """The serde with a name that a topic carries; JSON of a class that only the program knows is read as plain JSON.

    >>> from_name("int"), from_name("windowed[str, 60000]")
    (<serde int>, <serde windowed[str, 60000]>)
    """
    plain = {serde.name: serde for serde in _BY_TYPE.values()}
    if name in plain:
        return plain[name]
    if name.startswith("windowed[") and name.endswith("]"):
        inner, _, size = name[len("windowed[") : -1].rpartition(", ")
        return TimeWindowedSerde(from_name(inner), ends_named(size))
    if name.startswith("session[") and name.endswith("]"):
        return SessionWindowedSerde(from_name(name[len("session[") : -1]))
    return from_kafkas_name(name, from_name) or (JSON if name.startswith("json") else BYTES)
