"""Joins of tables by a foreign key (KIP-213)."""

from __future__ import annotations

from dataclasses import replace

from penstock.engine.lowering.lookups import lookup_of
from penstock.engine.lowering.lowering import Lowering
from penstock.ops.core.operator import Operator
from penstock.ops.foreign_key.announce import Announce
from penstock.ops.foreign_key.foreign_table_join import ForeignTableJoin
from penstock.ops.foreign_key.response_join import ResponseJoin
from penstock.ops.foreign_key.silent_table import SilentTable
from penstock.ops.foreign_key.subscription_join import SubscriptionJoin
from penstock.ops.foreign_key.subscription_receive import SubscriptionReceive
from penstock.ops.foreign_key.subscription_send import SubscriptionSend
from penstock.ops.joins.joiner import Joiner
from penstock.ops.tables.lookup import Sent
from penstock.plan import nodes
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.kinds.subscription import SubscriptionStore


def subscription_send(node: nodes.SubscriptionSend, at: Lowering) -> Operator:
    is_versioned, counter = node.parent in at.facts.versioned, at.state.clock(at.name)
    silent = _silent_table(node, at) if node.parent in at.facts.silent else None
    mapper = at.caller(node.mapper)
    return SubscriptionSend(
        at.name,
        at.context,
        mapper,
        node.key,
        is_left=node.is_left,
        is_versioned=is_versioned,
        counter=counter,
        silent=silent,
    )


def _silent_table(node: nodes.SubscriptionSend, at: Lowering) -> SilentTable:
    quiet = replace(at, context=at.context.uncounted())
    stores = at.stores_of(node.parent)
    expired = [at.state.clock(f"{at.name}-{store.name}-expired") for store in stores]
    rows = lookup_of(node.parent, quiet, sent=Sent.IN_TURN)
    return SilentTable(at.context, rows, stores, expired, node.left_key)


def subscription_receive(node: nodes.SubscriptionReceive, at: Lowering) -> Operator:
    return SubscriptionReceive(at.context, at.store(node.store, SubscriptionStore))


def subscription_join(node: nodes.SubscriptionJoin, at: Lowering) -> Operator:
    return SubscriptionJoin(lookup_of(node.table, at, sent=Sent.IN_TURN), node.key)


def foreign_table_join(node: nodes.ForeignTableJoin, at: Lowering) -> Operator:
    is_versioned = node.parent in at.facts.versioned
    store = at.store(node.receive.store, SubscriptionStore)
    return ForeignTableJoin(at.name, at.context, store, node.key, is_versioned, node.receive.subscribe.name)


def announce(node: nodes.Announce, at: Lowering) -> Operator:
    subscribe = node.subscribe
    assert isinstance(subscribe, nodes.SubscriptionSend)
    watched = subscribe.name if subscribe.parent in at.facts.silent else None
    return Announce(at.context, watched, subscribe.left_key, node.value)


def response_join(node: nodes.ResponseJoin, at: Lowering) -> Operator:
    store = at.store(node.store, KeyValueStore)
    joiner = Joiner(at.caller(node.joiner), node.value)
    return ResponseJoin(at.context, store, joiner, node.left, node.right, node.is_left)
