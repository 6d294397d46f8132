"""A backlog gives what live reading gives where a record meets what it sends itself.

Topologies in which what a record causes comes back to where such records are read, on the engine's own reader: once
record by record, with commits that have finished before the next one comes; once as a backlog, in commits and chunks of
any size, over any number of partitions.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import JoinWindows, KStream, StreamsBuilder, TimeWindows, Topology
from penstock.engine.commit.rounds import Rounds
from penstock.engine.shared.layout import layout_of
from penstock.log.base import TopicInfo
from penstock.log.memory import MemoryLog
from support.circling import FEW, NAMES, cycles
from support.topologies import larger, pair, stream, topology_of
from support.topologies_of_cycles import by_value
from support.worlds import CUTS, Row, World, backlog, in_any_order, in_disorder, in_order, live


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(data=st.data())
def test_a_backlog_gives_record_for_record_what_live_reading_gives(name: str, data: st.DataObject) -> None:
    """Late records and those of equal times too, in the order of their partition."""
    topology = topology_of(name)
    rows = data.draw(in_disorder(topology), "rows")
    uncut, cut = live(topology, rows), backlog(topology, rows, **data.draw(CUTS, "cuts"))
    assert cut.outputs() == uncut.outputs()
    assert cut.dropped() == uncut.dropped()


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(data=st.data())
def test_a_backlog_over_several_partitions_gives_what_live_reading_gives(name: str, data: st.DataObject) -> None:
    topology = topology_of(name)
    rows = data.draw(in_order(topology), "rows")
    count = data.draw(st.sampled_from([1, 2, 5]), "partitions")
    uncut, cut = live(topology, rows, count), backlog(topology, rows, count, **data.draw(CUTS, "cuts"))
    assert in_any_order(cut.outputs()) == in_any_order(uncut.outputs())
    assert cut.dropped() == uncut.dropped()
    assert not cut.waits()


# --- any cycle ------------------------------------------------------------------------------------------------------


def taken_further(streams: list[KStream], kind: str, one: int, other: int) -> KStream:
    """A stream that is made of two others, or of one and its own records under other keys."""
    first, second = streams[one % len(streams)], streams[other % len(streams)]
    back = second.select_key(by_value, key=str)
    if kind == "count":
        return first.left_join(back.group_by_key().count(), lambda value, count: value + (count or 0), value=int)
    if kind == "windows":
        windows = JoinWindows.of_time_difference_and_grace(10, 5)
        return first.join(back, lambda value, came: (value * 3 + came) % 100, windows, value=int)
    if kind == "merge":
        return first.merge(back.repartition())
    if kind == "table":
        return first.left_join(back.to_table(), lambda value, last: (value * 7 + (last or 0)) % 100, value=int)
    kept = first.to_table()
    if kind == "foreign":
        joined = kept.join(
            kept, lambda row, other: (row * 5 + other) % 100, foreign_key=lambda v: "abc"[v % 3], value=int
        )
        return joined.to_stream()
    counts = kept.group_by(lambda key, value: (by_value(key, value), value), key=str, value=int).count()
    return kept.left_join(counts, lambda value, count: (value + (count or 0)) % 100, value=int).to_stream()


KINDS = st.sampled_from(["count", "windows", "merge", "table", "foreign", "rows"])
STEPS = st.lists(st.tuples(KINDS, st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=3)


def any_cycle(steps: list[tuple[str, int, int]]) -> Topology:
    builder = StreamsBuilder()
    streams = [stream(builder).filter(lambda key, value: None not in (key, value))]
    for kind, one, other in steps:
        streams.append(taken_further(streams, kind, one, other).filter(lambda key, value: value is not None))
    streams[-1].to("out")
    summed = streams[-1].group_by_key().windowed_by(TimeWindows.of_size_and_grace(20, 10)).reduce(larger)
    summed.to_stream().to("largest")
    return builder.build()


@FEW
@given(data=st.data())
def test_no_cycle_of_any_form_shows_how_its_input_was_cut(data: st.DataObject) -> None:
    """Cycles one behind the other and within each other, behind steps of all kinds; one partition, in disorder."""
    topology = any_cycle(data.draw(STEPS, "steps"))
    rows = data.draw(in_disorder(topology), "rows")
    uncut, cut = live(topology, rows), World(topology, **data.draw(CUTS, "cuts"))
    for number, row in enumerate(rows):
        cut.append([row])
        if data.draw(st.integers(0, 5)) == 0:
            cut.run()
        if number % 7 == 6 and data.draw(st.booleans()):
            cut.crash()
    cut.run()
    assert cut.outputs() == uncut.outputs()
    assert cut.dropped() == uncut.dropped()


# --- by name ---------------------------------------------------------------------------------------------------------


def payments() -> Topology:
    builder = StreamsBuilder()
    paid = builder.stream("in", value=int)
    received = paid.select_key(lambda key, value: "abc"[value], key=str)
    paid.join(received, pair, JoinWindows.of_time_difference_and_grace(10, 0), value=str).to("out")
    return builder.build()


PAYMENTS: list[Row] = [("in", "abc"[number % 3], (number + 1) % 3, number * 7) for number in range(200)]


@pytest.mark.parametrize("count", [1, 3])
def test_who_pays_meets_who_is_paid_however_many_records_there_are_at_once(count: int) -> None:
    """Of 200 payments in perfect order each meets the one before it, but for the first."""
    expected = sorted(("abc"[number % 3], f"{(number + 1) % 3}|{number % 3}", number * 7) for number in range(1, 200))
    assert sorted(backlog(payments(), PAYMENTS, count).outputs()["out"]) == expected
    assert sorted(live(payments(), PAYMENTS, count).outputs()["out"]) == expected


def test_records_that_come_back_are_not_late_in_windows_without_grace() -> None:
    builder = StreamsBuilder()
    numbers = builder.stream("in", value=int)
    both = numbers.merge(numbers.select_key(by_value, key=str).repartition())
    both.group_by_key().windowed_by(TimeWindows.of_size_and_grace(10, 0)).count().to_stream().to("out")
    world = backlog(builder.build(), PAYMENTS)
    assert (len(world.outputs()["out"]), world.dropped()) == (400, 0)


def test_a_backlog_goes_around_a_cycle_chunk_by_chunk_and_not_record_by_record(monkeypatch: Any) -> None:
    laps: Counter[str] = Counter()
    whole = Rounds._lap

    def counted(self: Any, told: Any) -> Any:
        laps["laps"] += 1
        return whole(self, told)

    monkeypatch.setattr(Rounds, "_lap", counted)
    rows = [("in", "abc"[number % 3], (number + 1) % 3, number * 7) for number in range(5000)]
    world = backlog(payments(), rows, chunk_records=2000)
    assert len(world.outputs()["out"]) == 4999
    assert laps["laps"] < 20


def test_what_comes_of_few_records_may_be_much_and_chunks_stay_as_small_as_they_may_be() -> None:
    """Each record comes back 50 times; after the first rounds a task works on no more at once than it is told."""
    builder = StreamsBuilder()
    numbers = builder.stream("in", value=int)
    back = numbers.flat_map(lambda key, value: [(str(number), value) for number in range(50)], key=str, value=int)
    numbers.left_join(back.group_by_key().count(), pair, value=str).to("out")
    sizes: list[int] = []
    world = World(builder.build(), chunk_records=400, chunk_bytes=1 << 20)
    whole = world.application.run

    def seen(stage: Any, label: str) -> Any:
        laps = [work.lap.comes_back for work in stage.tasks if work.lap is not None and work.lap.comes_back]
        sizes.extend(sum(ref.records for refs in topics.values() for ref in refs) for topics in laps)
        return whole(stage, label)

    world.application.run = seen  # type: ignore[method-assign]
    world.append([("in", "1", number % 3, number) for number in range(3000)])
    world.run()
    assert len(world.outputs()["out"]) == 3000
    assert sizes[0] == 400 * 50
    assert 200 < min(sizes[1:-1]) <= max(sizes[1:]) <= 400


def test_files_between_laps_are_gone_when_a_commit_is_made() -> None:
    world = backlog(payments(), PAYMENTS, commit_max_bytes=500, chunk_records=10)
    assert world.application.coordinator.manifest.commit > 5
    assert world.application.coordinator.storage.list("exchange") == []


def test_sub_topologies_that_send_to_each_other_are_one_stage() -> None:
    topology, log = topology_of("cycle_of_two_sub_topologies"), MemoryLog()
    log.create_topic(TopicInfo("in", 2))
    layout = layout_of(topology, log)
    [cycle] = layout.cycles
    assert [[sub.id for sub in stage] for stage in layout.stages] == [[0, 1]]
    assert cycle.last_lap == 2
    assert sorted(cycle.turn.values()) == [1, 2]


def test_processors_that_send_around_hear_of_time_and_so_go_record_by_record() -> None:
    assert [cycle.last_lap for cycle in cycles(topology_of("processor_in_a_cycle"))] == [1]
    [cycle] = cycles(topology_of("processors_in_a_cycle_that_share_a_store"))
    assert cycle.lap is None
