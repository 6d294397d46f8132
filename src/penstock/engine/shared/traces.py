"""Traces: recognise a store or repartition topic when its generated name has another number.

Kafka Streams numbers steps and generates names from the numbers, so a step in front changes all names after it. The
position in the topology does not depend on numbers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from dataclasses import fields
from typing import Any

import msgspec

from penstock.plan.aggregation import Aggregation
from penstock.plan.node import Node, StoreSpec
from penstock.plan.topology import Topology

_NUMBER = re.compile(r"\d{10}")


def without_number(name: str) -> str:
    """Return a name without its generated number."""
    return _NUMBER.sub("#", name)


class Trace(msgspec.Struct, frozen=True, array_like=True):
    """A position in a topology, independent of numbers."""

    coarse: str
    """Position among the steps that keep state, and the source topics."""
    fine: str
    """Position among all steps, including the code of their functions."""


class Traces:
    """The traces of a topology's stores and repartition topics.

    Args:
        known: the topics of a start. Sources that read by a pattern count as if they read only those. None for all
            topics.
    """

    def __init__(self, topology: Topology, known: Collection[str] | None = None):
        self._facts = topology.facts
        self._known = known
        self._coarse: dict[Node, str] = {}
        self._fine: dict[Node, str] = {}
        for node in topology.nodes:  # parents come first, which avoids deep recursion
            self._coarse_of(node)
            self._fine_of(node)
        self.stores = {spec.name: self._trace(spec.name, node) for node, spec in topology.facts.stores.items()}
        self.topics = {topic: self._trace(topic, node) for topic, node in topology.repartitions.items()}

    def _trace(self, name: str, node: Node) -> Trace:
        own = without_number(name)
        return Trace(_digest(own, self._coarse_of(node)), _digest(own, self._fine_of(node)))

    def _coarse_of(self, node: Node) -> str:
        """Return the position of a step among those that keep state, and its source topics."""
        if node not in self._coarse:
            above = [self._coarse_of(parent) for parent in _above(node)]
            if self._is_passed_over(node) and len(above) == 1:
                self._coarse[node] = above[0]
            else:
                self._coarse[node] = _digest(type(node).__name__, self._topics(node), *above)
        return self._coarse[node]

    def _fine_of(self, node: Node) -> str:
        """Return the position among all steps, with their functions."""
        if node not in self._fine:
            functions = (_code(value) for value in _values(node, topics_read(node, self._known)))
            above = [self._fine_of(parent) for parent in _above(node)]
            self._fine[node] = _digest(type(node).__name__, self._topics(node), *functions, "above", *above)
        return self._fine[node]

    def _topics(self, node: Node) -> str:
        return ",".join(sorted(topics_read(node, self._known)))

    def _is_passed_over(self, node: Node) -> bool:
        return not node.is_source and node not in self._facts.stores


def _above(node: Node) -> Iterator[Node]:
    """Yield the steps in front of a step: its parents and the steps it looks up."""
    yield from node.parents
    for item in fields(node):
        value = getattr(node, item.name)
        if isinstance(value, Node) and value not in node.parents and not item.metadata.get("untraced"):
            yield value


def topics_read(source: Node, known: Collection[str] | None) -> tuple[str, ...]:
    """Return the topics of a source; of a source that reads by a pattern, only known ones if some are given."""
    if source.pattern is None or known is None:
        return source.topics
    return tuple(topic for topic in source.topics if topic in known)


def _values(node: Any, topics: tuple[str, ...] = ()) -> Iterator[Any]:
    for item in fields(node):
        value = topics if item.name == "topics" else getattr(node, item.name)
        if (
            item.name in ("name", "where", "parents")
            or item.metadata.get("untraced")
            or isinstance(value, Node | StoreSpec)
        ):
            continue
        if isinstance(value, Aggregation):
            yield from _values(value)
        elif isinstance(value, list | tuple):
            yield from value
        else:
            yield value


def _code(value: Any) -> str:
    """Return a digest of a function's code, or of any other plain value."""
    function = getattr(value, "call", value)
    code = getattr(function, "__code__", None)
    if code is not None:
        cells = getattr(function, "__closure__", None) or ()
        return _digest(code.co_code.hex(), *_constants(code), *code.co_names, *(_plain(_inside(c)) for c in cells))
    return _plain(value)


def _constants(code: Any) -> Iterator[str]:
    for constant in code.co_consts:
        inner = getattr(constant, "co_code", None)
        yield _digest(inner.hex(), *_constants(constant)) if inner is not None else _plain(constant)


def _inside(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _plain(value: Any) -> str:
    if value is None or isinstance(value, bool | int | float | bytes):
        return repr(value)
    return without_number(value) if isinstance(value, str) else type(value).__name__


def _digest(*parts: str) -> str:
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
