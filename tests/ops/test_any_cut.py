"""Any split of any input gives the same output, for every operator.

Each topology of ``support/topologies.py`` runs over random records: null keys and values, disorder in time, keys that
come back. The test driver takes them one by one; the engine gets them in random micro-batches, commits and chunks, and
is now and then closed or crashes. Outputs, stores and drops must not tell the one from the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Record, Topology, Windowed
from penstock.engine.lowering.lower import LOWER
from penstock.plan import nodes
from penstock.plan.node import Node
from penstock.testing import TopologyTestDriver
from penstock.testing.cuts import CutDriver
from support.flows import Driver, Row
from support.topologies import CACHED, EXAMPLES, topology_of

UNCACHED = {"statestore_cache_max_bytes": 0}
NAMES = list(EXAMPLES)
FEW = settings(max_examples=max(3, settings.default.max_examples // 8))
IN_FULL = settings() if settings.default.max_examples >= 16 else FEW  # few in ``make quick``
CHUNKS = st.sampled_from([1000, 3, 2, 1])


def rows(topology: Topology) -> st.SearchStrategy[list[Row]]:
    """Records with null keys, null values, disorder in time, and now and then a jump of stream time."""
    topics = [topic for topic in topology.source_topics if topic not in topology.sink_topics]
    row = st.tuples(
        st.sampled_from(topics),
        st.sampled_from(["a", "b", "c", None]),
        st.sampled_from([1, 2, 3, 0, None]),
        st.integers(0, 30) | st.sampled_from([31, 100, 1000]),
    )
    return st.lists(row, max_size=25)


def pipe(driver: Driver, rows: Sequence[Row], first: int = 0) -> None:
    """Pipe rows in; each output says in its headers which of them caused it."""
    for number, row in enumerate(rows, first):
        driver.pipe_input(*row, headers=[("caused by", str(number).encode())])


def outputs(driver: Driver) -> dict[str, Any]:
    chosen = ["out", "aside"] if driver.topology.dynamic_sinks else []
    return {topic: driver.read_output(topic) for topic in [*driver.topology.sink_topics, *chosen]}


def stores(driver: Driver) -> dict[str, list[Row]]:
    return {name: sorted(driver.store(name).all(), key=repr) for name in driver.topology.facts.named()}


WITHOUT_ENTRY = {Node, nodes.StreamSource, nodes.Sink, nodes.DynamicSink, nodes.WindowedAggregate}
"""What is no step by itself, and what ``lower`` makes without its table."""


def test_every_node_has_an_operator() -> None:
    kinds = {kind for kind in vars(nodes).values() if isinstance(kind, type) and issubclass(kind, Node)}
    missing = sorted(kind.__name__ for kind in kinds - WITHOUT_ENTRY - set(LOWER))
    assert not missing, "say in LOWER, in engine/lowering/lower.py, which operators these nodes become"


def test_every_operator_has_an_example() -> None:
    covered = {type(node) for name in EXAMPLES for node in topology_of(name).nodes}
    missing = sorted(node.__name__ for node in set(LOWER) - covered)
    assert not missing, "write a topology with each of these nodes into tests/support/topologies.py, as an @example"


def steps_with_store(name: str) -> list[Node]:
    return [node for node in topology_of(name).nodes if getattr(node, "store", None) is not None]


def has_new_keys(node: Node) -> bool:
    """Whether keys were changed on the way to a step's results, and records not sent to the tasks of the new ones."""
    if isinstance(node, nodes.Repartition):
        return False
    return node.changes_key or any(has_new_keys(parent) for parent in node.parents)


def is_sent_by_new_keys(node: Node) -> bool:
    """Whether keys were changed before a repartition on the way to a step."""
    if isinstance(node, nodes.Repartition) and any(has_new_keys(parent) for parent in node.parents):
        return True
    return any(is_sent_by_new_keys(parent) for parent in node.parents)


@pytest.mark.parametrize("name", NAMES)
def test_no_store_lies_behind_keys_that_were_changed_and_not_repartitioned(name: str) -> None:
    """It would not show in the drivers, which have one partition; only so do equal keys of several meet in one task."""
    wrong = [node.name for node in steps_with_store(name) if any(has_new_keys(parent) for parent in node.parents)]
    assert not wrong, "their methods in dsl/ lack a repartition_node, for streams with repartition_required"


def test_every_step_that_keeps_what_streams_say_of_keys_has_an_example_behind_new_keys() -> None:
    steps = [node for name in EXAMPLES for node in steps_with_store(name)]
    above = [(node, node.parent) for node in steps if node.parents]
    keep = {type(node) for node, parent in above if not (parent.is_table or isinstance(parent, nodes.Repartition))}
    covered = {type(node) for node in steps if is_sent_by_new_keys(node)}
    missing = sorted(kind.__name__ for kind in keep - covered)
    assert not missing, "write an @example into tests/support/topologies.py in which they stand behind a select_key"


@pytest.mark.parametrize("name", NAMES)
@IN_FULL
@given(data=st.data())
def test_no_cut_shows_in_outputs_stores_and_drops(name: str, data: st.DataObject) -> None:
    """They are those of the test driver, however the input is cut."""
    topology = topology_of(name)
    given_rows = data.draw(rows(topology), "rows")
    uncut = TopologyTestDriver(topology, **UNCACHED)
    pipe(uncut, given_rows)
    with CutDriver(topology, data.draw(st.randoms(use_true_random=False), "cuts"), **UNCACHED) as cut:
        pipe(cut, given_rows)
        assert outputs(cut) == outputs(uncut)
        assert stores(cut) == stores(uncut)
        assert cut.metrics() == uncut.metrics()


# --- caching ---------------------------------------------------------------------------------------------------------


def last_of_each_key(updates: list[Record], known: dict[Any, Any], given_rows: list[Row]) -> list[Record]:
    """The last update of each key; without deletions of keys that were not ``known``, which this brings up to date.

    A deletion out of a cache has the time of the record that caused it, as in Kafka Streams, and no later one before.
    """
    last: dict[Any, Record] = {}
    for update in updates:
        last.pop(update.key, None)
        if update.value is None and not isinstance(update.key, Windowed):
            ((_, cause),) = update.headers
            update = update._replace(timestamp=given_rows[int(cause)][-1])
        last[update.key] = update
    sent = [update for update in last.values() if update.value is not None or known.get(update.key) is not None]
    known.update((update.key, update.value) for update in sent)
    return sent


@pytest.mark.parametrize("name", CACHED)
@FEW
@given(data=st.data())
def test_a_cached_table_sends_the_last_update_of_each_key_and_commit(name: str, data: st.DataObject) -> None:
    topology = topology_of(name)
    commits = data.draw(st.lists(rows(topology), max_size=5), "the rows of each commit")
    uncached = TopologyTestDriver(topology, **UNCACHED)
    known: dict[Any, Any] = {}
    every: list[Row] = []
    with CutDriver(topology, chunk_records=data.draw(CHUNKS, "chunk")) as cached:
        for given_rows in commits:
            pipe(uncached, given_rows, len(every))
            pipe(cached, given_rows, len(every))
            every += given_rows
            assert cached.read_output("out") == last_of_each_key(uncached.read_output("out"), known, every)
        assert stores(cached) == stores(uncached)
        assert cached.metrics() == uncached.metrics()


WORKING = nodes.SubscriptionReceive | nodes.ResponseJoin | nodes.Suppress
"""Whose stores are no tables: they have the numbers and times of updates, of which a cache leaves some out."""


NO_TABLES = (
    *("rate_limit", "rate_limit_that_spills", "rate_limit_in_few_records", "rate_limit_in_few_bytes", "no_rate_limit"),
    "table_join_with_a_suppressed_table",  # which updates a suppression for a time gets, it shows
    "to_stream_under_new_keys",  # a stream of all updates
    "table_join_by_foreign_key_of_a_table_joined_with_itself",  # Kafka Streams' keeps rows that are gone, see 0012
    "transformed_table_with_deletions",  # a deletion has a value there, and a cache leaves deletions of nothing out
    # likewise: 2 at 100, none at 0 (late there), and none at 100; see the cases caching-late-deletion-then-none-...
    *("unversioned_table_filtered_into_a_versioned_one", "versioned_table_of_joined_tables"),
    "transformed_table_that_counts_its_updates",
    "processor_that_reads_a_table",  # a deletion has a value there, too
    # streams that look into them, or count their updates, find what caches have sent on by then
    *("table_join_with_a_count_of_its_rows", "table_join_with_itself_by_foreign_key"),
    *("cycle_behind_an_aggregation_in_front_of_another", "cycle_of_two_sub_topologies", "cycle_in_a_cycle"),
    *("two_cycles_one_behind_the_other", "stream_left_join_with_a_count_of_itself", "filtered_on_the_way_around"),
    "table_join_by_foreign_key_of_sessions",  # a session that grows in place tells no old value, but out of a cache
)


def sends_tables(name: str) -> bool:
    """Whether it has tables, and what it sends is what they end as."""
    return bool(topology_of(name).facts.stores) and name not in NO_TABLES


@pytest.mark.parametrize("name", [name for name in NAMES if sends_tables(name)])
@FEW
@given(data=st.data())
def test_with_caching_the_tables_end_with_the_same_values(name: str, data: st.DataObject) -> None:
    """But for groups that a table only passed through within one commit: those hold nothing, or do not exist."""
    topology = topology_of(name)
    given_rows = data.draw(rows(topology), "rows")
    uncached = TopologyTestDriver(topology, **UNCACHED)
    pipe(uncached, given_rows)
    with CutDriver(topology, data.draw(st.randoms(use_true_random=False), "cuts")) as cached:
        pipe(cached, given_rows)
        assert last_values(outputs(cached)) == last_values(outputs(uncached))
        kept = [spec.name for node, spec in topology.facts.stores.items() if not isinstance(node, WORKING)]
        assert values_of(stores(cached), kept) == values_of(stores(uncached), kept)


def last_values(outputs: dict[str, list[Any]]) -> dict[str, dict[Any, Any]]:
    """The last value of each key in each topic, without keys that were deleted, and groups that hold nothing."""
    every = {topic: {record.key: record.value for record in records} for topic, records in outputs.items()}
    return {topic: {key: value for key, value in last.items() if value} for topic, last in every.items()}


def values_of(stores: dict[str, list[Row]], kept: list[str]) -> dict[str, dict[Any, Any]]:
    return {name: {key: value for key, value, *_ in stores[name] if value} for name in kept}
