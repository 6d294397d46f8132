"""From the parts of a sub-topology to operators: the one table that connects plan and operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.dsl.suppressed import SHUT_DOWN, SPILL_TO_DISK
from penstock.ops.aggregations.plain import StreamAggregate, TableAggregate, WindowAggregate
from penstock.ops.core.context import Context
from penstock.ops.core.fields import FieldReader
from penstock.ops.core.fold import fold_of
from penstock.ops.core.functions import Caller
from penstock.ops.core.operator import Operator, PassThrough
from penstock.ops.deduplicate.operator import Deduplicate, KeyById, RestoreKey, Selector
from penstock.ops.foreign_key.join import Announce, ForeignTableJoin, Receive, Respond, Subscribe, SubscriptionJoin
from penstock.ops.foreign_key.silent_table import SilentTable
from penstock.ops.joins.complete import CompleteJoinSide, JoinedTable
from penstock.ops.joins.joiner import Joiner
from penstock.ops.joins.stream_stream import Side, StreamJoin
from penstock.ops.joins.stream_table import BufferedStreamTableJoin, GlobalTableJoin, StreamTableJoin
from penstock.ops.joins.table_table import NEEDS, JoinLookup, TableJoinMerge, TableJoinSide
from penstock.ops.joins.version_times import VersionTimes
from penstock.ops.stateless.filter import Filter
from penstock.ops.stateless.flat_map import FlatMap
from penstock.ops.stateless.map import Map, MapValues, SelectKey
from penstock.ops.stateless.peek import Peek
from penstock.ops.stateless.repartition import KeyFilter
from penstock.ops.stateless.sink import Sink
from penstock.ops.stateless.source import Source
from penstock.ops.stateless.split import Branch, Split
from penstock.ops.suppress.operator import Suppress
from penstock.ops.suppress.timing import UNLIMITED, Limits
from penstock.ops.tables.group_by import TableGroupBy
from penstock.ops.tables.lookup import (
    FilterLookup,
    Lookup,
    MapLookup,
    Sent,
    SentLookup,
    SessionLookup,
    StoreLookup,
    SuppressLookup,
    VersionsLookup,
    WindowLookup,
)
from penstock.ops.tables.table import TableFilter, TableMapValues, TableSource, TableStore, TableWriter, ToStream
from penstock.ops.tables.versioned_table import VersionedTableStore
from penstock.ops.windows.cogroup import CogroupInput, ObservedTime, OneTime, SideTimes
from penstock.ops.windows.distinct import FirstOfSession, NoFold, SessionDistinct, WindowDistinct
from penstock.ops.windows.on_window_close import Closing
from penstock.ops.windows.sessions.fold import session_fold_of
from penstock.ops.windows.sessions.operator import SessionAggregate
from penstock.ops.windows.sliding.operator import SlidingAggregate
from penstock.plan import nodes
from penstock.plan.fields import Field
from penstock.plan.functions import UserFunction
from penstock.plan.nodes import Node, StoreSpec
from penstock.plan.passes.stores import TableFacts, looked_up_tables
from penstock.plan.physical import Part
from penstock.serdes import Serde, SessionWindowedSerde, TimeWindowedSerde, WindowedSerde
from penstock.state.kinds.buffer import TimeOrderedBuffer
from penstock.state.kinds.deduplication import DeduplicationStore
from penstock.state.kinds.join_window import JoinWindowStore, WaitingStore
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.kinds.session import SessionStore
from penstock.state.kinds.sliding import SlidingStore
from penstock.state.kinds.subscription import SubscriptionStore
from penstock.state.kinds.versioned.store import VersionedStore
from penstock.state.kinds.window import WindowStore
from penstock.state.store import StateStore
from penstock.state.task_state import TaskState


@dataclass(frozen=True)
class Lowering:
    """What operators are made from: a part, and what its task has for it."""

    part: Part
    facts: TableFacts
    decodes: tuple[str, ...]
    state: TaskState
    context: Context
    caching: bool

    @property
    def name(self) -> str:
        return self.part.name

    def caller(self, function: UserFunction) -> Caller:
        return Caller(self.part.name, function, self.context)

    @property
    def sends_old(self) -> bool:
        return self.part.node in self.facts.sends_old

    def store(self, spec: StoreSpec) -> StateStore:
        return self.state.stores[spec.name]

    def caches(self, table: Node) -> bool:
        """Whether a table holds its updates back until the commit."""
        spec = self.facts.stores[table]
        return self.caching and spec.caching and not spec.is_versioned and table not in self.facts.uncached

    def tells_stored(self, table: Node) -> bool:
        """Whether a table sends every update on although its store caches, with the old values that a cache tells."""
        spec = self.facts.stores[table]
        return self.caching and spec.caching and not spec.is_versioned and table in self.facts.uncached

    def table_store(self) -> TableWriter | None:
        spec = self.facts.stores.get(self.part.node)
        if spec is None:
            return None
        store = self.store(spec)
        if isinstance(store, VersionedStore):
            return VersionedTableStore(self.name, self.context, store, self.sends_old)
        return TableStore(self.context, store, self.sends_old, self.caches(self.part.node))


def lower(lowering: Lowering) -> Operator:
    """The operator of a part."""
    part = lowering.part
    if part.kind == "source":
        timestamp = getattr(part.node, "timestamp", None)
        clock = lowering.state.clock(part.name)
        return Source(part.name, lowering.context, timestamp, lowering.decodes, clock)
    if isinstance(part.node, nodes.Sink | nodes.Repartition) and part.kind == "sink":
        return Sink(part.name, lowering.context, part.node.key, part.node.value)
    return LOWER[type(part.node)](part.node, lowering)


def _filter(node: nodes.Filter, at: Lowering) -> Operator:
    return Filter(at.caller(node.predicate), node.negate)


def _map(node: nodes.Map, at: Lowering) -> Operator:
    return Map(at.caller(node.mapper), node.key, node.value)


def _map_values(node: nodes.MapValues, at: Lowering) -> Operator:
    return MapValues(at.caller(node.mapper), node.value)


def _flat_map(node: nodes.FlatMap, at: Lowering) -> Operator:
    return FlatMap(at.caller(node.mapper), node.key, node.value)


def _flat_map_values(node: nodes.FlatMapValues, at: Lowering) -> Operator:
    return FlatMap(at.caller(node.mapper), None, node.value)


def _select_key(node: nodes.SelectKey, at: Lowering) -> Operator:
    return SelectKey(at.caller(node.mapper), node.key)


def _peek(node: nodes.Peek, at: Lowering) -> Operator:
    return Peek(at.caller(node.action))


def _pass_through(node: Node, at: Lowering) -> Operator:
    return PassThrough()


def _split(node: nodes.Split, at: Lowering) -> Operator:
    return Split([None if predicate is None else at.caller(predicate) for predicate in node.predicates])


def _branch(node: nodes.Branch, at: Lowering) -> Operator:
    return Branch(node.index)


def _repartition(node: nodes.Repartition, at: Lowering) -> Operator:
    return KeyFilter(at.name, at.context, node in at.facts.keeps_null_keys)


def _table_source(node: Node, at: Lowering) -> Operator:
    return TableSource(at.name, at.context, at.table_store())


def _table_filter(node: nodes.TableFilter, at: Lowering) -> Operator:
    is_versioned = node.parent in at.facts.versioned
    return TableFilter(at.caller(node.predicate), node.negate, at.sends_old, at.table_store(), is_versioned)


def _table_map_values(node: nodes.TableMapValues, at: Lowering) -> Operator:
    return TableMapValues(at.caller(node.mapper), node.value, at.sends_old, at.table_store())


def _to_stream(node: Node, at: Lowering) -> Operator:
    return ToStream()


def _table_group_by(node: nodes.TableGroupBy, at: Lowering) -> Operator:
    return TableGroupBy(at.caller(node.mapper), node.key, node.value, node.parent in at.facts.versioned)


def _stream_aggregate(node: nodes.StreamAggregate, at: Lowering) -> Operator:
    assert node.store.value is not None
    fold = fold_of(node.aggregation, at.name, node.store.value, at.context)
    store = at.store(node.store)
    return StreamAggregate(at.name, at.context, fold, store, at.sends_old, at.caches(node), at.tells_stored(node))


def _window_aggregate(node: nodes.WindowAggregate, at: Lowering) -> Operator:
    is_distinct = isinstance(node, nodes.WindowDistinct)
    assert node.store.key is not None
    assert node.store.value is not None
    store = at.store(node.store)
    assert isinstance(store, WindowStore)
    serde = TimeWindowedSerde(node.store.key, node.windows.size_ms)
    return (WindowDistinct if is_distinct else WindowAggregate)(
        at.name,
        at.context,
        NoFold() if is_distinct else fold_of(node.aggregation, at.name, node.store.value, at.context),
        store,
        at.sends_old,
        at.caches(node) and not node.final and not is_distinct,
        node.windows,
        serde,
        _observed_time(node, at),
        _closing(node, at, serde, at_end=True),
        at.tells_stored(node) and not node.final and not is_distinct,
    )


def _session_aggregate(node: nodes.SessionAggregate, at: Lowering) -> Operator:
    is_distinct = isinstance(node, nodes.SessionDistinct)
    assert node.store.key is not None
    assert node.store.value is not None
    store = at.store(node.store)
    assert isinstance(store, SessionStore)
    serde = SessionWindowedSerde(node.store.key)
    return (SessionDistinct if is_distinct else SessionAggregate)(
        at.name,
        at.context,
        FirstOfSession() if is_distinct else session_fold_of(node.aggregation, node.store.value),
        store,
        at.sends_old,
        at.caches(node) and not node.final and not is_distinct,
        node.windows,
        serde,
        _observed_time(node, at),
        _closing(node, at, serde, at_end=False),
        at.tells_stored(node) and not node.final and not is_distinct,
    )


def _sliding_aggregate(node: nodes.SlidingAggregate, at: Lowering) -> Operator:
    assert node.store.key is not None
    assert node.store.value is not None
    store = at.store(node.store)
    assert isinstance(store, SlidingStore)
    serde = TimeWindowedSerde(node.store.key, node.windows.size_ms)
    return SlidingAggregate(
        at.name,
        at.context,
        session_fold_of(node.aggregation, node.store.value),
        store,
        at.sends_old,
        at.caches(node) and not node.final,
        node.windows,
        serde,
        _observed_time(node, at),
        _closing(node, at, serde, at_end=False),
        at.tells_stored(node) and not node.final,
    )


def _observed_time(node: Node, at: Lowering) -> ObservedTime:
    """The operator's own stream time; in a cogroup every side has one."""
    sides = [parent for parent in node.parents if isinstance(parent, nodes.CogroupInput)]
    return SideTimes([at.state.clock(side.name) for side in sides]) if sides else OneTime(at.state.clock(at.name))


def _cogroup_input(node: nodes.CogroupInput, at: Lowering) -> Operator:
    return CogroupInput(at.name, at.context, node.side)


def _closing(node: nodes.WindowAggregate, at: Lowering, serde: WindowedSerde, at_end: bool) -> Closing | None:
    assert node.store.value is not None
    if not node.final:
        return None
    emitted = at.state.clock(f"{at.name}-emitted")
    by_key = node.store.in_memory and isinstance(node, nodes.SessionAggregate)  # the orders of Kafka Streams' stores
    return Closing(at.name, at.context, serde, node.store.value, at.sends_old, emitted, at_end, by_key)


def _table_aggregate(node: nodes.TableAggregate, at: Lowering) -> Operator:
    assert node.store.value is not None
    fold = fold_of(node.aggregation, at.name, node.store.value, at.context)
    store = at.store(node.store)
    return TableAggregate(at.name, at.context, fold, store, at.sends_old, at.caches(node), at.tells_stored(node))


def _selector(function: UserFunction | Field, id_: Serde, at: Lowering) -> Selector:
    if isinstance(function, Field):
        return Selector(at.name, at.context, FieldReader(at.name, function, at.context).column, id_)
    return Selector(at.name, at.context, at.caller(function).column, id_)


def _deduplicate(node: nodes.Deduplicate, at: Lowering) -> Operator:
    store = at.store(node.store)
    assert isinstance(store, DeduplicationStore)
    selector = None
    if node.id_selector is not None:
        assert node.id is not None
        selector = _selector(node.id_selector, node.id, at)
    clock = at.state.clock(at.name)
    splits = node.dropped_to is not None
    return Deduplicate(at.name, at.context, node.key, selector, node.interval, store, clock, splits)


def _key_by_id(node: nodes.KeyById, at: Lowering) -> Operator:
    return KeyById(at.name, at.context, _selector(node.id_selector, node.id, at), node.key, node.value)


def _restore_key(node: nodes.RestoreKey, at: Lowering) -> Operator:
    return RestoreKey(at.name, at.context, node.key, node.value, at.decodes)


def _suppress(node: nodes.Suppress, at: Lowering) -> Operator:
    config = node.suppressed.buffer
    limits = Limits()
    if config.when_full != SPILL_TO_DISK:
        records, nbytes = config.record_limit, config.byte_limit
        limits = Limits(UNLIMITED if records is None else records, UNLIMITED if nbytes is None else nbytes)
    buffer = at.store(node.store)
    assert isinstance(buffer, TimeOrderedBuffer)
    final = node.suppressed.time_ms is None
    shuts_down = config.when_full == SHUT_DOWN
    clock = at.state.clock(at.name)
    key, value = node.store.key, node.store.value
    assert key is not None
    assert value is not None
    return Suppress(at.name, at.context, buffer, clock, final, limits, shuts_down, at.sends_old, key, value)


def _table_join(node: nodes.TableJoin, at: Lowering) -> Operator:
    if at.part.role == "merge":
        return TableJoinMerge(at.table_store(), at.sends_old, node.is_complete)
    is_left = at.part.role == "this"
    own, other = node.parents if is_left else node.parents[::-1]
    needs = NEEDS[node.kind] if is_left else NEEDS[node.kind].swapped()
    joiner = Joiner(at.caller(node.joiner), node.value, swapped=not is_left)
    if node.is_complete:
        sends_old = at.sends_old and node not in at.facts.stores
        return CompleteJoinSide(joiner, _joined_table(own, at), _joined_table(other, at), needs, sends_old)
    is_versioned = own in at.facts.versioned
    found = lookup_of(other, at, sent=Sent.IN_TURN if at.sends_old else Sent.AT_ONCE)
    return TableJoinSide(at.name, at.context, joiner, found, needs, at.sends_old, is_versioned)


def _joined_table(table: Node, at: Lowering) -> JoinedTable:
    stores = [at.store(at.facts.stores[kept]) for kept in looked_up_tables(at.facts, table)]
    return JoinedTable(
        now=lookup_of(table, at, as_of=True),
        before=lookup_of(table, at, as_of=True, before=True),
        newest=lookup_of(table, at),
        times=VersionTimes(at.context, [store for store in stores if isinstance(store, VersionedStore)]),
    )


def _join_window(node: nodes.JoinWindow, at: Lowering) -> JoinWindowStore:
    store = at.store(node.store)
    assert isinstance(store, JoinWindowStore)
    return store


def _stream_join(node: nodes.StreamJoin, at: Lowering) -> Operator:
    if at.part.role != "merge":
        return PassThrough()
    windows = node.windows
    before, after = windows.before_ms, windows.after_ms
    left = Side(_join_window(node.left, at), node.left.value, before, after, node.kind != nodes.INNER)
    right = Side(_join_window(node.right, at), node.right.value, after, before, node.kind == nodes.OUTER)
    waiting = None if node.store is None else at.store(node.store)
    assert waiting is None or isinstance(waiting, WaitingStore)
    joiner = Joiner(at.caller(node.joiner), node.value)
    clock = at.state.clock(at.name)
    return StreamJoin(at.name, at.context, joiner, left, right, clock, waiting, windows.grace_period_ms, node.key)


def _stream_table_join(node: nodes.StreamTableJoin, at: Lowering) -> Operator:
    table, joiner = lookup_of(node.table, at, as_of=True), Joiner(at.caller(node.joiner), node.value)
    if node.store is None:
        return StreamTableJoin(at.name, at.context, table, joiner, node.is_left)
    buffer = at.store(node.store)
    assert isinstance(buffer, TimeOrderedBuffer)
    return BufferedStreamTableJoin(at.name, at.context, table, joiner, node.is_left, buffer)


def _global_table_join(node: nodes.GlobalTableJoin, at: Lowering) -> Operator:
    table, joiner = lookup_of(node.table, at), Joiner(at.caller(node.joiner), node.value)
    selector = at.caller(node.key_selector)
    return GlobalTableJoin(at.name, at.context, table, selector, node.table_key, joiner, node.is_left)


def _subscriptions(node: nodes.Receive, at: Lowering) -> SubscriptionStore:
    store = at.store(node.store)
    assert isinstance(store, SubscriptionStore)
    return store


def _subscribe(node: nodes.Subscribe, at: Lowering) -> Operator:
    is_versioned = node.parent in at.facts.versioned
    silent = None
    if node.parent in at.facts.silent:
        quiet = replace(at, context=at.context.uncounted())
        stores = [at.store(at.facts.stores[kept]) for kept in looked_up_tables(at.facts, node.parent)]
        expired = [at.state.clock(f"{at.name}-{store.name}-expired") for store in stores]
        rows = lookup_of(node.parent, quiet, sent=Sent.IN_TURN)
        silent = SilentTable(at.context, rows, stores, expired, node.left_key)
    return Subscribe(
        at.name,
        at.context,
        at.caller(node.mapper),
        node.key,
        node.is_left,
        is_versioned,
        at.state.clock(at.name),
        silent,
    )


def _receive(node: nodes.Receive, at: Lowering) -> Operator:
    return Receive(at.context, _subscriptions(node, at))


def _subscription_join(node: nodes.SubscriptionJoin, at: Lowering) -> Operator:
    return SubscriptionJoin(lookup_of(node.table, at, sent=Sent.IN_TURN), node.key)


def _foreign_table_join(node: nodes.ForeignTableJoin, at: Lowering) -> Operator:
    is_versioned = node.parent in at.facts.versioned
    store = _subscriptions(node.receive, at)
    return ForeignTableJoin(at.name, at.context, store, node.key, is_versioned, node.receive.subscribe.name)


def _announce(node: nodes.Announce, at: Lowering) -> Operator:
    return Announce(at.context)


def _respond(node: nodes.Respond, at: Lowering) -> Operator:
    store = at.store(node.store)
    assert isinstance(store, KeyValueStore)
    joiner = Joiner(at.caller(node.joiner), node.value)
    return Respond(at.context, store, joiner, node.left, node.right, node.is_left)


def lookup_of(table: Node, at: Lowering, as_of: bool = False, before: bool = False, sent: Sent | None = None) -> Lookup:
    """Where the values of a table can be looked up.

    Args:
        as_of: look versioned tables up as of the records' times.
        before: look those up as they were before the record that is processed.
        sent: look up what tables that hold updates back have sent on; otherwise all that they know.
    """
    spec = at.facts.stores.get(table)
    if spec is not None and not isinstance(table, nodes.Suppress):
        store = at.store(spec)
        assert spec.value is not None
        if isinstance(store, WindowStore | SlidingStore):
            return WindowLookup(at.context, store, spec.value)
        if isinstance(store, SessionStore):
            return SessionLookup(at.context, store, spec.value)
        assert isinstance(store, KeyValueStore | VersionedStore)
        if as_of and isinstance(store, VersionedStore):
            return VersionsLookup(at.context, store, spec.value, before)
        if sent is not None and at.caches(table):
            assert isinstance(store, KeyValueStore)
            return SentLookup(at.context, store, spec.value, sent)
        return StoreLookup(at.context, store, spec.value)
    above = [lookup_of(parent, at, as_of and table.inherits_versions, before, sent) for parent in table.parents]
    if isinstance(table, nodes.TableFilter):
        return FilterLookup(above[0], TableFilter(at.caller(table.predicate), table.negate, False, None, False))
    if isinstance(table, nodes.TableMapValues):
        return MapLookup(above[0], TableMapValues(at.caller(table.mapper), table.value, False, None))
    if isinstance(table, nodes.Suppress):
        buffer = at.store(table.store)
        assert isinstance(buffer, TimeOrderedBuffer)
        return SuppressLookup(above[0], at.context, buffer, table.suppressed.time_ms is None)
    assert isinstance(table, nodes.TableJoin)
    joiner = Joiner(at.caller(table.joiner), table.value)
    return JoinLookup(joiner, above[0], above[1], NEEDS[table.kind])


LOWER: dict[type[Node], Callable[..., Operator]] = {
    nodes.Filter: _filter,
    nodes.Map: _map,
    nodes.MapValues: _map_values,
    nodes.FlatMap: _flat_map,
    nodes.FlatMapValues: _flat_map_values,
    nodes.SelectKey: _select_key,
    nodes.Peek: _peek,
    nodes.Merge: _pass_through,
    nodes.Split: _split,
    nodes.Branch: _branch,
    nodes.Repartition: _repartition,
    nodes.TableSource: _table_source,
    nodes.ToTable: _table_source,
    nodes.TableFilter: _table_filter,
    nodes.TableMapValues: _table_map_values,
    nodes.ToStream: _to_stream,
    nodes.TableGroupBy: _table_group_by,
    nodes.StreamAggregate: _stream_aggregate,
    nodes.WindowAggregate: _window_aggregate,
    nodes.Deduplicate: _deduplicate,
    nodes.KeyById: _key_by_id,
    nodes.RestoreKey: _restore_key,
    nodes.SessionAggregate: _session_aggregate,
    nodes.SlidingAggregate: _sliding_aggregate,
    nodes.CogroupInput: _cogroup_input,
    nodes.WindowDistinct: _window_aggregate,
    nodes.SessionDistinct: _session_aggregate,
    nodes.TableAggregate: _table_aggregate,
    nodes.Suppress: _suppress,
    nodes.TableJoin: _table_join,
    nodes.JoinWindow: _pass_through,
    nodes.StreamJoin: _stream_join,
    nodes.GlobalTable: _table_source,
    nodes.StreamTableJoin: _stream_table_join,
    nodes.GlobalTableJoin: _global_table_join,
    nodes.Subscribe: _subscribe,
    nodes.Receive: _receive,
    nodes.SubscriptionJoin: _subscription_join,
    nodes.ForeignTableJoin: _foreign_table_join,
    nodes.Announce: _announce,
    nodes.Respond: _respond,
}
