"""Limits of uncommitted writes that are far below a chunk (KIP-892)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import Materialized, SessionWindows, Stores, StreamsBuilder, TimeWindows, Topology
from penstock.log.produce import produce
from penstock.state.task_state import TaskState
from support.world import World

pytestmark = pytest.mark.kip("892-10")


def stores() -> dict[str, Topology]:
    """Topologies whose records make one write, several, or a changing number of them."""

    def built(made: Any) -> Topology:
        builder = StreamsBuilder()
        made(builder, builder.stream("in", key=str, value=int))
        return builder.build()

    def processor(builder: StreamsBuilder, stream: Any) -> None:
        def put(record: Any, context: Any) -> None:
            for number in range(1 + record.value % 7):
                context.get_state_store("many").put(f"{record.key}-{record.value}-{number}", "x" * record.value)

        builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("many"), str, str))
        stream.process(put, "many")

    hopping = TimeWindows.of_size_and_grace(1000, 0).advance_by(100)
    sessions = SessionWindows.of_inactivity_gap_and_grace(5, 10_000)
    versioned = Materialized.as_versioned("versions", "1 day")
    return {
        "counts": built(lambda _, stream: stream.group_by_key().count("counts")),
        "hopping": built(lambda _, stream: stream.group_by_key().windowed_by(hopping).count("windows")),
        "sessions": built(lambda _, stream: stream.group_by_key().windowed_by(sessions).count("sessions")),
        "versions": built(lambda _, stream: stream.to_table(materialized=versioned)),
        "many": built(processor),
    }


def held(world: World, monkeypatch: pytest.MonkeyPatch, figure: str) -> tuple[list[int], list[list[int]]]:
    """The records of each commit, and what the stores held after each of its chunks."""
    application = world.start()
    after: list[list[int]] = []
    monkeypatch.setattr(
        application.host.desk,
        "answer",
        lambda: after and after[-1].extend(getattr(task.state, figure) for task in application.host.tasks()),
    )
    commits: list[int] = []
    after.append([])
    while (done := application.coordinator.step(application.coordinator.end_offsets())) is not None:
        commits.append(done.records)
        after.append([])
    application.close()
    return commits, after


@pytest.mark.parametrize("name", stores())
@pytest.mark.parametrize(
    ("setting", "limit", "figure"),
    [
        ("statestore_uncommitted_max_records", 100, "approximate_num_uncommitted_entries"),
        ("statestore_uncommitted_max_bytes", 5_000, "approximate_num_uncommitted_bytes"),
    ],
)
def test_no_more_is_uncommitted_than_the_limit_and_what_one_record_makes(
    name: str, setting: str, limit: int, figure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    world = World(tmp_path, stores()[name], **{setting: limit})
    produce([(f"k{n % 50}", n, 20 * n) for n in range(300)], "in", str, int, world.log)
    commits, after = held(world, monkeypatch, figure)
    most = {"counts": 1, "hopping": 10, "sessions": 2, "versions": 2, "many": 7}[name]
    made = most if figure.endswith("entries") else most * 400
    assert sum(commits) == 300, "the rest of the chunk waits for the next commit"
    assert len(commits) > 2
    assert max(max(one, default=0) for one in after) < limit + made
    assert [max(one) >= limit for one in after if one][:-1] == [True] * (len([one for one in after if one]) - 1)


def bursts() -> Topology:
    """A processor that makes as many writes of a record as the record says."""
    builder = StreamsBuilder()

    def put(record: Any, context: Any) -> None:
        for number in range(record.value):
            context.get_state_store("many").put(f"{record.key}-{number}", record.value)

    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("many"), str, int))
    builder.stream("in", key=str, value=int).process(put, "many")
    return builder.build()


def test_a_record_that_makes_a_hundred_times_as_much_comes_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    world = World(tmp_path, bursts(), statestore_uncommitted_max_records=100)
    produce([(f"k{n}", 100 if n >= 300 else n % 2, n) for n in range(320)], "in", str, int, world.log)
    commits, after = held(world, monkeypatch, "approximate_num_uncommitted_entries")
    assert sum(commits) == 320
    assert max(max(one, default=0) for one in after) < 100 + 100


def test_records_that_are_a_thousand_times_as_large_come_in_small_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).to_table(materialized=Materialized("texts"))
    world = World(tmp_path, builder.build(), statestore_uncommitted_max_bytes=500_000)
    produce([(f"k{n}", "x" * (50_000 if n >= 3_000 else 5), n) for n in range(3_050)], "in", str, str, world.log)
    commits, after = held(world, monkeypatch, "approximate_num_uncommitted_bytes")
    assert sum(commits) == 3_050
    assert max(max(one, default=0) for one in after) < 500_000 + 50_200
    assert sum(map(len, after)) < 1_500, "small records go in larger chunks"


@pytest.mark.parametrize(
    ("setting", "limit", "figure", "made"),
    [
        ("statestore_uncommitted_max_records", 100, "approximate_num_uncommitted_entries", 4),
        ("statestore_uncommitted_max_bytes", 20_000, "approximate_num_uncommitted_bytes", 1_000),
    ],
)
def test_what_caches_send_at_the_commit_is_within_the_limit_too(
    setting: str, limit: int, figure: str, made: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    builder = StreamsBuilder()
    counts = builder.stream("in", key=str, value=int).group_by_key().count("counts")
    counts.filter(lambda key, count: count > 0, store="all").map_values(
        lambda count: count * "x", value=str, store="texts"
    )
    world = World(tmp_path, builder.build(), statestore_cache_max_bytes="1 MB", **{setting: limit})
    produce([(f"k{n * n % 331}", n, 20 * n) for n in range(2_000)], "in", str, int, world.log, partitions=1)
    held: list[int] = []
    prepare = TaskState.prepare
    monkeypatch.setattr(TaskState, "prepare", lambda self: (held.append(getattr(self, figure)), prepare(self)))
    application = world.start()
    application.run_until()
    application.close()
    assert max(held) < limit + made
    assert sorted(held)[len(held) // 2] > limit / 4, "commits are not smaller than they have to be"
    assert len(world.counts("texts")) == len({n * n % 331 for n in range(2_000)})


def test_a_commit_of_a_large_limit_takes_whole_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    world = World(tmp_path, stores()["counts"], chunk_records=1_000)
    produce([(f"k{n}", n, 20 * n) for n in range(20_000)], "in", str, int, world.log)
    commits, after = held(world, monkeypatch, "approximate_num_uncommitted_entries")
    assert commits == [20_000]
    assert len(set(after[0])) == 20, "chunks of a thousand records"
