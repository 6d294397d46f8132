"""Finds the functions that made the keys and values that a step receives, so that errors of types can say where these
were given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.plan.functions import Maker
from penstock.plan.node import Node, Part
from penstock.plan.physical import SubTopology
from penstock.serdes import Serde


class Made(NamedTuple):
    """The functions that made keys and values; None if they come from a topic or no function made them."""

    key: Maker | None = None
    value: Maker | None = None


class SourceTypes(NamedTuple):
    """The types with which a topic is read, and the place where the user says so."""

    key: Serde
    value: Serde
    where: str


class Place(NamedTuple):
    """The user's line of a step, and the topic that it writes; an empty text for none."""

    where: str
    topic: str

    @property
    def described(self) -> str:
        """The place, as messages tell it."""
        return f"{self.where}, which writes topic {self.topic!r}" if self.topic else self.where


def places(parts: tuple[Part, ...]) -> dict[str, Place]:
    """Return the place of each part, by name."""
    return {part.name: Place(part.node.where, "".join(part.topics) if part.kind == "sink" else "") for part in parts}


def makers(sub: SubTopology) -> dict[str, Made]:
    """For each part of a sub-topology, by name, the functions that made its keys and values; for parts that make keys
    or values, their own."""
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
        concerned[part.name] = _agreed(every) if part.node.keeps_input else made[part.name]
    return concerned


def _agreed(several: list[Made]) -> Made:
    """The makers that all agree on; where branches with different makers meet, the maker is unknown."""
    keys, values = ({getattr(one, column) for one in several} for column in ("key", "value"))
    return Made(keys.pop() if len(keys) == 1 else None, values.pop() if len(values) == 1 else None)


def _made_by(node: Node, above: Made) -> Made:
    return Made(node.makes_key or above.key, node.makes_value or above.value)


def made_types(subs: Iterable[SubTopology]) -> tuple[Serde, ...]:
    """The types of the values that functions make, anywhere in some sub-topologies."""
    found = (part.node.makes_value for sub in subs for part in sub.parts)
    return tuple({maker.type: None for maker in found if maker is not None})


def source_types(parts: tuple[Part, ...]) -> dict[str, SourceTypes]:
    """The types with which each topic is read."""
    return {
        topic: SourceTypes(*part.node.types, part.node.where)
        for part in parts
        if part.kind == "source"
        for topic in part.topics
    }
