"""Whose function made the keys and values that a step gets: for errors of types, which say where it was given."""

from __future__ import annotations

from typing import NamedTuple

from penstock.plan import nodes
from penstock.plan.functions import UserFunction
from penstock.plan.node import Node
from penstock.plan.physical import Part, SubTopology
from penstock.serdes import Serde


class Maker(NamedTuple):
    """A function, and the type that its results have by the step that it was given to."""

    function: UserFunction
    type: Serde


class Made(NamedTuple):
    """The functions that keys and values come out of; None where they come out of a topic, or no function made them."""

    key: Maker | None = None
    value: Maker | None = None


class SourceTypes(NamedTuple):
    """How a topic is read, and where the user says so."""

    key: Serde
    value: Serde
    where: str


_PAIRS = (nodes.Map, nodes.FlatMap, nodes.TableGroupBy)
_KEEP_INPUT = (nodes.StreamJoin, nodes.StreamTableJoin)
"""Joins that write what they get, and hand their results on."""
_VALUES = (nodes.MapValues, nodes.FlatMapValues, nodes.TableMapValues)


def makers(sub: SubTopology) -> dict[str, Made]:
    """For each part of a sub-topology, by name, whose keys and values it gets; for those that make some, its own."""
    made: dict[str, Made] = {}
    concerned: dict[str, Made] = {}
    inputs: dict[Node, list[Made]] = {}
    nodes_of = {part.name: part.node for part in sub.parts}
    for part in sub.parts:
        above = _agreed([made[name] for name in part.predecessors if name in made])
        made[part.name] = _made_by(part.node, above) if part.kind == "processor" else above
        outside = [made[name] for name in part.predecessors if name in made and nodes_of[name] is not part.node]
        every = inputs.setdefault(part.node, [])
        every += outside
        writes_what_it_gets = hasattr(part.node, "aggregation") or isinstance(part.node, _KEEP_INPUT)
        concerned[part.name] = _agreed(every) if writes_what_it_gets else made[part.name]
    return concerned


def _agreed(several: list[Made]) -> Made:
    """The makers that all have; who made what, where branches meet, is not known."""
    keys, values = ({getattr(one, column) for one in several} for column in ("key", "value"))
    return Made(keys.pop() if len(keys) == 1 else None, values.pop() if len(values) == 1 else None)


def _made_by(node: Node, above: Made) -> Made:
    if isinstance(node, nodes.Process):
        function = node.supplier.function
        return Made(Maker(function, node.key) if node.changes_key else above.key, Maker(function, node.value))
    if isinstance(node, _PAIRS):
        return Made(Maker(node.mapper, node.key), Maker(node.mapper, node.value))
    if isinstance(node, _VALUES):
        return above._replace(value=Maker(node.mapper, node.value))
    if isinstance(node, nodes.SelectKey):
        return above._replace(key=Maker(node.mapper, node.key))
    joiner = getattr(node, "joiner", None)
    if isinstance(joiner, UserFunction):
        return above._replace(value=Maker(joiner, node.value))  # type: ignore[attr-defined]
    add = getattr(getattr(node, "aggregation", None), "add", None)
    return above if add is None else above._replace(value=Maker(add, node.store.types[1]))  # type: ignore[attr-defined]


def source_types(parts: tuple[Part, ...]) -> dict[str, SourceTypes]:
    """How each topic is read."""
    return {
        topic: SourceTypes(part.node.key, part.node.value, part.node.where)
        for part in parts
        if isinstance(part.node, nodes.StreamSource | nodes.TableSource | nodes.Repartition) and part.kind == "source"
        for topic in part.topics
    }
