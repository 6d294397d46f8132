"""Joins by the key."""

from __future__ import annotations

from penstock.engine.lowering.lookups import joined_table, lookup_of
from penstock.engine.lowering.lowering import Lowering
from penstock.ops.core.operator import Operator, PassThrough
from penstock.ops.joins.complete import CompleteJoinSide
from penstock.ops.joins.joiner import Joiner
from penstock.ops.joins.stream_stream import Side, StreamJoin
from penstock.ops.joins.stream_table import BufferedStreamTableJoin, GlobalTableJoin, StreamTableJoin
from penstock.ops.joins.table_table import NEEDS, TableJoinMerge, TableJoinSide
from penstock.ops.tables.lookup import Sent
from penstock.plan import nodes
from penstock.state.kinds.buffer import TimeOrderedBuffer
from penstock.state.kinds.join_window import JoinWindowStore, WaitingStore


def table_join(node: nodes.TableJoin, at: Lowering) -> Operator:
    if at.part.role == "merge":
        return TableJoinMerge(at.table_store(), at.sends_old, node.is_complete)
    is_left = at.part.role == "this"
    own, other = node.parents if is_left else node.parents[::-1]
    needs = NEEDS[node.kind] if is_left else NEEDS[node.kind].swapped()
    joiner = Joiner(at.caller(node.joiner), node.value, swapped=not is_left)
    if node.is_complete:
        sends_old = at.sends_old and node not in at.facts.stores
        return CompleteJoinSide(joiner, joined_table(own, at), joined_table(other, at), needs, sends_old)
    is_versioned = own in at.facts.versioned
    found = lookup_of(other, at, sent=Sent.IN_TURN if at.sends_old else Sent.AT_ONCE)
    sends_old = at.sends_old and not node.joiner.wants_context  # only its store knows earlier results
    return TableJoinSide(
        at.name, at.context, joiner, found, needs=needs, sends_old=sends_old, is_versioned=is_versioned
    )


def stream_join(node: nodes.StreamJoin, at: Lowering) -> Operator:
    if at.part.role != "merge":
        return PassThrough()
    windows = node.windows
    before, after = windows.before_ms, windows.after_ms
    left = _side(node.left, at, before, after, node.kind != nodes.INNER)
    right = _side(node.right, at, after, before, node.kind == nodes.OUTER)
    waiting = None if node.store is None else at.store(node.store, WaitingStore)
    joiner = Joiner(at.caller(node.joiner), node.value)
    clock = at.state.clock(at.name)
    grace = windows.grace_period_ms
    return StreamJoin(at.name, at.context, joiner, left, right, clock=clock, waiting=waiting, grace=grace, key=node.key)


def _side(side: nodes.JoinWindow, at: Lowering, before: int, after: int, is_outer: bool) -> Side:
    store = at.store(side.store, JoinWindowStore)
    return Side(store, side.value, before, after, is_outer, keeps_headers=side.store.headers is not None)


def stream_table_join(node: nodes.StreamTableJoin, at: Lowering) -> Operator:
    table, joiner = lookup_of(node.table, at, as_of=True), Joiner(at.caller(node.joiner), node.value)
    if node.store is None:
        return StreamTableJoin(at.name, at.context, table, joiner, node.is_left)
    buffer = at.store(node.store, TimeOrderedBuffer)
    return BufferedStreamTableJoin(at.name, at.context, table, joiner, node.is_left, buffer)


def global_table_join(node: nodes.GlobalTableJoin, at: Lowering) -> Operator:
    table, joiner = lookup_of(node.table, at), Joiner(at.caller(node.joiner), node.value)
    selector = at.caller(node.key_selector)
    return GlobalTableJoin(
        at.name, at.context, table, selector, table_key=node.table_key, joiner=joiner, is_left=node.is_left
    )
