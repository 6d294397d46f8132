"""Groups of processors that run as one: those that share a store, and the processors between them.

Records go through a group depth first, one after the other, as in Kafka Streams, so each processor sees the others'
writes. If a step of the DSL is between two of them, there is no group, because it would have to stop for the step.
Chunks are cut into runs instead (``sharing.py``).
"""

from __future__ import annotations

from collections import defaultdict

from penstock.engine.shared.reach import parts_below
from penstock.plan import nodes
from penstock.plan.physical import Part, SubTopology

Group = frozenset[str]
"""The names of the processors of a group."""


def groups_of(sub: SubTopology) -> list[Group]:
    """Return the groups of a sub-topology, each with at least two processors."""
    processors = {part.name: part for part in sub.parts if isinstance(part.node, nodes.Process)}
    below = parts_below(sub.parts)
    found: list[Group] = []
    for sharing in _sharing(processors):
        between = {name for name in below if _is_between(name, sharing, below)}
        if all(name in processors for name in between):
            found.append(frozenset(sharing | between))
    return _apart(found)


def _sharing(processors: dict[str, Part]) -> list[set[str]]:
    """Return sets of processors connected by shared stores."""
    users: defaultdict[str, set[str]] = defaultdict(set)
    for part in processors.values():
        for store in part.stores:
            users[store].add(part.name)
    return _united([names for names in users.values() if len(names) > 1])


def _apart(groups: list[Group]) -> list[Group]:
    """Merge groups that have members in common."""
    return [frozenset(group) for group in _united([set(group) for group in groups])]


def _united(sets: list[set[str]]) -> list[set[str]]:
    united: list[set[str]] = []
    for one in sets:
        meeting = [other for other in united if other & one]
        united = [other for other in united if not other & one] + [one.union(*meeting)]
    return united


def _is_between(name: str, group: set[str], below: dict[str, set[str]]) -> bool:
    return name not in group and bool(below[name] & group) and any(name in below[member] for member in group)
