"""Tables and their aggregations."""

from __future__ import annotations

from penstock.engine.lowering.lowering import Lowering
from penstock.ops.aggregations.plain import StreamAggregate, TableAggregate
from penstock.ops.core.fold import fold_of
from penstock.ops.core.operator import Operator
from penstock.ops.tables.group_by import TableGroupBy
from penstock.ops.tables.table import TableFilter, TableMapValues, TableSource, ToStream
from penstock.plan import nodes
from penstock.plan.node import Node


def table_source(node: Node, at: Lowering) -> Operator:
    return TableSource(at.name, at.context, at.table_store())


def table_filter(node: nodes.TableFilter, at: Lowering) -> Operator:
    is_versioned = node.parent in at.facts.versioned
    return TableFilter(at.caller(node.predicate), node.negate, at.sends_old, at.table_store(), is_versioned)


def table_map_values(node: nodes.TableMapValues, at: Lowering) -> Operator:
    return TableMapValues(at.caller(node.mapper), node.value, at.sends_old, at.table_store())


def to_stream(node: Node, at: Lowering) -> Operator:
    return ToStream()


def table_group_by(node: nodes.TableGroupBy, at: Lowering) -> Operator:
    return TableGroupBy(at.caller(node.mapper), node.key, node.value, node.parent in at.facts.versioned)


def stream_aggregate(node: nodes.StreamAggregate, at: Lowering) -> Operator:
    return _aggregate(StreamAggregate, node, at)


def table_aggregate(node: nodes.TableAggregate, at: Lowering) -> Operator:
    return _aggregate(TableAggregate, node, at)


def _aggregate(
    kind: type[StreamAggregate | TableAggregate], node: nodes.StreamAggregate | nodes.TableAggregate, at: Lowering
) -> Operator:
    _, value = node.store.types
    fold = fold_of(node.aggregation, at.name, value, at.context)
    store = at.state.stores[node.store.name]
    caches, tells_stored = at.caches(node), at.tells_stored(node)
    return kind(at.name, at.context, fold, store, sends_old=at.sends_old, caching=caches, tells_stored=tells_stored)
