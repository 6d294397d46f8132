"""Lookups of tables' values."""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.lowering.lowering import Lowering
from penstock.engine.lowering.processors import transformer
from penstock.ops.joins.complete import JoinedTable
from penstock.ops.joins.joiner import Joiner
from penstock.ops.joins.table_table import NEEDS, JoinLookup
from penstock.ops.joins.version_times import VersionTimes
from penstock.ops.suppress.lookup import SuppressLookup
from penstock.ops.tables.lookup import (
    FilterLookup,
    Lookup,
    MapLookup,
    Sent,
    SentLookup,
    StoreLookup,
    VersionsLookup,
)
from penstock.ops.tables.table import TableFilter, TableMapValues
from penstock.ops.windows.lookup import SessionLookup, WindowLookup
from penstock.plan import nodes
from penstock.plan.node import Node, StoreSpec
from penstock.state.kinds.buffer import TimeOrderedBuffer
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.kinds.session import SessionStore
from penstock.state.kinds.sliding import SlidingStore
from penstock.state.kinds.versioned.store import VersionedStore
from penstock.state.kinds.window import WindowStore


def lookup_of(table: Node, at: Lowering, as_of: bool = False, before: bool = False, sent: Sent | None = None) -> Lookup:
    """Return a lookup for the values of a table.

    Args:
        as_of: look up versioned tables as of the records' times.
        before: look up the values before the record that is processed.
        sent: look up the values that tables which hold updates back have already sent; otherwise their newest ones.
    """
    spec = at.facts.stores.get(table)
    if spec is not None and not table.collapses_updates:
        return _in_store(spec, at, as_of, before, sent if at.caches(table) else None)
    above = (lookup_of(parent, at, as_of and table.inherits_versions, before, sent) for parent in table.parents)
    return _LOOK_UP[type(table)](table, at, *above)


def _in_store(spec: StoreSpec, at: Lowering, as_of: bool, before: bool, sent: Sent | None) -> Lookup:
    store, (_, value) = at.state.stores[spec.name], spec.types
    if isinstance(store, WindowStore | SlidingStore):
        return WindowLookup(at.context, store, value)
    if isinstance(store, SessionStore):
        return SessionLookup(at.context, store, value)
    if as_of and isinstance(store, VersionedStore):
        return VersionsLookup(at.context, store, value, before)
    assert isinstance(store, KeyValueStore | VersionedStore)
    if sent is not None and isinstance(store, KeyValueStore):
        return SentLookup(at.context, store, value, sent)
    return StoreLookup(at.context, store, value)


def _filtered(node: nodes.TableFilter, at: Lowering, above: Lookup) -> Lookup:
    return FilterLookup(above, TableFilter(at.caller(node.predicate), node.negate, False, None, False))


def _mapped(node: nodes.TableMapValues, at: Lowering, above: Lookup) -> Lookup:
    return MapLookup(above, TableMapValues(at.caller(node.mapper), node.value, False, None))


def _transformed(node: nodes.TableTransformValues, at: Lowering, above: Lookup) -> Lookup:
    return MapLookup(above, transformer(node, at, False, None))


def _suppressed(node: nodes.Suppress, at: Lowering, above: Lookup) -> Lookup:
    return SuppressLookup(above, at.context, at.store(node.store, TimeOrderedBuffer), node.until_close)


def _joined(node: nodes.TableJoin, at: Lowering, left: Lookup, right: Lookup) -> Lookup:
    return JoinLookup(Joiner(at.caller(node.joiner), node.value), left, right, NEEDS[node.kind])


_LOOK_UP: dict[type[Node], Callable[..., Lookup]] = {
    nodes.TableFilter: _filtered,
    nodes.TableMapValues: _mapped,
    nodes.TableTransformValues: _transformed,
    nodes.Suppress: _suppressed,
    nodes.TableJoin: _joined,
}
"""How the values of tables without a store are computed from their parents' values."""


def joined_table(table: Node, at: Lowering) -> JoinedTable:
    stores = at.stores_of(table)
    return JoinedTable(
        now=lookup_of(table, at, as_of=True),
        before=lookup_of(table, at, as_of=True, before=True),
        newest=lookup_of(table, at),
        times=VersionTimes(at.context, [store for store in stores if isinstance(store, VersionedStore)]),
    )
