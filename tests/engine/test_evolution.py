"""Programs with state that change: what goes on, what begins empty, what is let go of; also after a kill."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import (
    JoinWindows,
    Materialized,
    Processor,
    ProcessorContext,
    Record,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Topology,
    faults,
)
from penstock.engine.evolution.matching import Wishes
from penstock.errors import ConfigError
from penstock.faults import EVOLUTION_POINTS, START_POINTS
from penstock.log.produce import produce
from penstock.state.kinds.duplicates import DuplicateWindowStore
from support.world import World

pytestmark = pytest.mark.kip("KS-12")

HOUR = 3_600_000


def counting(*in_front: str, store: str | None = None, filters: int = 0) -> Topology:
    """Counts by key of ``in`` into ``out``, behind pipelines that read other topics and so many filters."""
    builder = StreamsBuilder()
    for topic in in_front:
        builder.stream(topic, value=str).group_by_key().count().to_stream().to(f"{topic}-counts")
    stream = builder.stream("in", value=str)
    for _ in range(filters):
        stream = stream.filter(lambda key, value: True)
    stream.select_key(lambda key, value: key, key=str).group_by_key().count(store).to_stream().to("out")
    return builder.build()


def world_of(folder: Path, topology: Topology, **settings: Any) -> World:
    world = World(folder, topology, **settings)
    for topic in ("in", "other", "another"):
        produce([], topic, value=str, log=world.log, partitions=2)
    return world


def run(world: World, topology: Topology, *keys: str, time: int = 0, **wishes: Any) -> None:
    world.topology = topology
    produce([(key, "x", time) for key in keys], "in", value=str, log=world.log)
    application = world.start(wishes=Wishes.of(**wishes))
    application.run_until()
    application.close()


# --- what matches goes on --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keeps_databases", [True, False])
def test_generated_numbers_of_stores_topics_and_sub_topologies_move_and_the_state_goes_on(
    keeps_databases: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    world = world_of(tmp_path, counting())
    run(world, counting(), "a", "b", "a", "c")
    for in_front in (("other",), ("other", "another"), ()):
        if not keeps_databases:
            world.lose_local_state()
        if in_front:
            run(world, counting(*in_front), "a")
        else:
            run(world, counting(), "a", drop=["other", "another", *stores_of(counting("other", "another"))[:2]])
    assert world.output()[4:] == [("a", 3), ("a", 4), ("a", 5)]
    assert "with its rows" in caplog.text


def stores_of(topology: Topology) -> list[str]:
    return [spec.name for spec in topology.facts.stores.values()]


def test_after_its_numbers_have_moved_a_program_goes_on_through_snapshots_and_restores(tmp_path: Path):
    world = world_of(tmp_path, counting())
    run(world, counting(), *"abcdef")
    for round_ in range(8):  # flushes every 2 commits and makes a snapshot every 4
        run(world, counting("other"), "a")
        if round_ % 3 == 2:
            world.lose_local_state()
    assert [n for key, n in world.output() if key == "a"] == list(range(1, 10))
    left = {path.name.partition("-")[0] for path in world.storage.root.glob("bases/*/*.sst")}
    assert len(left) == 1  # of the task that has had no records since; of the other's, snapshots have taken the place


def test_a_moved_store_can_be_read_from_outside_before_and_after_its_next_commit(tmp_path: Path):
    world = world_of(tmp_path, counting(store="counts"))
    run(world, counting(store="counts"), "a", "a", "b")
    run(world, counting("other", store="counts"))
    assert world.counts() == [("a", 2), ("b", 1)]
    run(world, counting("other", store="counts"), "b")
    assert world.counts() == [("a", 2), ("b", 2)]


def test_stores_that_stand_alike_are_told_apart_by_the_functions_in_front_of_them(tmp_path: Path):
    def letter(of: str) -> Any:
        return {"a": lambda key, value: key == "a", "b": lambda key, value: key == "b"}[of]

    def branched(*letters: str) -> Topology:
        builder = StreamsBuilder()
        stream = builder.stream("in", value=str)
        for one in letters:
            stream.filter(letter(one)).group_by_key().count().to_stream().to(f"out-{one}")
        return builder.build()

    world = world_of(tmp_path, branched("a", "b"))
    run(world, branched("a", "b"), "a", "a", "b")
    run(world, branched("b", "a"), "a", "b")
    assert (world.output("out-a"), world.output("out-b")) == (
        [("a", 1), ("a", 2), ("a", 3)],
        [("b", 1), ("b", 2)],
    )


def test_stores_that_cannot_be_told_apart_are_refused_until_somebody_says_which_is_which(tmp_path: Path):
    def branched(*numbers: int) -> Topology:
        builder = StreamsBuilder()
        stream = builder.stream("in", value=str)
        for number in numbers:
            functions = [lambda key, value: key < "b", lambda key, value: key > "a", lambda key, value: key == "c"]
            stream.filter(functions[number]).group_by_key().count().to_stream().to(f"out-{number}")
        return builder.build()

    world = world_of(tmp_path, branched(0))
    run(world, branched(0), "a", "a")
    with pytest.raises(ConfigError, match=r"which of them it is cannot be told. Say it with rename=\{'KSTREAM-AGGREG"):
        run(world, branched(1, 2), "c")
    old, new = stores_of(branched(0))[0], stores_of(branched(1, 2))[1]
    run(world, branched(1, 2), "a", rename={old: new})
    assert world.output("out-1") == [("c", 1)]


def windowed(kind: str, *in_front: str) -> Topology:
    builder = StreamsBuilder()
    for topic in in_front:
        builder.stream(topic, value=str).group_by_key().count().to_stream().to("aside")
    stream = builder.stream("in", value=str)
    of = {
        "windows": TimeWindows.of_size_and_grace(HOUR, HOUR),
        "sessions": SessionWindows.of_inactivity_gap_and_grace(HOUR, HOUR),
        "sliding": SlidingWindows.of_time_difference_and_grace(HOUR, HOUR),
    }
    if kind in of:
        counts = stream.group_by_key().windowed_by(of[kind]).count().to_stream()
        counts.map(lambda key, n: (key.key, n), key=str, value=int).to("out")
    elif kind == "versioned":
        supplier = Stores.persistent_versioned_key_value_store("versions", HOUR)
        stream.to_table(materialized=Materialized.as_(supplier)).to_stream().to("out")
    elif kind == "join":
        stream.join(stream, lambda a, b: a + b, JoinWindows.of_time_difference_and_grace(HOUR, HOUR)).to("out")
    elif kind == "outer join":
        other = stream.filter(lambda key, value: key == "b")
        windows = JoinWindows.of_time_difference_and_grace(HOUR, HOUR)
        stream.left_join(other, lambda a, b: f"{a}{b}", windows).to("out")
    elif kind == "deduplicate":
        stream.deduplicate_by_key(HOUR).to("out")
    elif kind == "foreign key":
        left = stream.to_table()
        right = builder.table("another", value=str, materialized=Materialized.as_("rights"))
        left.join(right, lambda a, b: f"{a}{b}", foreign_key=lambda value: value).to_stream().to("out")
    return builder.build()


KINDS = ["windows", "sessions", "sliding", "versioned", "join", "outer join", "deduplicate", "foreign key"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_store_goes_on_under_another_number(kind: str, tmp_path: Path):
    def outcome(folder: str, first: Topology, second: Topology) -> list[tuple[Any, Any]]:
        world = world_of(tmp_path / folder, first)
        produce([("x", "right", 0)], "another", value=str, log=world.log)
        run(world, first, "a", "b", "a", time=10)
        run(world, first, "c", time=HOUR // 2)
        run(world, second, "a", "b", "late", time=20)
        run(world, second, "a", "b", time=4 * HOUR)
        return sorted(world.output(), key=str)

    undisturbed = outcome("plain", windowed(kind), windowed(kind))
    assert outcome("changed", windowed(kind), windowed(kind, "other")) == undisturbed
    assert undisturbed


def test_a_global_table_is_read_anew_where_its_task_or_its_store_has_another_number(tmp_path: Path):
    def joined(*in_front: str) -> Topology:
        builder = StreamsBuilder()
        for topic in in_front:
            builder.stream(topic, value=str).to("aside")
        names = builder.global_table("another", value=str)
        stream = builder.stream("in", value=str)
        stream.join(names, lambda value, name: name, key_selector=lambda key, value: key, value=str).to("out")
        return builder.build()

    world = world_of(tmp_path, joined())
    produce([("a", "Anna", 0)], "another", value=str, log=world.log)
    run(world, joined(), "a")
    run(world, joined("other"), "a")
    assert world.output() == [("a", "Anna"), ("a", "Anna")]


# --- what is new, renamed, or let go of ------------------------------------------------------------------------------


def test_a_new_store_begins_empty_and_it_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    world = world_of(tmp_path, counting(store="counts"))
    run(world, counting(store="counts"), "a")
    with caplog.at_level(logging.WARNING):
        run(world, counting("other", store="counts"), "a")
    assert "'KSTREAM-AGGREGATE-STATE-STORE-0000000001' is new and begins empty" in caplog.text
    assert world.output() == [("a", 1), ("a", 2)]


def test_a_renamed_store_goes_on_when_somebody_says_so_and_saying_it_again_changes_nothing(tmp_path: Path):
    world = world_of(tmp_path, counting(store="before"))
    run(world, counting(store="before"), "a")
    with pytest.raises(ConfigError, match=r"was it renamed\? rename=\{'before': 'now'\}"):
        run(world, counting(store="now"))
    for _ in range(2):
        run(world, counting(store="now"), "a", rename={"before": "now"})
    assert world.output() == [("a", 1), ("a", 2), ("a", 3)]
    assert world.counts("now") == [("a", 3)]


def test_a_store_that_is_dropped_is_gone_and_one_of_its_name_begins_empty_later(tmp_path: Path):
    def two(second: bool) -> Topology:
        builder = StreamsBuilder()
        stream = builder.stream("in", value=str)
        stream.group_by_key().count("counts").to_stream().to("out")
        if second:
            stream.group_by_key().count("second").to_stream().to("out-2")
        return builder.build()

    world = world_of(tmp_path, two(True))
    run(world, two(True), "a", "a")
    with pytest.raises(ConfigError, match=r"store 'second' \(values by key\) no longer exists: drop=\['second'\]"):
        run(world, two(False))
    run(world, two(False), "a", drop=["second"])
    run(world, two(True), "a")
    assert world.output("out-2")[2:] == [("a", 1)]
    assert world.output() == [("a", 1), ("a", 2), ("a", 3), ("a", 4)]


def test_a_store_with_other_windows_begins_empty_when_it_is_dropped_and_only_then(tmp_path: Path):
    def windows(size: int) -> Topology:
        builder = StreamsBuilder()
        grouped = builder.stream("in", value=str).group_by_key()
        counts = grouped.windowed_by(TimeWindows.of_size_with_no_grace(size)).count("counts").to_stream()
        counts.map(lambda key, n: (key.key, n), key=str, value=int).to("out")
        return builder.build()

    world = world_of(tmp_path, windows(HOUR))
    run(world, windows(HOUR), "a", "a")
    with pytest.raises(ConfigError, match="window size was 3600000 ms and is 7200000 ms now"):
        run(world, windows(2 * HOUR))
    for _ in range(2):  # left in a script, it does not empty the store each time
        run(world, windows(2 * HOUR), "a", drop=["counts"])
    assert world.output() == [("a", 1), ("a", 2), ("a", 1), ("a", 2)]


def test_duplicates_that_an_earlier_release_kept_as_one_side_of_a_join_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Decision 0083: their rows meant something else."""
    builder = StreamsBuilder()
    supplier = Stores.persistent_window_store("kept", 100, 10, retain_duplicates=True)
    builder.add_state_store(Stores.window_store_builder(supplier, str, str))
    builder.stream("in", value=str).process(Keeps, "kept", key=str, value=str).to("out")
    topology = builder.build()
    world = world_of(tmp_path, topology)
    with monkeypatch.context() as earlier:
        earlier.setattr(DuplicateWindowStore, "content", "one side of a join")
        run(world, topology, "a")
    with pytest.raises(ConfigError, match="rows was one side of a join and is windows with duplicates now"):
        run(world, topology, "a")
    assert world.output() == [("a", "x")]


class Keeps(Processor):
    """Keeps what comes, and sends it on."""

    def init(self, context: ProcessorContext) -> None:
        self.context, self.store = context, context.get_state_store("kept")

    def process(self, record: Record) -> None:
        self.store.put(record.key, record.value, record.timestamp)
        self.context.forward(record)


def test_a_source_that_is_read_no_more_is_refused_until_it_is_dropped(tmp_path: Path):
    def reading(*topics: str) -> Topology:
        builder = StreamsBuilder()
        for topic in topics:
            builder.stream(topic, value=str).to(f"{topic}-out")
        return builder.build()

    world = world_of(tmp_path, reading("other", "in"))
    produce([("x", "y", 0)], "other", value=str, log=world.log)
    run(world, reading("other", "in"), "a")
    with pytest.raises(ConfigError, match=r"has read topic 'other', .* drop=\['other'\]"):
        run(world, reading("in"))
    run(world, reading("in"), "b", drop=["other"])
    run(world, reading("in"), "c")
    assert [key for key, _ in world.output("in-out")] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("wishes", "says"),
    [
        ({"rename": {"counts": "nobody"}}, "cannot be renamed to 'nobody': the topology has no store"),
        ({"rename": {"nobody": "counts"}}, None),
        ({"rename": {"a": "x", "b": "x"}}, "rename gives two stores the name 'x'"),
        ({"rename": ["counts"]}, "rename maps old names to new ones"),
        ({"drop": "counts"}, "drop is a list of names"),
        ({"rename": {"counts": "x"}, "drop": ["counts"]}, "'counts' is both renamed and dropped"),
    ],
)
def test_wishes_that_make_no_sense_are_refused(wishes: dict[str, Any], says: str | None, tmp_path: Path):
    world = world_of(tmp_path, counting(store="counts"))
    run(world, counting(store="counts"), "a")
    if says is None:  # it may have been renamed by an earlier start
        run(world, counting(store="counts"), **wishes)
    else:
        with pytest.raises(ConfigError, match=says):
            run(world, counting(store="counts"), **wishes)


# --- kills -----------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """In place of kill -9, which nobody outlives."""


@pytest.fixture
def killed_at() -> Iterator[Any]:
    def set_up(point: str) -> None:
        def listen(name: str) -> None:
            if name == point:
                faults.listener = None
                raise Killed(name)

        faults.listener = listen

    yield set_up
    faults.listener = None


@pytest.mark.parametrize("returns", [False, True], ids=["and goes on", "and returns to the program of before"])
@pytest.mark.parametrize("point", EVOLUTION_POINTS + START_POINTS)
def test_a_kill_while_state_is_carried_over_loses_nothing(point: str, returns: bool, tmp_path: Path, killed_at: Any):
    world = world_of(tmp_path, counting())
    run(world, counting(), "a", "b", "a")
    killed_at(point)
    with pytest.raises(Killed):
        world.start(counting("other"))
    counted = point in ("after-take-over", "after-sweep")
    if returns and counted:
        run(world, counting(), "a", drop=["other", stores_of(counting("other"))[0]])
    elif returns:
        run(world, counting(), "a")
    run(world, counting("other"), "a", "b")
    run(world, counting("other"), "b")
    assert sorted(n for key, n in world.output() if key == "b") == [1, 2, 3]
    assert [n for key, n in world.output() if key == "a"] == [1, 2, 3, *([4] if returns else [])]
    left = {path.parts[-2] for path in world.storage.root.glob("bases/*/*.snapshot")}
    assert len(left) <= 1


def test_a_program_that_is_killed_in_the_middle_of_its_backlog_has_what_waits_go_on(tmp_path: Path):
    """Records wait in the repartition topic, whose name and whose sub-topology have other numbers afterwards."""
    small = {"commit_max_bytes": 200, "chunk_records": 5, "chunk_bytes": 100}
    world = world_of(tmp_path, counting(), **small)
    produce([("abc"[i % 3], "x", i) for i in range(90)], "in", value=str, log=world.log)
    application = world.start()
    for _ in range(4):
        application.coordinator.step(application.coordinator.end_offsets())
    waits = application.coordinator.manifest.waiting
    for task in application.host.tasks():
        task.state.abandon()
    run(world, counting("other"))
    assert waits
    assert sorted(world.output()) == sorted((key, n) for key in "abc" for n in range(1, 31))
