"""Finds the tables that have a store, and those that send a key's old value along with its new one.

A source table has a store only if the user named it or a later step needs one. Old values are sent if a later step asks
for them. As in Kafka Streams, steps ask in the order of their declaration, so a filter declared before a grouping may
find its source without a store.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from penstock.plan import nodes
from penstock.plan.node import Node, StoreSpec
from penstock.plan.passes.caching import uncached_tables
from penstock.plan.passes.null_keys import before_null_keys
from penstock.plan.passes.versioned import versioned_tables


@dataclass(frozen=True)
class TableFacts:
    """The results of the pass, by node."""

    stores: dict[Node, StoreSpec] = field(default_factory=dict)
    sends_old: set[Node] = field(default_factory=set)
    versioned: frozenset[Node] = frozenset()
    """The tables of which every version counts (KIP-914)."""
    looked_up: set[str] = field(default_factory=set)
    """The names of the stores in which joins look values up."""
    looked_up_as_of: set[str] = field(default_factory=set)
    """The names of the versioned stores that streams read as of a time."""
    joined_completely: set[str] = field(default_factory=set)
    """The names of the versioned stores of complete joins, and of their sides."""
    silent: set[Node] = field(default_factory=set)
    """The left tables of foreign-key joins that do not send every change of their values."""
    watched: set[str] = field(default_factory=set)
    """The names of the stores from which the values of these tables can be read."""
    uncached: frozenset[Node] = frozenset()
    """The tables that emit every update at once, even if their stores are set to cache."""
    keeps_null_keys: frozenset[Node] = frozenset()
    """The repartitions that let records without a key through."""
    added: dict[str, StoreSpec] = field(default_factory=dict)
    """The stores that were added for processors, by name."""

    def named(self) -> dict[str, StoreSpec]:
        """All stores of the topology, by name."""
        return {spec.name: spec for spec in self.stores.values()} | self.added

    def looked_up_tables(self, table: Node) -> tuple[Node, ...]:
        """The tables from whose stores the values of a table can be read."""
        own = (table,) if table in self.stores else ()
        if own and not table.collapses_updates:
            return own
        return (*own, *(found for parent in table.parents for found in self.looked_up_tables(parent)))

    def looked_up_stores(self, table: Node) -> tuple[str, ...]:
        """The names of the stores from which the values of a table can be read."""
        return tuple(self.stores[found].name for found in self.looked_up_tables(table))


def table_facts(declared: tuple[Node, ...], added: Iterable[StoreSpec] = ()) -> TableFacts:
    """Visit the steps in the order of their declaration, and collect the facts."""
    facts = TableFacts(
        versioned=versioned_tables(declared),
        keeps_null_keys=before_null_keys(declared),
        added={spec.name: spec for spec in added},
    )
    for node in declared:
        if node.store is not None and (node.store.named_by_user or not node.store_when_asked):
            facts.stores[node] = node.store
        _ask(facts, node)
    for node in declared:
        if isinstance(node, nodes.SubscriptionSend) and _changes_in_silence(facts, node.parent):
            facts.silent.add(node.parent)
            facts.watched.update(facts.looked_up_stores(node.parent))
    joined = [{found for t in node.joined_tables for found in facts.looked_up_tables(t)} for node in declared]
    return replace(facts, uncached=uncached_tables(declared, joined))


def _ask(facts: TableFacts, node: Node) -> None:
    """Ask other tables for what a step needs of them."""
    old = node.asks_old_of
    for table in dict.fromkeys((*old, *node.looks_up)):
        if table in old and _send_old(facts, table, force=not node.asks_old_if_kept) and node.asks_old_if_kept:
            facts.sends_old.add(node)
        if table in node.looks_up:
            _have_looked_up(facts, table)
    for table in node.looks_up_as_of:
        _have_looked_up_as_of(facts, table)
    if node.is_complete:
        _join_completely(facts, node)


def _join_completely(facts: TableFacts, join: Node) -> None:
    """Keep the versions of both sides for as long as possible."""
    for table in join.parents:
        facts.joined_completely.update(facts.looked_up_stores(table))
    if join.store is not None:
        facts.joined_completely.add(join.store.name)


def _send_old(facts: TableFacts, table: Node, force: bool) -> bool:
    """Make a table send old values; return False if that needs a store that the table does not have and must not be
    forced to have."""
    if table in facts.sends_old and not table.asks_old_if_kept:
        return True
    if table.store_when_asked:
        if table not in facts.stores and not force:
            return False
        _have_store(facts, table)
    elif isinstance(table, nodes.TableJoin):
        for parent in table.parents:
            _send_old(facts, parent, force=True)
    elif (table not in facts.stores or table.collapses_updates) and not _send_old(facts, table.parent, force):
        return table in facts.sends_old
    facts.sends_old.add(table)
    return True


def _have_store(facts: TableFacts, table: Node) -> None:
    assert table.store is not None
    facts.stores[table] = table.store


def _have_looked_up(facts: TableFacts, table: Node) -> None:
    """Ensure that a table's values can be read from a store."""
    if table.store_when_asked:
        _have_store(facts, table)
    if table in facts.stores:
        facts.looked_up.add(facts.stores[table].name)
    if table not in facts.stores or table.collapses_updates:
        for parent in table.parents:
            _have_looked_up(facts, parent)


def _have_looked_up_as_of(facts: TableFacts, table: Node) -> None:
    """Note the versioned store of a table, or of the table from which it is derived value by value."""
    if table in facts.stores and facts.stores[table].is_versioned:
        facts.looked_up_as_of.add(facts.stores[table].name)
    elif table not in facts.stores and table.inherits_versions:
        for parent in table.parents:
            _have_looked_up_as_of(facts, parent)


def _changes_in_silence(facts: TableFacts, table: Node) -> bool:
    """True if the changes that a table sends do not cover every change of its values.

    If one record changes both sides of a join of tables, the join sends two updates. Each names an old value made of
    one side's old and the other side's new value, which no row ever had. An inner join sends nothing if the record
    deletes a row on both sides, and neither do tables derived from it by mapping values or by other joins. If such a
    join has a store, the row stays there, but the next update names the value from before the deletion as its old
    value. Windows expire without a change. A suppressed table names the old value of the table before it, not the value
    that was emitted last. A join in a versioned store, which refuses puts that are too old, does the same.
    """
    if table.windowed_by is not None or table.collapses_updates:
        return True
    if isinstance(table, nodes.TableJoin):
        left, right = (_topics_of(parent) for parent in table.parents)
        if left & right:
            return True
        if table in facts.stores and facts.stores[table].is_versioned:
            return True
    elif table in facts.stores:
        return False
    return any(_changes_in_silence(facts, parent) for parent in table.parents)


def _topics_of(table: Node) -> frozenset[str]:
    """The topics whose records change a table directly."""
    return frozenset(table.source_topics) or frozenset[str]().union(*map(_topics_of, table.parents))
