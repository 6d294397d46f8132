"""Which columns of a source somebody looks into.

A record that does not decode is found at its source, once, for all branches. Columns that nobody looks into are not
decoded at all.
"""

from __future__ import annotations

from penstock.plan import nodes
from penstock.plan.fields import Field
from penstock.plan.functions import UserFunction
from penstock.plan.node import Node
from penstock.plan.physical import Part, SubTopology
from penstock.plan.timestamps import Extractor

Columns = frozenset[str]
KEY: Columns = frozenset(("key",))
VALUE: Columns = frozenset(("value",))
BOTH: Columns = KEY | VALUE
NEITHER: Columns = frozenset()


def decoded_columns(sub: SubTopology) -> dict[str, tuple[str, ...]]:
    """For each source of a sub-topology, by name, the columns that somebody downstream decodes; and for each part that
    takes keys and values out of others."""
    decoded: dict[str, tuple[str, ...]] = {}
    needed: dict[str, Columns] = {part.name: NEITHER for part in sub.working_parts}
    for part in reversed(sub.working_parts):
        uses, keeps = _looks_into(part)
        if part.kind == "source" or isinstance(part.node, nodes.RestoreKey):
            decoded[part.name] = tuple(sorted(uses | needed[part.name]))
        needs = uses | (needed[part.name] & keeps)
        for name in part.predecessors:
            needed[name] |= needs
        for name in part.reads:
            needed[name] |= VALUE
        needed[part.name] = needs
    return decoded


def _looks_into(part: Part) -> tuple[Columns, Columns]:
    """Which columns a part decodes, and which it hands on as they are."""
    node = part.node
    if part.kind == "source":
        timestamp = getattr(node, "timestamp", None)
        if isinstance(timestamp, Extractor):
            return BOTH if timestamp.looks_into_records else NEITHER, BOTH
        uses = NEITHER if timestamp is None else VALUE if timestamp.arity == 1 else BOTH
        return uses, BOTH
    if part.kind == "sink":
        looks = isinstance(node, nodes.DynamicSink) or getattr(node, "partitioner", None) is not None
        return BOTH if looks else NEITHER, BOTH
    if isinstance(node, nodes.Split | nodes.CogroupInput):
        return BOTH, BOTH
    if isinstance(node, nodes.GlobalStore):
        return BOTH, NEITHER
    if isinstance(node, nodes.Process):
        return BOTH, NEITHER if node.changes_key else KEY
    if isinstance(node, nodes.StreamAggregate | nodes.WindowedAggregate | nodes.TableAggregate):
        kind = node.aggregation.kind
        return {"count": NEITHER, "reduce": VALUE}.get(kind, BOTH), KEY
    if isinstance(node, nodes.StreamTableJoin):
        return VALUE if node.joiner.arity == 2 else BOTH, KEY
    if isinstance(node, nodes.GlobalTableJoin):
        return BOTH, KEY
    if isinstance(node, nodes.ForeignTableJoin):
        return VALUE, NEITHER  # the joiner looks into it, behind a repartition
    if isinstance(node, nodes.StreamJoin | nodes.TableJoin):
        if part.role == "merge":
            return NEITHER, BOTH
        return NEITHER if node.joiner.columnar else VALUE if node.joiner.arity == 2 else BOTH, KEY
    function = _function(node)
    if function is None:
        return NEITHER, _KEEPS.get(type(node), BOTH)
    uses = NEITHER if isinstance(function, Field) or function.columnar else VALUE if function.arity == 1 else BOTH
    return uses, _KEEPS.get(type(node), BOTH)


def _function(node: Node) -> UserFunction | Field | None:
    names = ("predicate", "mapper", "action", "id_selector")
    return next((getattr(node, name) for name in names if hasattr(node, name)), None)


_KEEPS: dict[type[Node], Columns] = {
    nodes.Map: NEITHER,
    nodes.FlatMap: NEITHER,
    nodes.MapValues: KEY,
    nodes.FlatMapValues: KEY,
    nodes.SelectKey: VALUE,
    nodes.TableMapValues: KEY,
    nodes.TableTransformValues: KEY,
    nodes.TableGroupBy: NEITHER,
    nodes.KeyById: NEITHER,
    nodes.SubscriptionSend: NEITHER,
    nodes.SubscriptionJoin: NEITHER,
    nodes.ResponseJoin: KEY,
    nodes.RestoreKey: NEITHER,
}
