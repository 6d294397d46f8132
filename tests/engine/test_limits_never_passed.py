"""Records that suddenly make a thousand times as much as all before do not pass a limit by a chunk (KIP-892)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Materialized, Processor, Stores, StreamsBuilder, Topology
from penstock.engine.commit.parts import AttemptInParts, More
from penstock.log.produce import produce
from support.circling import FEW
from support.uncommitted import BYTES, ENTRIES, most_held
from support.world import World
from support.worlds import CUTS, backlog, in_any_order, live

pytestmark = pytest.mark.kip("892-10")

BOTH = pytest.mark.parametrize(
    ("setting", "limit", "figure", "made"),
    [
        ("statestore_uncommitted_max_records", 10_000, ENTRIES, 1_010),
        ("statestore_uncommitted_max_bytes", 600_000, BYTES, 70_000),
    ],
)


def _put(record: Any, context: Any) -> None:
    """Make as many writes as the record says, and tell how many rows there are of it."""
    store = context.get_state_store("many")
    for number in range(record.value):
        store.put(f"{record.key}-{number}", (store.get(f"{record.key}-{number}") or 0) + record.value)
    context.forward(record)


def bursts() -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("many"), str, int))
    numbers = builder.stream("in", key=str, value=int)
    numbers.process(_put, "many", key=str, value=int).to("out")
    return builder.build()


def pieces() -> Topology:
    """Built-in steps, of which one makes a thousand records of some, and another one keeps them."""
    builder = StreamsBuilder()
    numbers = builder.stream("in", key=str, value=int)
    many = numbers.flat_map(lambda key, value: [(f"{key}-{n}", value) for n in range(value)], key=str, value=int)
    many.to_table(materialized=Materialized("many")).to_stream().to("out")
    return builder.build()


def behind() -> Topology:
    """A task that reads what another one sends makes the writes."""
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("many"), str, int))
    numbers = builder.stream("in", key=str, value=int)
    numbers.group_by(lambda key, value: f"{key}{value % 2}", key=str).count("counts").to_stream().to("counts")
    numbers.repartition().process(_put, "many", key=str, value=int).to("out")
    return builder.build()


def cycle() -> Topology:
    """The writes are made by tasks of a cycle that read what comes around."""
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("many"), str, int))
    numbers = builder.stream("in", key=str, value=int)
    again = numbers.group_by(lambda key, value: key, key=str).count("counts").to_stream()
    table = again.map(lambda key, value: (key, value), key=str, value=int).to_table("back")
    joined = numbers.left_join(table, lambda number, seen: number, value=int).repartition()
    joined.process(_put, "many", key=str, value=int).to("out")
    return builder.build()


TOPOLOGIES = {"bursts": bursts, "pieces": pieces, "behind": behind, "cycle": cycle}


def erratic(count: int, every: int, begins: int) -> list[tuple[str, Any, Any, int]]:
    """Records that make no write or one, and from one of them on some that make a thousand."""
    return [("in", f"k{n % 97}", 1_000 if n >= begins and not n % every else n % 2, n) for n in range(count)]


@pytest.mark.parametrize(("every", "begins", "count"), [(1, 60, 1), (7, 500, 1), (3, 0, 3)])
@pytest.mark.parametrize("name", TOPOLOGIES)
@BOTH
def test_no_more_is_uncommitted_than_the_limit_and_what_one_record_makes(
    setting: str, limit: int, figure: str, made: int, name: str, every: int, begins: int, count: int
) -> None:
    rows = erratic(begins + 25 * count * every, every, begins)
    with most_held(figure) as unlimited:
        expected = backlog(TOPOLOGIES[name](), rows, count, statestore_uncommitted_max_bytes=-1).outputs()
    with most_held(figure) as held:
        world = backlog(TOPOLOGIES[name](), rows, count, **{setting: limit})
    assert max(unlimited) > limit, "the limit matters"
    assert max(held) < limit + made
    assert in_any_order(world.outputs()) == in_any_order(expected)
    assert world.application.coordinator.manifest.commit < 25 * count, "several large records a commit"


@pytest.mark.parametrize("name", TOPOLOGIES)
@FEW
@given(data=st.data())
def test_results_are_those_of_single_records_however_the_input_is_cut(name: str, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.sampled_from([0, 1, 2, 40, 90]), max_size=25), "sizes")
    rows = [("in", f"k{n % 3}", size, n) for n, size in enumerate(sizes)]
    cuts = data.draw(CUTS, "cuts")
    setting, figure, limit, made = data.draw(
        st.sampled_from(
            [
                ("statestore_uncommitted_max_records", ENTRIES, 100, 100),
                ("statestore_uncommitted_max_bytes", BYTES, 6_000, 6_000),
            ]
        )
    )
    cache = data.draw(st.sampled_from([0, 1 << 20]), "cache")
    with most_held(figure) as held:
        world = backlog(TOPOLOGIES[name](), rows, **cuts | {setting: limit, "statestore_cache_max_bytes": cache})
    assert max(held) < limit + made
    if not cache:
        assert world.outputs() == live(TOPOLOGIES[name](), rows).outputs()


def test_records_that_come_between_commits_do_not_pass_a_limit_either(tmp_path: Path) -> None:
    world = World(tmp_path, bursts(), statestore_uncommitted_max_records=10_000)
    produce([(f"k{n}", n % 2, n) for n in range(60)], "in", str, int, world.log)
    application = world.start()
    coordinator = application.coordinator
    parts = [[(f"k{n}", 1_000, n) for n in range(60, 85)]]

    def more(attempt: AttemptInParts) -> More | None:
        if not parts:
            return None
        produce(parts.pop(0), "in", str, int, world.log)
        return More(coordinator.end_offsets(), {})

    with most_held(ENTRIES) as held:
        coordinator.step(coordinator.end_offsets(), attempts=partial(AttemptInParts, more=more))
        application.run_until()
    application.close()
    assert max(held) < 10_000 + 1_010
    assert len(world.counts("many")) == 30 + 25_000


def test_a_processor_stops_in_the_middle_of_a_chunk_that_makes_too_many_writes() -> None:
    made: list[Bursting] = []

    class Bursting(Processor):
        def __init__(self) -> None:
            self.records = 0
            made.append(self)

        def init(self, context: Any) -> None:
            self.context = context

        def process(self, record: Any) -> None:
            self.records += 1
            _put(record, self.context)

    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("many"), str, int))
    builder.stream("in", key=str, value=int).process(Bursting, "many", key=str, value=int)
    rows = [("in", f"k{n}", 1_000, n) for n in range(150)]
    with most_held(ENTRIES) as held:
        backlog(builder.build(), rows, statestore_uncommitted_max_records=10_000)
    assert max(held) < 10_000 + 1_010
    assert made[0].records == 100, "of a first chunk of 150"
