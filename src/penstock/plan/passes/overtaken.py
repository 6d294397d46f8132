"""Which foreign-key joins have responses to left rows that the record which causes them has changed meanwhile, by way
of other topics."""

from __future__ import annotations

from penstock.plan import nodes
from penstock.plan.node import Node


def may_be_overtaken(left: Node, right: Node) -> bool:
    """Whether one record may change a left row, and by way of an internal topic the row again, or the right row."""
    return _changes_twice(left) or _meet_again(left, right)


def _changes_twice(table: Node) -> bool:
    """Whether one record may change a row of a table more than once, in several turns of its task."""
    if isinstance(table, nodes.Repartition):
        return True
    sides = _sides(table)
    return any(_changes_twice(side) for side in sides) or (len(sides) == 2 and _meet_again(*sides))


def _meet_again(one: Node, other: Node) -> bool:
    """Whether one record may change both of two tables, and not both in the same turn."""
    return bool(_topics(one) & _topics(other)) and (_is_behind_a_topic(one) or _is_behind_a_topic(other))


def _is_behind_a_topic(table: Node) -> bool:
    return isinstance(table, nodes.Repartition | nodes.ResponseJoin) or any(map(_is_behind_a_topic, table.parents))


def _topics(table: Node) -> frozenset[str]:
    own = getattr(table, "topics", ()) or ((table.topic,) if isinstance(table, nodes.TableSource) else ())
    return frozenset(own).union(*(_topics(side) for side in _sides(table)))


def _sides(table: Node) -> tuple[Node, ...]:
    """What a table is made of; of a foreign-key join, the tables and not what travels between them."""
    return (table.table, table.right_table) if isinstance(table, nodes.ResponseJoin) else table.parents
