"""Deduplication (KIP-655)."""

from __future__ import annotations

from penstock.engine.lowering.lowering import Lowering
from penstock.ops.core.fields import FieldReader
from penstock.ops.core.operator import Operator
from penstock.ops.deduplicate.operator import Deduplicate, KeyById, RestoreKey, Selector
from penstock.plan import nodes
from penstock.plan.fields import Field
from penstock.plan.functions import UserFunction
from penstock.serdes import Serde
from penstock.state.kinds.deduplication import DeduplicationStore


def deduplicate(node: nodes.Deduplicate, at: Lowering) -> Operator:
    store = at.store(node.store, DeduplicationStore)
    selector = None
    if node.id_selector is not None:
        assert node.id is not None
        selector = _selector(node.id_selector, node.id, at)
    clock = at.state.clock(at.name)
    splits = node.dropped_to is not None
    return Deduplicate(
        at.name, at.context, node.key, selector, interval=node.interval, store=store, clock=clock, splits=splits
    )


def _selector(function: UserFunction | Field, id_: Serde, at: Lowering) -> Selector:
    if isinstance(function, Field):
        return Selector(at.name, at.context, FieldReader(at.name, function, at.context).column, id_)
    return Selector(at.name, at.context, at.caller(function).column, id_)


def key_by_id(node: nodes.KeyById, at: Lowering) -> Operator:
    return KeyById(at.name, at.context, _selector(node.id_selector, node.id, at), node.key, node.value)


def restore_key(node: nodes.RestoreKey, at: Lowering) -> Operator:
    return RestoreKey(at.name, at.context, node.key, node.value, at.decodes)
