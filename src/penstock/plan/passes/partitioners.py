"""Finds keyed steps behind partitioners that look at more than the key, which may put equal keys into several
partitions."""

from __future__ import annotations

import dis
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType, FunctionType, MethodType

from penstock.plan import nodes
from penstock.plan.functions import UserFunction
from penstock.plan.node import Node

_BESIDE_KEY = {3: (1,), 4: (2,), 5: (2, 3)}
"""By their number, the arguments of a partitioner that differ between records of one key."""


def looks_beyond_key(partitioner: UserFunction) -> bool:
    """Return whether a partitioner's code uses the value or the headers; False if it has no code to look at.

    >>> from penstock.plan.sinks import partitioner_of
    >>> looks_beyond_key(partitioner_of(lambda topic, key, value, partitions: value["n"] % partitions, "to"))
    True
    >>> looks_beyond_key(partitioner_of(lambda topic, key, value, partitions: key % partitions, "to"))
    False
    """
    call, first = partitioner.call, 0
    if isinstance(call, MethodType):
        call, first = call.__func__, 1
    if not isinstance(call, FunctionType) or first + partitioner.arity > call.__code__.co_argcount:
        return False
    names = [call.__code__.co_varnames[first + place] for place in _BESIDE_KEY.get(partitioner.arity, ())]
    return any(_loads(call.__code__, name) for name in names)


def _loads(code: CodeType, name: str) -> bool:
    loaded = (one.argval for one in dis.get_instructions(code) if "LOAD" in one.opname)
    return any(name == one or (isinstance(one, tuple) and name in one) for one in loaded)


def scattered(steps: Sequence[Node]) -> Iterator[tuple[Node, str, UserFunction, str]]:
    """Yield the first step with a store behind each such partitioner: the step, its store, the partitioner and the
    topic."""
    written = {node.topic: node.partitioner for node in steps if isinstance(node, nodes.Sink)}
    told: set[str] = set()
    for node in steps:
        store = _store_of(node)
        for topic, partitioner in _behind(node, written) if store else ():
            if topic not in told and looks_beyond_key(partitioner):
                told.add(topic)
                yield node, store, partitioner, topic


def _store_of(node: Node) -> str:
    if node.store is not None:
        return node.store.name
    return next(iter(node.store_names), "")


def _behind(node: Node, written: Mapping[str, UserFunction | None]) -> Iterator[tuple[str, UserFunction]]:
    """Yield the topics through which a step's records come by a partitioner, unless a step in between gives other
    keys: they are partitioned again where that matters."""
    if isinstance(node, nodes.Repartition):
        if node.partitioner is not None:
            yield node.topic, node.partitioner
    elif node.source_topics:
        for topic in node.source_topics:
            if (partitioner := written.get(topic)) is not None:
                yield topic, partitioner
    else:
        for parent in node.parents:
            if not parent.changes_key:
                yield from _behind(parent, written)
