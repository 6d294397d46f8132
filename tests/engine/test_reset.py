"""An application that is reset begins again, from where it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock import StreamsBuilder, Topology, faults
from penstock.engine.operate.reset import Move, Plan, Reset, Target, Wanted
from penstock.engine.shared.manifest import Manifests
from penstock.errors import ConfigError, FencedError
from penstock.log.base import TopicInfo
from penstock.log.produce import produce
from support.world import World

pytestmark = pytest.mark.kip("KS-13")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Five records, in two commits, of which the databases on disk know."""
    made = World(tmp_path)
    made.log.create_topic(TopicInfo("in", 1, "str", "str"))
    rows = [("a", "x", 10), ("b", "x", 20), ("a", "x", 30), ("c", "x", 40), ("a", "x", 50)]
    for some in (rows[:3], rows[3:]):
        produce(some, "in", value=str, log=made.log)
        made.run()
    return made


def reset(world: World, target: Target = Target(), **wanted: Any) -> Plan:  # noqa: B008 - it is frozen
    done = Reset(world.storage, world.log, Wanted(target, **wanted))
    done.execute()
    return done.plan


BEFORE = [("a", 1), ("b", 1), ("a", 2), ("c", 1), ("a", 3)]


@pytest.mark.parametrize(
    ("target", "again"),
    [
        (Target("earliest"), [("a", 1), ("b", 1), ("a", 2), ("c", 1), ("a", 3)]),
        (Target("latest"), []),
        (Target("time", 25), [("a", 1), ("c", 1), ("a", 2)]),
        (Target("time", 51), []),
        (Target("offset", 3), [("c", 1), ("a", 1)]),
        (Target("offset", 99), []),
        (Target("shift", -1), [("a", 1)]),
        (Target("shift", -99), [("a", 1), ("b", 1), ("a", 2), ("c", 1), ("a", 3)]),
    ],
)
def test_state_is_empty_and_input_is_read_from_there(world: World, target: Target, again: list[tuple[str, int]]):
    reset(world, target)
    world.run()
    assert world.output() == [*BEFORE, *again]
    world.run("d", "a")
    last = sum(key == "a" for key, _ in again) + 1
    assert world.output() == [*BEFORE, *again, ("d", 1), ("a", last)]


def test_databases_of_before_do_not_come_back_nor_do_other_machines_snapshots(world: World):
    reset(world, Target("offset", 4))
    world.run()
    world.lose_local_state()
    world.run("a")
    assert world.output() == [*BEFORE, ("a", 1), ("a", 2)]


def test_state_can_be_kept(world: World):
    assert reset(world, Target("offset", 4), keep_state=True).stores == []
    world.run()
    assert world.output() == [*BEFORE, ("a", 4)]


@pytest.mark.parametrize("keeps", [True, False])
def test_batches_of_known_names_count_again_unless_the_state_is_kept(world: World, keeps: bool):
    manifests = Manifests(world.storage)
    newest = manifests.read(manifests.numbers()[-1])
    named = {"batches": {"morning": 2}, "queries": {"orders": 7}}
    manifests.create(msgspec.structs.replace(newest, commit=newest.commit + 1, sinks={}, **named))
    reset(world, keep_state=keeps)
    after = manifests.read(manifests.numbers()[-1])
    assert (after.batches, after.queries) == (({"morning": 2}, {"orders": 7}) if keeps else ({}, {}))


@pytest.mark.parametrize("keeps", [False, True])
def test_what_waits_in_repartition_topics_is_let_go_of_or_stays_by_choice(tmp_path: Path, keeps: bool):
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str).select_key(lambda key, value: value, key=str)
    stream.group_by_key("by-value").count("counts").to_stream().to("out")
    world = World(tmp_path, builder.build(), commit_max_bytes=200, chunk_records=5, chunk_bytes=100)
    produce([("a", "xyz"[n % 3], n) for n in range(90)], "in", value=str, log=world.log, partitions=1)
    application = world.start()
    for _ in range(4):
        application.coordinator.step(application.coordinator.end_offsets())
    application.close()
    put_out = len(world.output())
    plan = reset(world, Target("latest"), keep_state=True, keep_waiting=keeps)
    [move] = plan.moves
    assert put_out < move.before < move.now == 90
    assert plan.waiting.keys() == (set() if keeps else {"by-value-repartition"})
    world.run()
    assert len(world.output()) == (move.before if keeps else put_out)


def test_only_sources_that_are_named_are_read_from_elsewhere(tmp_path: Path):
    builder = StreamsBuilder()
    for topic in ("in", "more"):
        builder.stream(topic, value=str).to(f"{topic}-out")
    world = World(tmp_path, builder.build())
    produce([("m", "x", 0)], "more", value=str, log=world.log)
    world.run("a")
    plan = reset(world, topics=("more",))
    assert plan.moves == [Move("more", 0, 1, 0)]
    world.run("b")
    assert world.output("in-out") == [("a", "x"), ("b", "x")]
    assert world.output("more-out") == [("m", "x"), ("m", "x")]


def test_outputs_can_be_emptied(world: World):
    reset(world, empty_outputs=True)
    world.run()
    assert world.output() == BEFORE


def test_a_plan_tells_all_and_changes_nothing(world: World):
    commits = sorted(path.name for path in world.storage.root.rglob("*"))
    newest = len(list(world.storage.root.glob("manifests/*"))) - 1
    plan = Reset(world.storage, world.log, Wanted(Target("offset", 2), empty_outputs=True)).plan
    assert plan == Plan("app", newest + 1, [Move("in", 0, 5, 2)], ["counts"], {}, ["out"])
    assert sorted(path.name for path in world.storage.root.rglob("*")) == commits
    assert world.output() == BEFORE


def test_a_program_elsewhere_is_fenced(world: World):
    running = world.start(machine="elsewhere")
    reset(world)
    world.produce("a")
    with pytest.raises(FencedError, match="was taken over by penstock reset"):
        running.run_until()


def test_a_commit_made_meanwhile_refuses_the_reset(world: World):
    planned = Reset(world.storage, world.log, Wanted())
    world.run("z")
    with pytest.raises(FencedError, match=r"has made commit .* meanwhile.*nothing was changed"):
        planned.execute()
    world.run()
    assert world.output() == [*BEFORE, ("z", 1)]


def test_a_topology_that_would_be_refused_starts_after_a_reset(world: World):
    world.topology = summed()
    with pytest.raises(ConfigError, match="no longer fits"):
        world.start()
    reset(world)
    world.run()
    assert world.output("other") == [("a", "x"), ("b", "x"), ("a", "xx"), ("c", "x"), ("a", "xxx")]


def summed() -> Topology:
    """Another store than the world's, behind a repartition topic."""
    builder = StreamsBuilder()
    keyed = builder.stream("in", value=str).select_key(lambda key, value: key, key=str)
    table = keyed.group_by_key().aggregate(str, lambda key, value, text: text + value, value=str, store="texts")
    table.to_stream().to("other")
    return builder.build()


def test_a_topic_that_is_not_read_is_refused(world: World):
    with pytest.raises(ConfigError, match="does not read topic 'out'; it reads these topics: in"):
        reset(world, topics=("out",))


def test_what_a_crash_left_unpublished_is_put_out_first(world: World, monkeypatch: pytest.MonkeyPatch):
    world.produce("e")
    running = world.start()
    monkeypatch.setattr(running.coordinator.publishing, "publish", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        running.run_until()
    for task in running.host.tasks():
        task.state.abandon()
    assert world.output() == BEFORE
    reset(world, Target("latest"))
    assert world.output() == [*BEFORE, ("e", 1)]
    world.run("e")
    assert world.output() == [*BEFORE, ("e", 1), ("e", 1)]


class Killed(BaseException):
    """Stands for a kill."""


@pytest.mark.parametrize(("point", "has_happened"), [("before-reset", False), ("after-reset", True)])
def test_a_reset_that_is_killed_has_happened_or_not_and_can_be_said_again(
    world: World, point: str, has_happened: bool, monkeypatch: pytest.MonkeyPatch
):
    def listen(name: str) -> None:
        if name == point:
            raise Killed

    assert {"before-reset", "after-reset"} == set(faults.RESET_POINTS)
    monkeypatch.setattr(faults, "listener", listen)
    with pytest.raises(Killed):
        reset(world, Target("offset", 3), empty_outputs=True)
    monkeypatch.setattr(faults, "listener", None)
    assert world.output() == BEFORE
    world.run("a")
    again = [("c", 1), ("a", 1), ("a", 2)] if has_happened else [("a", 4)]
    assert world.output() == [*BEFORE, *again]
    reset(world, Target("offset", 5), empty_outputs=True)
    world.run()
    assert world.output() == [("a", 1)]


def test_tasks_behind_repartition_topics_and_global_tables_begin_anew(tmp_path: Path):
    world = World(tmp_path, joined())
    world.log.create_topic(TopicInfo("in", 2, "str", "str"))
    world.log.create_topic(TopicInfo("names", 1, "str", "str"))
    produce([("x", "X", 0), ("y", "Y", 0)], "names", value=str, log=world.log)
    produce([("a", "x", 0), ("b", "x", 1), ("c", "y", 2)], "in", value=str, log=world.log)
    world.run()
    once = sorted(world.output())
    assert once == [("X", 1), ("X", 2), ("Y", 1)]
    reset(world)
    world.run()
    assert sorted(world.output()) == sorted(once * 2)


def joined() -> Topology:
    """Records by the names of their values, which a global table has, counted."""
    builder = StreamsBuilder()
    names = builder.global_table("names", value=str)
    named = builder.stream("in", value=str).join(
        names, lambda value, name: name, key_selector=lambda key, value: value, value=str
    )
    named.group_by(lambda key, name: name, key=str).count("by-name").to_stream().to("out")
    return builder.build()


@pytest.mark.parametrize("partitions", [1, 2, 5])
@pytest.mark.parametrize("behind", [False, True])
def test_an_application_begins_again_with_other_partitions(tmp_path: Path, partitions: int, behind: bool):
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    grouped = stream.group_by(lambda key, value: key, key=str) if behind else stream.group_by_key()
    grouped.count("counts").to_stream().to("out")
    world = World(tmp_path, builder.build())
    rows = [(f"k{n % 4}", "x", n) for n in range(12)]
    produce(rows, "in", value=str, log=world.log, partitions=3)
    world.run()
    world.log.delete_topic("in")
    produce(rows, "in", value=str, log=world.log, partitions=partitions)
    for wanted in ({"keep_state": True}, {"keep_waiting": True}):
        with pytest.raises(ConfigError, match=f"`penstock rescale app --partitions {partitions}` moves it"):
            Reset(world.storage, world.log, Wanted(**wanted))
    plan = reset(world, empty_outputs=True)
    assert [(move.topic, move.partition, move.now) for move in plan.moves] == [("in", p, 0) for p in range(partitions)]
    assert plan.grown == []
    world.run()
    assert sorted(world.output())[2::3] == [("k0", 3), ("k1", 3), ("k2", 3), ("k3", 3)]
    assert len(world.output()) == 12
    world.run("k0")
    assert ("k0", 4) in world.output()
    assert len(world.output()) == 13


def test_a_source_that_was_given_more_partitions_is_told_of(tmp_path: Path, world: World):
    world.log.add_partitions("in", 4)
    plan = Reset(world.storage, world.log, Wanted()).plan
    assert (plan.grown, [move.partition for move in plan.moves]) == (["in"], [0, 1, 2, 3])


def test_of_sources_with_other_partitions_none_is_left_out(tmp_path: Path):
    builder = StreamsBuilder()
    for topic in ("in", "other"):
        builder.stream(topic, value=str).group_by_key().count(f"counts-{topic}")
    world = World(tmp_path, builder.build())
    for topic in ("in", "other"):
        produce([("a", "x", 1)], topic, value=str, log=world.log)
    world.run()
    world.log.add_partitions("in", 4)
    with pytest.raises(ConfigError, match="topic 'in' had 1 partitions and has 4 now: it has to begin again as well"):
        Reset(world.storage, world.log, Wanted(topics=("other",)))
