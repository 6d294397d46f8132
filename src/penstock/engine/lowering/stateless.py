"""Operators that keep nothing."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.engine.lowering.lowering import Lowering
from penstock.ops.core.operator import Operator, PassThrough
from penstock.ops.stateless.filter import Filter
from penstock.ops.stateless.flat_map import FlatMap
from penstock.ops.stateless.left_out import LeftOut
from penstock.ops.stateless.map import Map, MapValues, SelectKey
from penstock.ops.stateless.peek import Peek
from penstock.ops.stateless.repartition import KeyFilter
from penstock.ops.stateless.split import Branch, Split
from penstock.ops.stateless.unwrap import Unwrap
from penstock.plan import nodes
from penstock.plan.node import Node
from penstock.serdes import Serde


def filter_(node: nodes.Filter, at: Lowering) -> Operator:
    return Filter(at.caller(node.predicate), node.negate)


def map_(node: nodes.Map, at: Lowering) -> Operator:
    return Map(at.caller(node.mapper), node.key, node.value)


def map_values(node: nodes.MapValues, at: Lowering) -> Operator:
    return MapValues(at.caller(node.mapper), node.value)


def filter_async(node: nodes.FilterAsync, at: Lowering) -> Operator:
    from penstock.ops.stateless.awaited import Calls, FilterAwaited  # asyncio costs every slot some time

    caller = at.caller(node.predicate)
    return FilterAwaited(Calls(caller, node.how), caller)


def map_values_async(node: nodes.MapValuesAsync, at: Lowering) -> Operator:
    from penstock.ops.stateless.awaited import Calls, MapValuesAwaited

    return MapValuesAwaited(Calls(at.caller(node.mapper), node.how), node.value)


def flat_map(node: nodes.FlatMap, at: Lowering) -> Operator:
    return FlatMap(at.caller(node.mapper), node.key, node.value)


def flat_map_values(node: nodes.FlatMapValues, at: Lowering) -> Operator:
    return FlatMap(at.caller(node.mapper), None, node.value)


def select_key(node: nodes.SelectKey, at: Lowering) -> Operator:
    return SelectKey(at.caller(node.mapper), node.key)


def peek(node: nodes.Peek, at: Lowering) -> Operator:
    return Peek(at.caller(node.action))


def pass_through(node: Node, at: Lowering) -> Operator:
    return PassThrough()


def split(node: nodes.Split, at: Lowering) -> Operator:
    return Split([None if predicate is None else at.caller(predicate) for predicate in node.predicates])


def branch(node: nodes.Branch, at: Lowering) -> Operator:
    return Branch(node.index)


def repartition(node: nodes.Repartition, at: Lowering) -> Operator:
    return KeyFilter(at.name, at.context, node in at.facts.keeps_null_keys)


def unwrap(node: nodes.Unwrap, at: Lowering) -> Operator:
    looks = left_out(at, node.value, node.parent.topics)
    return Unwrap(at.name, at.context, node.format, node.key, node.value, node.row_time, at.decodes, looks)


def left_out(at: Lowering, value: Serde, topics: Iterable[str]) -> LeftOut | None:
    """Return what looks at values that steps decode, and whose type steps write again."""
    if "value" not in at.decodes or not value.leaves_out or value not in at.made:
        return None
    return LeftOut(", ".join(map(repr, topics)), at.part.node.where)
