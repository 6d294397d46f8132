"""The named functions of case files: mappers, predicates, aggregators, reducers, and the types they result in."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.record import Windowed
from penstock.serdes import INT, STR, Serde, WindowedSerde


class CaseError(Exception):
    """A case that is badly written, as opposed to one whose topology is refused."""


class Function(NamedTuple):
    """A function and the type of what it returns."""

    call: Callable[..., Any]
    type: Serde


Spec = dict[str, Any]


def text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, Windowed):
        return f"[{text(value.key)}@{value.start}/{value.end}]"
    return str(value)


def length(value: Any) -> int:
    """Return the length of a value as text in Java, which counts characters beyond 16 bits twice."""
    return len(text(value).encode("utf-16-le", "surrogatepass")) // 2


def _prefix(value: Any, size: int) -> str:
    """Return the first characters as in Java; half a character becomes a question mark when encoded."""
    units = text(value).encode("utf-16-le", "surrogatepass")[: 2 * size]
    return units.decode("utf-16-le", "surrogatepass").encode("utf-8", "replace").decode()


def number(value: Any) -> int:
    if isinstance(value, int):
        return value
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value):
        return int(value)
    return 0


def literal_type(spec: Spec) -> Serde:
    named = {"string": STR, "long": INT}
    if "type" in spec:
        return named[spec["type"]]
    return INT if isinstance(spec.get("value"), int) else STR


def _empty(value: Any) -> bool:
    return value is None or value == ""


def _append(aggregate: Any, sep: str, item: Any) -> str:
    return text(item) if _empty(aggregate) else text(aggregate) + sep + text(item)


def _remove(aggregate: Any, sep: str, item: Any) -> str:
    if _empty(aggregate):
        return ""
    parts = text(aggregate).split(sep)
    if text(item) in parts:
        parts.remove(text(item))
    return sep.join(parts)


def _part(value: Any, sep: str, index: int) -> str | None:
    parts = [] if value is None else text(value).split(sep)
    return parts[index] if index < len(parts) else None


def _greater(one: Any, other: Any) -> bool:
    return text(one).encode("utf-16-be") > text(other).encode("utf-16-be")


def _unless_null(function: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda key, value: None if value is None else function(value)


def mapper(spec: Spec, key: Serde, value: Serde) -> Function:
    """A function of (key, value) to a new key or value."""
    name, sep = spec["fn"], spec.get("sep", ",")
    if name in ("identity", "value"):
        return Function(lambda k, v: v, value)
    if name == "key":
        return Function(lambda k, v: k, key)
    if name == "window_key":
        if not isinstance(key, WindowedSerde):
            raise CaseError("window_key needs a windowed key")
        return Function(lambda k, v: k.key, key.inner)
    if name == "constant":
        return Function(lambda k, v: spec["value"], literal_type(spec))
    if name in ("to_null_if_equals", "to_null_if_contains"):
        matches = (lambda v: v == spec["value"]) if name.endswith("equals") else (lambda v: spec["text"] in text(v))
        return Function(lambda k, v: None if v is None or matches(v) else v, value)
    numbers: dict[str, Callable[[Any, Any], Any]] = {
        "length": _unless_null(lambda v: length(v)),
        "to_long": _unless_null(number),
        "add": _unless_null(lambda v: number(v) + spec["n"]),
    }
    if name in numbers:
        return Function(numbers[name], INT)
    texts: dict[str, Callable[[Any, Any], Any]] = {
        "key_to_text": lambda k, v: None if k is None else text(k),
        "value_to_key": _unless_null(text),
        "value_to_text": _unless_null(text),
        "upper": _unless_null(lambda v: text(v).upper()),
        "suffix": _unless_null(lambda v: text(v) + spec["text"]),
        "with_key": lambda k, v: None if v is None else f"{text(k)}:{text(v)}",
        "key_and_value": lambda k, v: f"{text(k)}:{text(v)}",
        "prefix_of_value": _unless_null(lambda v: _prefix(v, spec["n"])),
        "prefix_of_key": lambda k, v: None if k is None else _prefix(k, spec["n"]),
        "part_of_value": lambda k, v: _part(v, sep, spec["index"]),
        "foreign_key_before": _unless_null(lambda v: text(v).split(sep)[0] if sep in text(v) else None),
    }
    if name not in texts:
        raise CaseError(f"unknown mapper {spec}")
    return Function(texts[name], STR)


def pair_mapper(spec: Spec, key: Serde, value: Serde) -> tuple[Callable[[Any, Any], Any], Serde, Serde]:
    """A function of (key, value) to a pair, and the pair's types."""
    if spec["fn"] != "key_value":
        raise CaseError(f"unknown key-value mapper {spec}")
    keys, values = mapper(spec["key"], key, value), mapper(spec["value"], key, value)
    return lambda k, v: (keys.call(k, v), values.call(k, v)), keys.type, values.type


def _words(value: Any, sep: str) -> list[str]:
    return [] if value is None else [word for word in text(value).split(sep) if word]


def flat_mapper(spec: Spec, key: Serde, value: Serde) -> tuple[Callable[[Any, Any], Any], Serde, Serde]:
    """A function of (key, value) to several pairs, and their types."""
    if spec["fn"] == "each":
        pairs = [pair_mapper(pair, key, value) for pair in spec["pairs"]]
        return lambda k, v: [call(k, v) for call, _, _ in pairs], pairs[0][1], pairs[0][2]
    if spec["fn"] == "words_as_keys":
        return lambda k, v: [(word, v) for word in _words(v, spec.get("sep", " "))], STR, value
    raise CaseError(f"unknown flat mapper {spec}")


def flat_value_mapper(spec: Spec, value: Serde) -> Function:
    """A function of (value) to several values."""
    if spec["fn"] == "split_words":
        return Function(lambda v: _words(v, spec.get("sep", " ")), STR)
    if spec["fn"] == "repeat":
        return Function(lambda v: [v] * spec["n"], value)
    raise CaseError(f"unknown flat value mapper {spec}")


def predicate(spec: Spec) -> Callable[[Any, Any], bool]:
    """A function of (key, value) to true or false."""
    predicates: dict[str, Callable[[Any, Any], bool]] = {
        "always": lambda k, v: True,
        "never": lambda k, v: False,
        "value_contains": lambda k, v: v is not None and spec["text"] in text(v),
        "value_equals": lambda k, v: v is not None and v == spec["value"],
        "value_at_least": lambda k, v: v is not None and number(v) >= spec["n"],
        "value_length_at_least": lambda k, v: v is not None and length(v) >= spec["n"],
        "value_is_null": lambda k, v: v is None,
        "value_not_null": lambda k, v: v is not None,
        "key_not_null": lambda k, v: k is not None,
        "key_contains": lambda k, v: k is not None and spec["text"] in text(k),
        "key_equals": lambda k, v: k is not None and k == spec["value"],
    }
    if spec["fn"] not in predicates:
        raise CaseError(f"unknown predicate {spec}")
    return predicates[spec["fn"]]


def aggregator(spec: Spec) -> Callable[[Any, Any, Any], Any]:
    """A function of (key, value, aggregate)."""
    sep = spec.get("sep", ",")
    aggregators: dict[str, Callable[[Any, Any, Any], Any]] = {
        "append": lambda k, v, a: _append(a, sep, v),
        "append_with_key": lambda k, v, a: _append(a, sep, f"{text(k)}:{text(v)}"),
        "append_marked": lambda k, v, a: _append(a, sep, spec["mark"] + text(v)),
        "append_or_null": lambda k, v, a: None if v is not None and v == spec["reset"] else _append(a, sep, v),
        "remove": lambda k, v, a: _remove(a, sep, v),
        "sum": lambda k, v, a: number(a) + number(v),
        "subtract": lambda k, v, a: number(a) - number(v),
        "add_length": lambda k, v, a: number(a) + length(v),
        "subtract_length": lambda k, v, a: number(a) - length(v),
        "count_one": lambda k, v, a: number(a) + 1,
        "uncount_one": lambda k, v, a: number(a) - 1,
        "last": lambda k, v, a: v,
        "max_text": lambda k, v, a: text(v) if _empty(a) or _greater(v, a) else a,
    }
    if spec["fn"] not in aggregators:
        raise CaseError(f"unknown aggregator {spec}")
    return aggregators[spec["fn"]]


def reducer(spec: Spec) -> Callable[[Any, Any], Any]:
    """A function of (aggregate, value)."""
    sep = spec.get("sep", ",")
    reducers: dict[str, Callable[[Any, Any], Any]] = {
        "concat": lambda a, v: text(a) + sep + text(v),
        "concat_or_null": lambda a, v: None if v == spec["reset"] else text(a) + sep + text(v),
        "remove": lambda a, v: _remove(a, sep, v),
        "sum": lambda a, v: number(a) + number(v),
        "subtract": lambda a, v: number(a) - number(v),
        "first": lambda a, v: a,
        "last": lambda a, v: v,
        "max_text": lambda a, v: v if _greater(v, a) else a,
    }
    if spec["fn"] not in reducers:
        raise CaseError(f"unknown reducer {spec}")
    return reducers[spec["fn"]]


def merger(spec: Spec) -> Callable[[Any, Any, Any], Any]:
    """A function of (key, one aggregate, other aggregate)."""
    sep = spec.get("sep", ",")
    mergers: dict[str, Callable[[Any, Any, Any], Any]] = {
        "concat": lambda k, a, b: b if _empty(a) else a if _empty(b) else text(a) + sep + text(b),
        "sum": lambda k, a, b: number(a) + number(b),
        "first": lambda k, a, b: a,
        "last": lambda k, a, b: b,
    }
    if spec["fn"] not in mergers:
        raise CaseError(f"unknown merger {spec}")
    return mergers[spec["fn"]]


def joiner(spec: Spec, left: Serde, right: Serde) -> Function:
    """A function of (left, right), or of (key, left, right), to a value."""

    def pair(one: Any, other: Any) -> str:
        return f"{text(one)}|{text(other)}"

    joiners = {
        "pair": Function(pair, STR),
        "key_pair": Function(lambda key, one, other: f"{text(key)}:{pair(one, other)}", STR),
        "left": Function(lambda one, other: one, left),
        "right": Function(lambda one, other: other, right),
        "sum": Function(lambda one, other: number(one) + number(other), INT),
        "pair_unless_contains": Function(lambda one, other: _pair_unless(pair(one, other), spec["text"]), STR),
    }
    if spec["fn"] not in joiners:
        raise CaseError(f"unknown joiner {spec}")
    return joiners[spec["fn"]]


def _pair_unless(pair: str, part: str) -> str | None:
    return None if part in pair else pair
