"""Topologies built by hand: sources, processors and sinks by name (KS-04)."""

import pytest

from penstock import Processor, ProcessorSupplier, Stores, StreamsBuilder, Topology, TopologyError
from penstock.testing import TopologyTestDriver

pytestmark = pytest.mark.kip("KS-04")


def shout(record, context):
    context.forward(record.with_value(record.value.upper()))


def counted(record, context):
    store = context.get_state_store("counts")
    count = (store.get(record.key) or 0) + 1
    store.put(record.key, count)
    context.forward(record.with_value(f"{record.value} {count}"))


def counts():
    return Stores.key_value_store_builder(Stores.persistent_key_value_store("counts"), str, int)


def ran(topology, *rows, topic="words"):
    with TopologyTestDriver(topology) as driver:
        for row in rows:
            driver.pipe_input(topic, *row)
        return [(topic, *record[:2]) for topic, record in driver.read_all_output()]


def test_sources_processors_and_sinks_are_put_together_by_name():
    topology = Topology()
    topology.add_source("in", "words", value=str)
    topology.add_processor("shout", shout, "in")
    topology.add_sink("out", "shouts", "shout")
    topology.add_sink("copy", "words-copy", "in")
    assert ran(topology, ("a", "x"), ("b", "y")) == [
        ("shouts", "a", "X"),
        ("words-copy", "a", "x"),
        ("shouts", "b", "Y"),
        ("words-copy", "b", "y"),
    ]


def test_a_store_is_connected_when_it_is_added_or_later():
    added = Topology().add_source("in", "words", value=str).add_processor("count", counted, "in")
    added = added.add_sink("out", "counted", "count").add_state_store(counts(), "count")
    connected = Topology().add_source("in", "words", value=str).add_processor("count", counted, "in")
    connected = connected.add_sink("out", "counted", "count").add_state_store(counts())
    connected.connect_processor_and_state_stores("count", "counts")
    for topology in (added, connected):
        assert ran(topology, ("a", "x"), ("a", "y")) == [("counted", "a", "x 1"), ("counted", "a", "y 2")]


def test_a_supplier_brings_its_stores():
    class Supplier(ProcessorSupplier):
        def get(self):
            class Counted(Processor):
                def init(self, context):
                    self.context = context

                def process(self, record):
                    counted(record, self.context)

            return Counted()

        def stores(self):
            return [counts()]

    topology = Topology().add_source("in", "words", value=str).add_processor("count", Supplier(), "in")
    assert ran(topology.add_sink("out", "counted", "count"), ("a", "x")) == [("counted", "a", "x 1")]


def test_a_sink_and_a_processor_can_have_several_parents():
    topology = Topology().add_source("one", "words", value=str).add_source("two", "more", value=str)
    topology.add_processor("shout", shout, "one", "two")
    topology.add_sink("out", "shouts", "shout", "two")
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("words", "a", "x")
        driver.pipe_input("more", "b", "y")
        assert [record[:2] for record in driver.read_output("shouts")] == [("a", "X"), ("b", "Y"), ("b", "y")]


def test_steps_are_added_behind_those_of_the_dsl():
    builder = StreamsBuilder()
    builder.stream("words", value=str, name="words-in").filter(lambda key, value: key != "b", name="no-b")
    topology = builder.build()
    topology.add_processor("shout", shout, "no-b").add_sink("out", "shouts", "shout")
    assert ran(topology, ("a", "x"), ("b", "y")) == [("shouts", "a", "X")]


def test_a_hand_made_processor_reads_the_store_of_a_table():
    def with_limit(record, context):
        limit = context.get_state_store("limits").get(record.key)
        context.forward(record.with_value(f"{record.value} of {limit.value if limit else None}"))

    builder = StreamsBuilder()
    builder.table("limits", value=int, store="limits")
    topology = builder.build().add_source("in", "words", value=str).add_processor("limit", with_limit, "in")
    topology.connect_processor_and_state_stores("limit", "limits")
    topology.add_sink("out", "limited", "limit")
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("limits", "a", 5)
        driver.pipe_input("words", "a", "x")
        assert [record.value for record in driver.read_output("limited")] == ["x of 5"]


def test_it_can_be_described_and_grows_afterwards():
    topology = Topology().add_source("in", "words", value=str)
    assert "shout" not in topology.describe()
    assert "shout" in topology.add_processor("shout", shout, "in").describe()


def test_a_timestamp_is_taken_from_where_the_source_says():
    topology = Topology().add_source("in", "words", timestamp=lambda value: value["at"])
    with TopologyTestDriver(topology.add_sink("out", "copy", "in")) as driver:
        driver.pipe_input("words", "a", {"at": 77}, 5)
        assert driver.read_output("copy")[0].timestamp == 77


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda t: t.add_source("in", "other"), "add_source at .*: a step 'in' is there already"),
        (lambda t: t.add_source("more"), "the source 'more' must have at least one topic"),
        (lambda t: t.add_processor("p", shout, "inn"), "there is no step 'inn', which is a parent of 'p'; .*'in'"),
        (lambda t: t.add_processor("p", shout), "'p' needs the name of a parent step"),
        (lambda t: t.add_sink("out", "o", "in").add_sink("on", "p", "out"), "there is no step 'out'"),
        (lambda t: t.add_state_store(counts(), "in"), "there is no processor 'in'; the processors are none"),
        (lambda t: t.add_state_store("counts"), "takes the builder of a store"),
        (
            lambda t: t.add_processor("p", shout, "in").connect_processor_and_state_stores("p"),
            "needs the name of at least one store",
        ),
        (lambda t: t.add_processor("p", 5, "in"), "add_processor at .* takes a Processor class"),
    ],
)
def test_a_wrong_step_is_refused_at_once(wrong, message):
    with pytest.raises(TopologyError, match=message):
        wrong(Topology().add_source("in", "words", value=str))


def test_a_topic_that_a_source_reads_already_is_refused_as_in_kafka_streams():
    topology = Topology().add_source("in", "words", value=str)
    with pytest.raises(TopologyError, match=r"the source 'in' at .* reads topic 'words' already; name 'in' as the"):
        topology.add_source("more", "words", value=str)
    with pytest.raises(TopologyError, match="topic 'lines' is named twice"):
        topology.add_source("more", "lines", "lines", value=str)


def test_what_only_shows_in_the_whole_is_refused_when_it_is_used():
    topology = Topology().add_source("in", "words").add_processor("p", shout, "in")
    topology.connect_processor_and_state_stores("p", "counts")
    with pytest.raises(TopologyError, match="names a store 'counts' that does not exist"):
        topology.describe()


@pytest.mark.kip("KS-20")
def test_a_global_store_is_whole_in_every_task_and_read_without_being_connected():
    def keep(record, context):
        context.get_state_store("counts").put(record.key, record.value)

    def look_up(record, context):
        context.forward(record.with_value(context.get_state_store("counts").get(record.value)))

    topology = Topology().add_global_store(counts(), "of-counts", "counts", "keep", keep, value=int)
    topology.add_source("in", "words", value=str).add_processor("look", look_up, "in", value=int)
    topology.add_sink("out", "found", "look")
    with TopologyTestDriver(topology, partitions={"words": 2, "counts": 1}) as driver:
        driver.pipe_input("counts", "tea", 7)
        for key in ("a", "b", "c"):
            driver.pipe_input("words", key, "tea")
        assert sorted(record[:2] for _, record in driver.read_all_output()) == [("a", 7), ("b", 7), ("c", 7)]
    described = topology.describe()
    assert "for global store" in described
    assert "Source: of-counts (topics: [counts])" in described
    assert "Processor: keep (stores: [counts])" in described


@pytest.mark.kip("KS-20")
def test_a_read_only_store_is_kept_from_a_topic_by_its_processor_partition_by_partition():
    def keep(record, context):
        context.get_state_store("counts").put(record.key, record.value)

    def look_up(record, context):
        context.forward(record.with_value(context.get_state_store("counts").get(record.key)))

    topology = Topology().add_read_only_state_store(counts(), "of-counts", "counts", "keep", keep, value=int)
    topology.add_source("in", "words", value=str).add_processor("look", look_up, "in", value=int)
    topology.add_sink("out", "found", "look").connect_processor_and_state_stores("look", "counts")
    with TopologyTestDriver(topology) as driver:
        for key, count in [("a", 1), ("b", 2), ("a", 3), ("b", None)]:
            driver.pipe_input("counts", key, count)
        for key in ("a", "b"):
            driver.pipe_input("words", key, "x")
        assert [record[:2] for _, record in driver.read_all_output()] == [("a", 3), ("b", None)]
    assert len(topology.sub_topologies) == 1


@pytest.mark.kip("KS-20")
@pytest.mark.parametrize("method", ["add_global_store", "add_read_only_state_store"])
def test_a_store_of_a_topic_needs_names_that_are_free(method):
    topology = Topology().add_source("in", "words", value=str)
    with pytest.raises(TopologyError, match="a step 'in' is there already"):
        getattr(topology, method)(counts(), "in", "counts", "keep", counted, value=int)
    with pytest.raises(TopologyError, match="takes the builder of a store"):
        getattr(Topology(), method)("counts", "of-counts", "counts", "keep", counted, value=int)


def test_an_empty_topology_is_refused_when_it_is_used():
    with pytest.raises(TopologyError, match="the topology is empty"):
        TopologyTestDriver(Topology())
