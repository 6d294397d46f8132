"""Finds foreign-key joins in which one input record can change a left row twice, once through another topic, so that a
response to the first value may arrive late."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.plan import nodes
from penstock.plan.node import Node


def without_needless_announcements(declared: tuple[Node, ...]) -> tuple[Node, ...]:
    """Remove the announcements of joins that do not need them: those where no record can change a left row, and then,
    through a topic, the same row again or the right row."""
    ways = _Ways(declared)
    needless: set[Node] = set()
    for node in declared:
        if isinstance(node, nodes.ResponseJoin) and node.announced and not ways.overtake(node.table, node.right_table):
            needless |= {node.announced, *node.announced.parents}
    return tuple(node for node in declared if node not in needless)


class _Ways:
    """The paths of records to tables."""

    def __init__(self, declared: Iterable[Node]):
        self._declared = tuple(declared)

    def overtake(self, left: Node, right: Node) -> bool:
        return self._changes_twice(left) or self._meet_again(left, right)

    def _changes_twice(self, table: Node) -> bool:
        """True if one record may change a row of a table more than once, in several turns of its task."""
        if isinstance(table, nodes.Repartition) or any(map(self._writers, table.topics)):
            return True
        sides = _sides(table)
        return any(map(self._changes_twice, sides)) or (len(sides) == 2 and self._meet_again(*sides))

    def _meet_again(self, one: Node, other: Node) -> bool:
        """True if one record may change both tables, but not both in the same turn."""
        ways = self._above(one), self._above(other)
        shared = set.intersection(*({topic for node in above for topic in node.topics} for above in ways))
        return bool(shared) and any(map(self._is_turn, set.union(*ways)))

    def _is_turn(self, node: Node) -> bool:
        """True if the results of a step wait for their turn in a topic."""
        return isinstance(node, nodes.Repartition | nodes.ResponseJoin) or any(map(self._writers, node.topics))

    def _above(self, table: Node) -> set[Node]:
        """Return a table and everything that it is made of, including through topics that the topology itself
        writes."""
        found: set[Node] = set()
        waiting = [table]
        while waiting:
            node = waiting.pop()
            if node not in found:
                found.add(node)
                waiting += _sides(node)
                waiting += [writer for topic in node.topics for writer in self._writers(topic)]
        return found

    def _writers(self, topic: str) -> list[Node]:
        return [node.parent for node in self._declared if node.may_write(topic)]


def _sides(table: Node) -> tuple[Node, ...]:
    """The tables that a table is made of; for a foreign-key join its two tables, not the messages between them."""
    return table.joined_tables or table.parents
