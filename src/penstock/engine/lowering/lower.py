"""The table that maps plan nodes to operators."""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.lowering import deduplicate, foreign_key, joins, processors, stateless, suppress, tables, windows
from penstock.engine.lowering.lowering import Lowering
from penstock.ops.core.operator import Operator
from penstock.ops.stateless.left_out import LeftOut
from penstock.ops.stateless.sink import Sink
from penstock.ops.stateless.source import Source
from penstock.plan import nodes
from penstock.plan.node import Node


def lower(lowering: Lowering) -> Operator:
    """Return the operator of a part."""
    part = lowering.part
    if part.kind == "source":
        timestamp, clock, is_internal = part.node.timestamp, lowering.state.clock, not part.node.is_source
        return Source(part.name, lowering.context, timestamp, lowering.decodes, clock, is_internal, _left_out(lowering))
    if isinstance(part.node, nodes.Sink | nodes.Repartition) and part.kind == "sink":
        return sink(part.node, lowering)
    return LOWER[type(part.node)](part.node, lowering)


def _left_out(at: Lowering) -> LeftOut | None:
    """Return what looks at the values of a source that steps decode, and whose type steps write again."""
    node = at.part.node
    return stateless.left_out(at, node.types[1], at.part.topics) if node.is_source else None


def sink(node: nodes.Sink | nodes.Repartition, at: Lowering) -> Sink:
    how = node.selector, node.partitioner, node.makes_topics
    return Sink(at.name, at.context, node.key, node.value, node.topic, *how)


LOWER: dict[type[Node], Callable[..., Operator]] = {
    nodes.Filter: stateless.filter_,
    nodes.Map: stateless.map_,
    nodes.MapValues: stateless.map_values,
    nodes.FilterAsync: stateless.filter_async,
    nodes.MapValuesAsync: stateless.map_values_async,
    nodes.FlatMap: stateless.flat_map,
    nodes.FlatMapValues: stateless.flat_map_values,
    nodes.SelectKey: stateless.select_key,
    nodes.Peek: stateless.peek,
    nodes.Process: processors.process,
    nodes.ProcessValues: processors.process,
    nodes.Merge: stateless.pass_through,
    nodes.Split: stateless.split,
    nodes.Branch: stateless.branch,
    nodes.Unwrap: stateless.unwrap,
    nodes.UnwrapRecord: stateless.unwrap,
    nodes.Repartition: stateless.repartition,
    nodes.TableSource: tables.table_source,
    nodes.ToTable: tables.table_source,
    nodes.TableFilter: tables.table_filter,
    nodes.TableMapValues: tables.table_map_values,
    nodes.TableTransformValues: processors.transform_values,
    nodes.ToStream: tables.to_stream,
    nodes.TableGroupBy: tables.table_group_by,
    nodes.StreamAggregate: tables.stream_aggregate,
    nodes.WindowAggregate: windows.window_aggregate,
    nodes.Deduplicate: deduplicate.deduplicate,
    nodes.KeyById: deduplicate.key_by_id,
    nodes.RestoreKey: deduplicate.restore_key,
    nodes.SessionAggregate: windows.session_aggregate,
    nodes.SlidingAggregate: windows.sliding_aggregate,
    nodes.CogroupInput: windows.cogroup_input,
    nodes.WindowDistinct: windows.window_distinct,
    nodes.SessionDistinct: windows.session_distinct,
    nodes.TableAggregate: tables.table_aggregate,
    nodes.Suppress: suppress.suppress,
    nodes.TableJoin: joins.table_join,
    nodes.JoinWindow: stateless.pass_through,
    nodes.StreamJoin: joins.stream_join,
    nodes.GlobalTable: tables.table_source,
    nodes.GlobalStore: processors.global_store,
    nodes.StreamTableJoin: joins.stream_table_join,
    nodes.GlobalTableJoin: joins.global_table_join,
    nodes.SubscriptionSend: foreign_key.subscription_send,
    nodes.SubscriptionReceive: foreign_key.subscription_receive,
    nodes.SubscriptionJoin: foreign_key.subscription_join,
    nodes.ForeignTableJoin: foreign_key.foreign_table_join,
    nodes.Announce: foreign_key.announce,
    nodes.ResponseJoin: foreign_key.response_join,
}
