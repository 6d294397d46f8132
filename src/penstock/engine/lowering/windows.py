"""Aggregations in windows: of time, sliding, sessions."""

from __future__ import annotations

from penstock.engine.lowering.lowering import Lowering
from penstock.ops.core.fold import fold_of
from penstock.ops.core.operator import Operator
from penstock.ops.windows.cogroup import CogroupInput, ObservedTime, OneTime, SideTimes
from penstock.ops.windows.distinct import NoFold, WindowDistinct
from penstock.ops.windows.on_window_close import Closing
from penstock.ops.windows.sessions.folds import session_fold_of
from penstock.ops.windows.time_windows import WindowAggregate
from penstock.ops.windows.windowed_table import WindowedTable
from penstock.plan import nodes
from penstock.plan.node import Node
from penstock.serdes import SessionWindowedSerde, TimeWindowedSerde, WindowedSerde
from penstock.state.kinds.session import SessionStore
from penstock.state.kinds.sliding import SlidingStore
from penstock.state.kinds.window import WindowStore


def window_aggregate(node: nodes.WindowAggregate, at: Lowering) -> Operator:
    key, value = node.store.types
    table = _table(node, at, TimeWindowedSerde(key, node.keeps.window_ends), closes_at_end=True)
    store = at.store(node.store, WindowStore)
    return WindowAggregate(table, node.windows, store, fold_of(node.aggregation, at.name, value, at.context))


def window_distinct(node: nodes.WindowDistinct, at: Lowering) -> Operator:
    serde = TimeWindowedSerde(node.store.types[0], node.keeps.window_ends)
    table = _table(node, at, serde, closes_at_end=True, emits_each=True)
    return WindowDistinct(table, node.windows, at.store(node.store, WindowStore), NoFold())


def session_aggregate(node: nodes.SessionAggregate, at: Lowering) -> Operator:
    from penstock.ops.windows.sessions.operator import SessionAggregate  # imports Numba, which others do not need

    key, value = node.store.types
    table = _table(node, at, SessionWindowedSerde(key))
    store = at.store(node.store, SessionStore)
    return SessionAggregate(table, node.windows, store, session_fold_of(node.aggregation, value, at.context.facts))


def session_distinct(node: nodes.SessionDistinct, at: Lowering) -> Operator:
    from penstock.ops.windows.sessions.distinct import FirstOfSession, SessionDistinct  # imports Numba

    table = _table(node, at, SessionWindowedSerde(node.store.types[0]), emits_each=True)
    return SessionDistinct(table, node.windows, at.store(node.store, SessionStore), FirstOfSession())


def sliding_aggregate(node: nodes.SlidingAggregate, at: Lowering) -> Operator:
    from penstock.ops.windows.sliding.operator import SlidingAggregate  # imports Numba, which others do not need

    key, value = node.store.types
    table = _table(node, at, TimeWindowedSerde(key, node.windows.size_ms))
    store = at.store(node.store, SlidingStore)
    return SlidingAggregate(table, node.windows, store, session_fold_of(node.aggregation, value, at.context.facts))


def cogroup_input(node: nodes.CogroupInput, at: Lowering) -> Operator:
    return CogroupInput(at.name, at.context, node.side)


def _table(
    node: nodes.WindowedAggregate,
    at: Lowering,
    serde: WindowedSerde,
    closes_at_end: bool = False,
    emits_each: bool = False,
) -> WindowedTable:
    """Return the output side of a windowed aggregation; ``emits_each`` if no result ever replaces another."""
    emits_each = emits_each or node.final
    return WindowedTable(
        node=at.name,
        context=at.context,
        serde=serde,
        time=_observed_time(node, at),
        closing=_closing(node, at, serde, closes_at_end) if node.final else None,
        sends_old=at.sends_old,
        caching=at.caches(node) and not emits_each,
        tells_stored=at.tells_stored(node) and not emits_each,
    )


def _observed_time(node: Node, at: Lowering) -> ObservedTime:
    """Return the operator's own stream time; in a cogroup every side has one."""
    sides = [at.state.clock(side.name) for side in node.sides]
    return SideTimes(sides) if sides else OneTime(at.state.clock(at.name))


def _closing(node: nodes.WindowedAggregate, at: Lowering, serde: WindowedSerde, at_end: bool) -> Closing:
    _, value = node.store.types
    emitted = at.state.clock(f"{at.name}-emitted")
    by_key = node.store.in_memory and isinstance(node, nodes.SessionAggregate)  # the orders of Kafka Streams' stores
    return Closing(
        at.name, at.context, serde, value, sends_old=at.sends_old, emitted=emitted, at_end=at_end, by_key=by_key
    )
