"""Which tables have a store, and which send a key's old value along with its new one.

A source table has a store only if it was asked for by name or somebody downstream needs one. Old values are sent to
those who ask. As in Kafka Streams, the questions are asked in the order in which the steps were declared, so a filter
declared before a grouping may find its source without a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from penstock.plan import nodes
from penstock.plan.node import Node, StoreSpec
from penstock.plan.passes.caching import uncached_tables
from penstock.plan.passes.null_keys import before_null_keys
from penstock.plan.passes.versioned import versioned_tables

_ASKED_FOR_OLD = {nodes.INNER: (False, False), nodes.LEFT: (True, False), nodes.OUTER: (True, True)}
"""Which sides of a join send old values to it."""


@dataclass(frozen=True)
class TableFacts:
    """What the pass found out, by node."""

    stores: dict[Node, StoreSpec] = field(default_factory=dict)
    sends_old: set[Node] = field(default_factory=set)
    versioned: frozenset[Node] = frozenset()
    """The tables of which every version counts (KIP-914)."""
    looked_up: set[str] = field(default_factory=set)
    """The names of the stores in which joins look values up."""
    looked_up_as_of: set[str] = field(default_factory=set)
    """The names of those versioned stores in which streams look up what was valid at a time."""
    joined_completely: set[str] = field(default_factory=set)
    """The names of the versioned stores of complete joins, and of their sides."""
    silent: set[Node] = field(default_factory=set)
    """The left tables of foreign-key joins that do not send all that happens to their values."""
    watched: set[str] = field(default_factory=set)
    """The names of the stores from which their values can be told."""
    uncached: frozenset[Node] = frozenset()
    """The tables that send every update on at once, whatever their stores are to do."""
    keeps_null_keys: frozenset[Node] = frozenset()
    """The repartitions that let records without a key through."""
    added: dict[str, StoreSpec] = field(default_factory=dict)
    """The stores that were added for processors, by their names."""

    def named(self) -> dict[str, StoreSpec]:
        """All stores of the topology, by their names."""
        return {spec.name: spec for spec in self.stores.values()} | self.added


def table_facts(declared: tuple[Node, ...], added: Iterable[StoreSpec] = ()) -> TableFacts:
    """Go through the steps in order of declaration."""
    facts = TableFacts(
        versioned=versioned_tables(declared),
        keeps_null_keys=before_null_keys(declared),
        added={spec.name: spec for spec in added},
    )
    for node in declared:
        store = getattr(node, "store", None)
        if store is not None and (store.named_by_user or not _is_source(node)):
            facts.stores[node] = store
        if isinstance(node, nodes.TableFilter):
            _ask_for_old(facts, node.parent, force=False, asker=node)
        elif isinstance(node, nodes.TableGroupBy | nodes.Suppress | nodes.SubscriptionSend | nodes.ForeignTableJoin):
            _ask_for_old(facts, node.parent, force=True)
        elif isinstance(node, nodes.StreamTableJoin | nodes.GlobalTableJoin):
            _have_looked_up(facts, node.table)
            _have_looked_up_as_of(facts, node.table)
        elif isinstance(node, nodes.SubscriptionJoin | nodes.ResponseJoin):
            _have_looked_up(facts, node.table)
        elif isinstance(node, nodes.TableJoin):
            for table, is_asked in zip(node.parents, _ASKED_FOR_OLD[node.kind], strict=True):
                if is_asked:
                    _ask_for_old(facts, table, force=True)
                _have_looked_up(facts, table)
            if node.is_complete:
                _join_completely(facts, node)
    for node in declared:
        if isinstance(node, nodes.SubscriptionSend) and _changes_in_silence(facts, node.parent):
            facts.silent.add(node.parent)
            facts.watched.update(looked_up_stores(facts, node.parent))
    joined = [{found for t in tables for found in looked_up_tables(facts, t)} for tables in _joined_tables(declared)]
    return replace(facts, uncached=uncached_tables(declared, joined))


def _joined_tables(declared: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
    """The tables of each join of tables."""
    for node in declared:
        if isinstance(node, nodes.TableJoin):
            yield node.parents
        elif isinstance(node, nodes.ResponseJoin):
            yield node.table, node.right_table


def _join_completely(facts: TableFacts, join: nodes.TableJoin) -> None:
    """Have the versions of both sides looked up as of any time, and remembered for as long as they can be."""
    for table in join.parents:
        _have_looked_up_as_of(facts, table)
        facts.joined_completely.update(looked_up_stores(facts, table))
    if join.store is not None:
        facts.joined_completely.add(join.store.name)


def _ask_for_old(facts: TableFacts, table: Node, force: bool, asker: Node | None = None) -> bool:
    """Have a table send old values; False when that needs a store that it has not and is not to be forced to have."""
    sends = _enable(facts, table, force)
    if sends and asker is not None:
        facts.sends_old.add(asker)
    return sends


def _enable(facts: TableFacts, table: Node, force: bool) -> bool:
    if table in facts.sends_old and not isinstance(table, nodes.TableFilter):
        return True
    if _is_source(table):
        if table not in facts.stores and not force:
            return False
        facts.stores[table] = table.store  # type: ignore[attr-defined]
    elif isinstance(table, nodes.TableJoin):
        for parent in table.parents:
            _enable(facts, parent, force=True)
    elif (table not in facts.stores or isinstance(table, nodes.Suppress)) and not _enable(facts, table.parent, force):
        return table in facts.sends_old
    facts.sends_old.add(table)
    return True


def _have_looked_up(facts: TableFacts, table: Node) -> None:
    """Have a store from which the values of a table can be told."""
    if _is_source(table):
        facts.stores[table] = table.store  # type: ignore[attr-defined]
    if table in facts.stores:
        facts.looked_up.add(facts.stores[table].name)
    if table not in facts.stores or isinstance(table, nodes.Suppress):
        for parent in table.parents:
            _have_looked_up(facts, parent)


def _have_looked_up_as_of(facts: TableFacts, table: Node) -> None:
    """Note the versioned store of a table, or of the table that it is made from value by value."""
    if table in facts.stores and facts.stores[table].is_versioned:
        facts.looked_up_as_of.add(facts.stores[table].name)
    elif table not in facts.stores and table.inherits_versions:
        for parent in table.parents:
            _have_looked_up_as_of(facts, parent)


def looked_up_tables(facts: TableFacts, table: Node) -> tuple[Node, ...]:
    """The tables in whose stores the values of a table can be told."""
    own = (table,) if table in facts.stores else ()
    if own and not isinstance(table, nodes.Suppress):
        return own
    return (*own, *(found for parent in table.parents for found in looked_up_tables(facts, parent)))


def looked_up_stores(facts: TableFacts, table: Node) -> tuple[str, ...]:
    """The names of the stores from which the values of a table can be told."""
    return tuple(facts.stores[found].name for found in looked_up_tables(facts, table))


def _changes_in_silence(facts: TableFacts, table: Node) -> bool:
    """Whether what a table sends does not tell all that happens to its values.

    A join of two tables that one record changes sends two updates, and each of them names the old value of one side
    joined with the new value of the other, which no row ever had. An inner one sends nothing when the record deletes a
    row on both sides; and what is made from it by values or by other joins does not know of that either. If it is kept,
    the row stays, but as the value before the next one counts what was there before the deletion. Windows expire
    without a change being sent. A suppressed table names the value
    before that the table in front of it had, and not the one that was sent on; and so does a join that is kept in a
    versioned store, which refuses what is too old.
    """
    if isinstance(table, nodes.WindowedAggregate | nodes.Suppress):
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
    """The topics whose records change a table at once."""
    if isinstance(table, nodes.Repartition):
        return frozenset({table.topic})
    own = getattr(table, "topics", ()) or ((table.topic,) if isinstance(table, nodes.TableSource) else ())
    return frozenset(own).union(*(_topics_of(parent) for parent in table.parents))


def _is_source(node: Node) -> bool:
    return isinstance(node, nodes.TableSource | nodes.ToTable)
