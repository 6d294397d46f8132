"""Topics and partitions that functions choose (KS-05)."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import StreamsBuilder, Topology, columnar
from penstock.engine.local import LocalApplication
from penstock.engine.shared.manifest import Manifests
from penstock.errors import ProcessingError, TopologyError
from penstock.log.base import TopicInfo
from penstock.log.consume import consume
from penstock.log.produce import produce
from penstock.testing import TopologyTestDriver
from support.flows import Run, source
from support.world import World

pytestmark = pytest.mark.kip("KS-05")

ROWS = [("a", 5, 1), ("b", 50, 2), (None, 7, 3), ("c", None, 4), ("d", 80, 5)]


def size(key, value):
    return "large" if (value or 0) > 9 else "small"


def test_each_record_goes_into_the_topic_that_a_function_chooses(run: Run):
    builder, stream = source(value=int)
    stream.to(size)
    ran = run(builder, ROWS)
    assert ran.output("large") == [("b", 50, 2), ("d", 80, 5)]
    assert ran.output("small") == [("a", 5, 1), (None, 7, 3), ("c", None, 4)]
    assert ran.output("neither") == []


def test_the_function_may_ask_for_the_context(run: Run):
    builder, stream = source(value=int)
    stream.to(lambda key, value, context: f"copy-of-{context.topic}-{context.offset % 2}")
    ran = run(builder, ROWS)
    assert [row[2] for row in ran.output("copy-of-in-0")] == [1, 3, 5]
    assert [row[2] for row in ran.output("copy-of-in-1")] == [2, 4]


def test_fixed_and_chosen_sinks_of_one_topic_interleave_as_records_were_processed(run: Run):
    builder, stream = source(value=int)
    stream.to(size)
    stream.map_values(lambda value: value, value=int).to("large")
    assert [row[1] for row in run(builder, ROWS).output("large")] == [5, 50, 50, 7, None, 80, 80]


def test_what_is_no_topic_is_a_failure_of_its_record(run: Run):
    builder, stream = source(value=int)
    stream.to(lambda key, value: {5: "fine", 50: "no topic", 80: None}.get(value, "fine"))
    assert run(builder, ROWS, on_error="skip").output("fine") == [("a", 5, 1), (None, 7, 3), ("c", None, 4)]
    with pytest.raises(ProcessingError, match="must return the name of a topic"):
        run(builder, ROWS).output("fine")


@pytest.mark.kip("44-05")
def test_a_partitioner_may_take_the_headers():
    seen = []

    class ByHeader:
        def partitions(self, topic, key, value, headers, partitions):
            seen.append((topic, key, value, headers, partitions))
            return [] if ("to", b"nobody") in headers else None

    builder, stream = source(value=int)
    stream.to("out", partitioner=ByHeader())
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 5, 1, headers=[("to", b"nobody")])
    driver.pipe_input("in", "b", 6, 2, headers=[("to", b"all"), ("by", b"me")])
    driver.pipe_input("in", "c", 7, 3)
    assert [record.key for record in driver.read_output("out")] == ["b", "c"]
    assert seen == [
        ("out", "a", 5, (("to", b"nobody"),), 1),
        ("out", "b", 6, (("to", b"all"), ("by", b"me")), 1),
        ("out", "c", 7, (), 1),
    ]


def test_the_topology_shows_how_a_topic_is_chosen():
    builder, stream = source(value=int)
    stream.to(size)
    assert "Sink: KSTREAM-SINK-0000000001 (extractor class: size)" in builder.build().describe()


def test_by_hand_a_sink_may_choose_too(run: Run):
    topology = Topology().add_source("in", "in", value=int).add_sink("out", size, "in")
    assert run(topology, ROWS).output("large") == [("b", 50, 2), ("d", 80, 5)]


def test_no_partition_at_all_drops_and_counts(run: Run):
    builder, stream = source(value=int)
    stream.to("out", partitioner=lambda topic, key, value, partitions: None if key else [])
    ran = run(builder, ROWS)
    assert ran.output() == [row for row in ROWS if row[0]]
    assert ran.dropped() == {("KSTREAM-SINK-0000000001", "no-partition"): 1}


def test_what_is_no_partition_is_a_failure_of_its_record(run: Run):
    builder, stream = source(value=int)
    stream.to("out", partitioner=lambda key, value, partitions: {5: 1, 50: "0", 7: [0, -1], 80: True}.get(value, 0))
    assert run(builder, ROWS, on_error="skip").output() == [("c", None, 4)]


def test_wrong_arguments_are_refused():
    _, stream = source(value=int)
    for call, said in [
        (lambda: stream.to(5), "the topic of to at .* must be of type str"),
        (lambda: stream.to(lambda value: "t"), r"to at .* takes a function of \(key, value\)"),
        (lambda: stream.to(columnar(size)), "a topic is chosen for each record"),
        (lambda: stream.to("out", create=False), "create=False is for topics that a function chooses"),
        (
            lambda: stream.to("out", partitioner=lambda key: 0),
            "to: partitioner at .* takes a function",
        ),
        (lambda: stream.repartition(partitioner=5), "repartition: partitioner at .* takes a function"),
        (
            lambda: stream.to_table().join(stream.to_table(), max, partitioner=lambda k, v, n: 0),
            "are for joins by a foreign key",
        ),
    ]:
        with pytest.raises(TopologyError, match=said):
            call()


# --- in the engine, with several partitions --------------------------------------------------------------------------


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.log.create_topic(TopicInfo("in", 2, "str", "int"))
    return world


def rows(world: World, topic: str) -> list[tuple[str, int]]:
    return sorted((record.key, record.partition) for record in consume(topic, log=world.log))


def process(world: World, topology: Topology, *values: int) -> LocalApplication:
    produce([(f"k{value}", value, value) for value in values], "in", value=int, log=world.log)
    running = world.start(topology)
    running.run_until()
    return running


def test_topics_that_do_not_exist_are_made_with_the_types_of_the_sink(world: World):
    builder = StreamsBuilder()
    builder.stream("in", value=int).to(lambda key, value: f"t{value % 2}")
    process(world, builder.build(), 1, 2, 3, 4).close()
    assert {topic: [key for key, _ in rows(world, topic)] for topic in ("t0", "t1")} == {
        "t0": ["k2", "k4"],
        "t1": ["k1", "k3"],
    }
    info = world.log.topic("t0")
    assert (info.partitions, info.key, info.value) == (2, "str", "int")


def test_or_are_refused_by_choice(world: World):
    builder = StreamsBuilder()
    builder.stream("in", value=int).to(lambda key, value: f"t{value % 2}", create=False)
    world.log.create_topic(TopicInfo("t0", 1, "str", "int"))
    with pytest.raises(ProcessingError, match=r"failed on the record .*t1"):
        process(world, builder.build(), 1, 2)
    assert not world.log.exists("t1")
    world.settings = type(world.settings)(**{**vars(world.settings), "on_error": "skip"})
    world.start(builder.build()).run_until()
    assert rows(world, "t0") == [("k2", 0)]


def test_a_chosen_topic_of_other_types_and_an_internal_one_are_failures(world: World):
    builder = StreamsBuilder()
    stream = builder.stream("in", value=int)
    stream.repartition("inner").to("out")
    stream.to(lambda key, value: "texts" if value == 1 else "inner-repartition")
    world.log.create_topic(TopicInfo("texts", 1, "str", "str"))
    with pytest.raises(ProcessingError, match="holds values of type str, and the sink writes values of type int"):
        process(world, builder.build(), 1)
    other = World(world.folder / "other")
    other.log.create_topic(TopicInfo("in", 1, "str", "int"))
    with pytest.raises(ProcessingError, match="'inner-repartition' is internal"):
        process(other, builder.build(), 2)


def test_what_was_committed_but_not_published_comes_into_chosen_topics_at_the_next_start_once(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    builder = StreamsBuilder()
    builder.stream("in", value=int).to(lambda key, value: f"t{value % 2}")
    topology = builder.build()
    real, appended = type(world.log).append, []

    def dies(log, topic, *arguments):
        if topic.startswith("t"):
            appended.append(topic)
            if len(appended) == 2:
                raise KeyboardInterrupt
        return real(log, topic, *arguments)

    monkeypatch.setattr(type(world.log), "append", dies)
    with pytest.raises(KeyboardInterrupt):
        process(world, topology, 1, 2)
    monkeypatch.undo()
    assert sum(len(rows(world, topic)) for topic in ("t0", "t1")) == 1
    world.start(topology, machine="other").run_until()
    assert [[key for key, _ in rows(world, topic)] for topic in ("t0", "t1")] == [["k2"], ["k1"]]


def test_a_chosen_topic_that_was_removed_is_made_anew_and_goes_on(world: World):
    builder = StreamsBuilder()
    builder.stream("in", value=int).to(lambda key, value: "chosen")
    process(world, builder.build(), 1).close()
    world.log.delete_topic("chosen")
    process(world, builder.build(), 2).close()
    assert [key for key, _ in rows(world, "chosen")] == ["k2"]


def test_files_of_attempts_that_were_never_committed_go_from_chosen_topics(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    builder = StreamsBuilder()
    builder.stream("in", value=int).to(lambda key, value: "chosen")
    started = world.start(builder.build())
    produce([("k", 1, 1)], "in", value=int, log=world.log)

    def dies(manifests, manifest):
        raise KeyboardInterrupt

    monkeypatch.setattr(Manifests, "create", dies)
    with pytest.raises(KeyboardInterrupt):
        started.run_until()
    monkeypatch.undo()
    written = world.folder / "log" / "chosen"
    assert len(list(written.rglob("*.arrow"))) == 1
    running = world.start(builder.build(), machine="other")
    assert list(written.rglob("*.arrow")) == []
    running.run_until()
    assert [key for key, _ in rows(world, "chosen")] == ["k"]


def test_a_partitioner_chooses_partitions_several_or_kafkas(world: World):
    def partitioner(topic, key, value, partitions):
        assert (topic, partitions) == ("out", 2)
        return {1: 1, 2: 0, 3: {0, 1}}.get(value)

    builder = StreamsBuilder()
    stream = builder.stream("in", value=int)
    stream.to("out", partitioner=partitioner)
    stream.to("usual")
    process(world, builder.build(), 1, 2, 3, 4)
    [of_k4] = [row for row in rows(world, "usual") if row[0] == "k4"]
    assert rows(world, "out") == sorted([("k1", 1), ("k2", 0), ("k3", 0), ("k3", 1), of_k4])


def test_a_topic_that_a_partitioner_filled_is_not_believed_to_be_placed_by_keys(world: World):
    builder = StreamsBuilder()
    builder.stream("in", value=int).to("mine", partitioner=lambda key, value, partitions: 1)
    process(world, builder.build(), *range(8)).close()
    assert {partition for _, partition in rows(world, "mine")} == {1}
    again = StreamsBuilder()
    again.stream("mine", value=int).to("out")
    running = world.start(again.build(), application_id="again", storage=type(world.storage)(world.folder / "c2"))
    running.run_until()
    assert {partition for _, partition in rows(world, "out")} == {0, 1}


def test_a_partitioner_of_a_repartition_says_which_task_has_a_record(world: World):
    builder = StreamsBuilder()
    (
        builder.stream("in", value=int)
        .repartition(partitions=3, partitioner=lambda key, value, partitions: value % partitions)
        .map_values(lambda value, context: context.partition, value=int)
        .to("out")
    )
    process(world, builder.build(), *range(6))
    assert {(r.key, r.value) for r in consume("out", log=world.log)} == {(f"k{n}", n % 3) for n in range(6)}


def test_tables_that_are_partitioned_otherwise_are_joined_by_a_foreign_key_with_their_partitioners(world: World):
    """The rows of both tables lie in the partitions that these functions give, not where Kafka's partitioner puts them:
    with the wrong ones a subscription or a response comes to a task that does not have the row."""
    log = world.log
    log.create_topic(TopicInfo("orders", 2, "str", "int"))
    log.create_topic(TopicInfo("customers", 2, "int", "str"))

    def by_last(key, value, partitions):
        return int(key[-1]) % partitions

    def backwards(key, value, partitions):
        return (key + 1) % partitions

    fill = StreamsBuilder()
    fill.stream("in", value=int).to("orders", partitioner=by_last)
    fill.stream("names", key=int, value=str).to("customers", partitioner=backwards)
    log.create_topic(TopicInfo("names", 1, "int", "str"))
    produce([(n, f"name {n}", 0) for n in range(4)], "names", key=int, value=str, log=log)
    process(world, fill.build(), *range(8)).close()

    builder = StreamsBuilder()
    customers = builder.table("customers", key=int, value=str)
    builder.table("orders", value=int).join(
        customers,
        lambda order, name: f"{order}: {name}",
        value=str,
        foreign_key=lambda order: order % 4,
        partitioner=by_last,
        other_partitioner=backwards,
    ).to_stream().map_values(lambda found, context: f"{found} in {context.partition}").to("out")
    running = world.start(builder.build(), application_id="join", storage=type(world.storage)(world.folder / "c2"))
    running.run_until()
    found = {(record.key, record.value) for record in consume("out", log=log)}
    assert found == {(f"k{n}", f"{n}: name {n % 4} in {n % 2}") for n in range(8)}
