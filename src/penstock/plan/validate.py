"""Everything that is refused when a topology is built, with the reason and the way out."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import ConfigError, TopologyError
from penstock.plan import nodes
from penstock.plan.dataframes import SinkTarget, SourceFeed
from penstock.plan.functions import UserFunction, is_same_call
from penstock.plan.node import Node
from penstock.plan.passes.stores import TableFacts
from penstock.plan.physical import SubTopology
from penstock.plan.sources import check_patterns
from penstock.plan.topic_types import check_types_of_topics
from penstock.plan.windows import SessionWindows, SlidingWindows
from penstock.values.durations import MAX_MS
from penstock.values.topic_names import check_topic_name


def validate(declared: Sequence[Node], facts: TableFacts, subs: Sequence[SubTopology]) -> None:
    """Raise ``TopologyError`` for the first error."""
    if not any(part.kind == "source" for sub in subs for part in sub.parts):
        raise TopologyError("the topology is empty: begin with builder.stream(topic) or builder.table(topic)")
    _unique_names(subs)
    _unique_stores(facts)
    _known_stores(declared, facts)
    _shapes_of_stores(facts)
    _short_names(declared, facts)
    _topics_read_once(subs)
    _topic_names(subs)
    _internal_topics(declared)
    _outside_topics(declared)
    check_types_of_topics(declared)
    for node in dict.fromkeys(declared):
        if node.collapses_updates and node.parent in facts.versioned:
            _suppressed_versions(node)
        if node.inherits_versions and node.parent in facts.versioned:
            _versions_with_context(node)
        if node.is_complete:
            _complete_join(node, facts)
        if isinstance(node, nodes.StreamTableJoin) and node.grace is not None:
            _grace_of_join(node, node.grace, facts)
        for table in () if node.brings_values else node.looks_up:
            _no_first_of_sessions(node, facts.looked_up_tables(table))
        if node.windows is not None:
            _length(node, node.windows.retention_ms)
        if isinstance(node, nodes.WindowedAggregate):
            _retention(node)
            _no_versions(node)
        if isinstance(node, nodes.StreamJoin):
            _retention_of_join(node)
        if isinstance(node, nodes.Split) and not node.predicates:
            raise TopologyError(f"split at {node.where} has no branches: add some with .branch(predicate)")


def _outside_topics(declared: Sequence[Node]) -> None:
    """DataFrames, sources, tables and sinks have topics of their own."""
    steps = list(dict.fromkeys(declared))
    outside = [node for node in steps if node.outside is not None]
    for node in outside:
        (topic,) = _topics(node)
        others = [other for other in steps if other is not node and topic in _topics(other)]
        if others:
            kind = f"of two {_kinds(node, others[0])}" if others[0].outside is not None else "of a topic as well"
            told = node.outside.name if node.outside is not None else topic
            raise TopologyError(
                f"{told!r} is the name {kind}, at {node.where} and {others[0].where}; give one another name: name=..."
            )


def _kinds(*two: Node) -> str:
    if any(isinstance(one.outside, SourceFeed) for one in two):
        return "DataFrames, sources, tables or sinks"
    are_sinks = [isinstance(one.outside, SinkTarget) for one in two]
    return "sinks" if all(are_sinks) else "DataFrames, tables or sinks" if any(are_sinks) else "DataFrames or tables"


def _topics(node: Node) -> tuple[str, ...]:
    return (node.topic,) if isinstance(node, nodes.Sink) else node.topics


def check_has_tasks(subs: Sequence[SubTopology]) -> None:
    """Raise ``TopologyError`` if a topology would have no task."""
    if subs and all(sub.is_global for sub in subs):
        node = subs[0].parts[0].node
        raise TopologyError(
            f"the topology has only global tables and stores, such as the one at {node.where}, so there is no task to "
            "run. Add the stream that reads it. Or read the topic with builder.table(topic, store=...), whose rows can "
            "be queried, too"
        )


def _unique_names(subs: Sequence[SubTopology]) -> None:
    seen: dict[str, Node] = {}
    for sub in subs:
        for part in sub.parts:
            other = seen.setdefault(part.name, part.node)
            if other is not part.node:
                _one_repartition(other, part.node)
                told = _twice(other, part.node)
                raise TopologyError(f"two steps have the name {part.name!r}: {told} give each step a name of its own")


def _one_repartition(one: Node, other: Node) -> None:
    """Refuse two groups of a cogroup that repartition, since both topics are called after its store."""
    if isinstance(one, nodes.Repartition) and isinstance(other, nodes.Repartition) and one.topic == other.topic:
        raise TopologyError(
            f"two groups at {one.where} and {other.where} repartition through one topic, {one.topic!r}: give each "
            "group a name of its own, as in group_by(..., name=...) or group_by_key(name=...)"
        )


def _unique_stores(facts: TableFacts) -> None:
    seen: dict[str, Node] = {}
    for node, store in facts.stores.items():
        other = seen.setdefault(store.name, node)
        if other is not node:
            raise TopologyError(
                f"two steps have a store {store.name!r}: {_twice(other, node)} give each store a name of its own"
            )


def _twice(one: Node, other: Node) -> str:
    """The places of two steps; says so if one line made both."""
    if not is_same_call(one.where, other.where):
        return f"at {one.where} and at {other.where};"
    return (
        f"the line at {one.where} ran twice with the same StreamsBuilder. In a notebook, make a new builder in the "
        "same cell, or run the cell that makes it again; in a loop,"
    )


def _known_stores(declared: Sequence[Node], facts: TableFacts) -> None:
    """Check that processors are connected to existing stores, and that each store has one name."""
    tables = {store.name: node for node, store in facts.stores.items()}
    for name in facts.added:
        if name in tables:
            raise TopologyError(
                f"two stores have the name {name!r}: that of the step at {tables[name].where}, and one that was added "
                "with add_state_store; give each store a name of its own"
            )
    for node in declared:
        for name in node.store_names:
            if name in tables and tables[name].is_global:
                raise TopologyError(
                    f"the processor {node.name} at {node.where} is connected to the global store {name!r}; every "
                    "processor reads global stores without being connected, so leave it out"
                )
            if name in tables and (not tables[name].is_table or tables[name].collapses_updates):
                raise TopologyError(
                    f"the processor {node.name} at {node.where} is connected to the store {name!r}, which the step at "
                    f"{tables[name].where} keeps for itself; processors have the stores of tables, and stores that are "
                    "added with add_state_store(...)"
                )
            if name not in tables and name not in facts.added:
                known = ", ".join(map(repr, [*facts.added, *tables]))
                has = f"the stores are {known}" if known else "there are no stores"
                raise TopologyError(
                    f"the processor {node.name} at {node.where} names a store {name!r} that does not exist; {has}. "
                    "Add it with builder.add_state_store(...); if it belongs to a table, name it there: "
                    f"store={name!r}"
                )


_LONGEST = 200
"""Letters of a name that files are named after, together with the application, the commit and the task; file systems
have room for 255, and Kafka for 249 with the application id in front and ``-changelog`` behind."""


def _short_names(declared: Sequence[Node], facts: TableFacts) -> None:
    named = [("store", store.name, node) for node, store in facts.stores.items()]
    named += [("repartition topic", node.topic, node) for node in declared if isinstance(node, nodes.Repartition)]
    for what, name, node in named:
        if len(name) > _LONGEST:
            raise TopologyError(
                f"the {what} {name!r} at {node.where} has a name of {len(name)} letters, and files and topics are "
                f"named after it; use at most {_LONGEST}"
            )


def _topics_read_once(subs: Sequence[SubTopology]) -> None:
    seen: dict[str, Node] = {}
    for sub in subs:
        for part in sub.parts:
            for topic in part.topics if part.kind == "source" else ():
                other = seen.setdefault(topic, part.node)
                if other is not part.node:
                    raise TopologyError(
                        f"topic {topic!r} is read twice, at {other.where} and at {part.node.where}; read it once "
                        "and derive the other: stream.to_table() or table.to_stream()"
                    )


def _topic_names(subs: Sequence[SubTopology]) -> None:
    for sub in subs:
        for part in sub.parts:
            for topic in part.topics:
                try:
                    check_topic_name(topic)
                except ConfigError as error:
                    raise TopologyError(f"{part.node.where}: {error}") from None


def _internal_topics(declared: Sequence[Node]) -> None:
    check_patterns(declared)
    internal = {node.topic: node for node in declared if isinstance(node, nodes.Repartition)}
    for node in declared:
        if isinstance(node, nodes.Sink) and node.topic in internal:
            raise TopologyError(
                f"the step at {node.where} writes topic {node.topic!r}, through which the step at "
                f"{internal[node.topic].where} repartitions; write to a topic of another name"
            )


def _grace_of_join(node: nodes.StreamTableJoin, grace: int, facts: TableFacts) -> None:
    if node.table not in facts.versioned:
        raise TopologyError(
            f"the join {node.name!r} at {node.where} has a grace period of {grace} ms, but its table is not versioned: "
            "when a record has waited, the value that was valid at its time is no longer known. Keep the table in a "
            "versioned store, with Materialized.as_versioned(name, history_retention=...), or join without grace"
        )
    for table in facts.looked_up_tables(node.table):
        store = facts.stores[table]
        if store.history_retention is not None and grace > store.history_retention:
            raise TopologyError(
                f"the join {node.name!r} at {node.where} has a grace period of {grace} ms, but its table's store "
                f"{store.name!r} keeps a history of {store.history_retention} ms; make the history retention at least "
                "as long"
            )


def _no_first_of_sessions(join: Node, tables: Sequence[Node]) -> None:
    for table in tables:
        if isinstance(table, nodes.SessionDistinct):
            raise TopologyError(
                f"the join {join.name!r} at {join.where} looks up values in the first records of sessions, made at "
                f"{table.where}: a session that grows gets a new key in their store, which the table does not report. "
                "Keep its changes in a store of their own, with to_stream().to_table(), and join that table"
            )


def _complete_join(node: Node, facts: TableFacts) -> None:
    unversioned = [table for table in node.parents if table not in facts.versioned]
    if unversioned:
        raise TopologyError(
            f"the join {node.name!r} at {node.where} is complete, but its {_side(node, unversioned[0])} table, made at "
            f"{unversioned[0].where}, is not versioned: its earlier values are no longer known when a record arrives "
            "out of order. Keep it in a versioned store, with Materialized.as_versioned(name, history_retention=...), "
            "or join without versioned_join"
        )
    if node.store is not None and not node.store.is_versioned:
        raise TopologyError(
            f"the join {node.name!r} at {node.where} is complete: it also sends corrected past results, which would "
            f"overwrite the newest ones in the unversioned store {node.store.name!r}. Keep it with "
            "Materialized.as_versioned(name, history_retention=...), or without a store"
        )
    shared = set.intersection(*(set(facts.looked_up_tables(table)) for table in node.parents))
    if shared and node in facts.sends_old and node not in facts.stores:
        raise TopologyError(
            f"the join {node.name!r} at {node.where} is complete, and both of its sides are made from the table at "
            f"{next(iter(shared)).where}, so that one record changes both. A later step needs the result from before "
            "each of the two changes, which only a store has. Keep the result with "
            "materialized=Materialized.as_versioned(name, history_retention=...)"
        )


def _side(node: Node, table: Node) -> str:
    return "left" if table is node.parents[0] else "right"


def _suppressed_versions(node: Node) -> None:
    origin = node.parent
    while origin.inherits_versions and not origin.materialized:
        origin = origin.parent
    assert origin.store is not None
    raise TopologyError(
        f"{node.name!r} at {node.where} suppresses updates of a versioned table: it is kept in the versioned store "
        f"{origin.store.name!r} since {origin.where}, and every version of it counts (KIP-914). Suppress the table "
        "before it is materialized as versioned, or materialize it again in an unversioned store: filter or map_values "
        "with store=<name>"
    )


def _versions_with_context(node: Node) -> None:
    """Refuse a versioned table that is kept only because its function asks for a record's context, unless the user says
    whether to version it."""
    function = node.function
    if isinstance(function, UserFunction) and function.wants_context and not node.materialized:
        raise TopologyError(
            f"the function {function.name} of {node.name!r} at {node.where} asks for the context of a record, so its "
            "results must be kept, and the table is versioned. To make the results versioned, too, use "
            "materialized=Materialized.as_versioned(name, history_retention=...). Otherwise use store=<name>"
        )


def _shapes_of_stores(facts: TableFacts) -> None:
    """Check that a store that the user described is of the kind that its table needs."""
    for node, spec in facts.stores.items():
        needed = node.keeps.needs
        if needed is None:
            continue  # the user's processor decides what to put there
        if spec.shape is not None and _DESCRIBED[spec.shape] != needed:
            raise TopologyError(
                f"the store {spec.name!r} at {node.where} is {_DESCRIBED[spec.shape]}, but this step needs {needed}: "
                "take such a store from Stores, give only the store's name, or let your own class extend the right one"
            )


_DESCRIBED = {
    "timestamped_key_value": "a key-value store",
    "timestamped_window": "a window store",
    "session": "a session store",
}


def _no_versions(node: nodes.WindowedAggregate) -> None:
    if node.store.is_versioned:
        raise TopologyError(
            f"the store {node.store.name!r} at {node.where} is versioned, but windows are kept in window stores; use "
            "Materialized.as_(name), with with_retention(...) to keep windows for longer"
        )


def _length(node: Node, retention: int) -> None:
    if retention > MAX_MS:
        raise TopologyError(
            f"the windows of {node.name!r} at {node.where} and their grace period need {retention} ms, more than "
            f"{MAX_MS} ms, the largest time; use a shorter grace period"
        )


def _retention(node: nodes.WindowedAggregate) -> None:
    needed = node.windows.needed_retention_ms
    retention = node.windows.retention_ms if node.store.retention is None else node.store.retention
    if retention < needed:
        raise TopologyError(
            f"the store {node.store.name!r} at {node.where} keeps windows for {retention} ms, but {_needs(node)} "
            f"{needed} ms; use with_retention({needed}) or more, or a shorter grace period"
        )


def _retention_of_join(node: nodes.StreamJoin) -> None:
    windows = node.windows
    if windows.until_ms is not None and windows.until_ms < windows.retention_ms:
        raise TopologyError(
            f"the join {node.name!r} at {node.where} keeps records for {windows.until_ms} ms, but join windows of "
            f"{windows.size_ms} ms with {windows.grace_period_ms} ms of grace need {windows.retention_ms} ms; "
            "leave until() or retention() out, or use a shorter grace period"
        )


def _needs(node: nodes.WindowedAggregate) -> str:
    windows = node.windows
    grace = f"{windows.grace_period_ms} ms of grace need"
    if isinstance(windows, SessionWindows):
        return f"sessions with a gap of {windows.inactivity_gap_ms} ms and {grace}"
    if isinstance(windows, SlidingWindows):
        return f"sliding windows of twice {windows.time_difference_ms} ms and {grace}"
    return f"windows of {windows.size_ms} ms with {grace}"
