"""Limits of uncommitted writes where sub-topologies send to each other in a cycle (KIP-892)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import StreamsBuilder, TimeWindows, Topology
from support.circling import FEW, NAMES
from support.topologies import pair, topology_of
from support.uncommitted import BYTES, ENTRIES, most_held
from support.worlds import CUTS, backlog, in_any_order, in_disorder, live

pytestmark = pytest.mark.kip("892-10")


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(data=st.data())
def test_no_more_is_uncommitted_in_a_cycle_than_the_limit_and_what_one_record_makes(
    name: str, data: st.DataObject
) -> None:
    topology = topology_of(name)
    rows = data.draw(in_disorder(topology), "rows")
    cuts = data.draw(CUTS, "cuts")
    setting, figure, limits = data.draw(
        st.sampled_from(
            [
                ("statestore_uncommitted_max_records", ENTRIES, [3, 10]),
                ("statestore_uncommitted_max_bytes", BYTES, [200, 1000]),
            ]
        )
    )
    limit = data.draw(st.sampled_from(limits), "limit")
    with most_held(figure) as of_single_records:
        uncut = live(topology, rows)
    with most_held(figure) as held:
        cut = backlog(topology, rows, **cuts | {setting: limit})
    assert max(held) < limit + max(of_single_records)
    assert cut.outputs() == uncut.outputs()


def windows_behind_a_join_with_itself() -> Topology:
    """What comes back is counted in ten windows a record, by tasks that read nothing else."""
    builder = StreamsBuilder()
    numbers = builder.stream("in", key=str, value=int)
    hopping = TimeWindows.of_size_and_grace(1000, 0).advance_by(100)
    counts = numbers.group_by(lambda key, value: f"k{value % 50}", key=str).windowed_by(hopping).count("windows")
    back = counts.to_stream().map(lambda key, count: (key.key, count), key=str, value=int)
    numbers.left_join(back.to_table("back"), pair, value=str).to("out")
    return builder.build()


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(
    ("setting", "limit", "figure", "made"),
    [
        ("statestore_uncommitted_max_records", 100, ENTRIES, 10),
        ("statestore_uncommitted_max_bytes", 5_000, BYTES, 1_000),
    ],
)
def test_commits_of_a_cycle_are_as_large_as_its_limit_allows(
    count: int, setting: str, limit: int, figure: str, made: int
) -> None:
    topology = windows_behind_a_join_with_itself()
    rows = [("in", f"k{n % 50}", n, 20 * n) for n in range(400)]
    with most_held(figure) as held:
        world = backlog(topology, rows, count, **{setting: limit})
    assert max(held) < limit + made
    assert world.application.coordinator.manifest.commit < 400, "several records a commit"
    assert in_any_order(world.outputs()) == in_any_order(backlog(topology, rows, count).outputs())


@pytest.mark.parametrize("count", [1, 3])
def test_tasks_that_have_no_stores_take_no_more_than_those_they_send_to_have_room_for(count: int) -> None:
    builder = StreamsBuilder()
    numbers = builder.stream("in", key=str, value=int)
    hopping = TimeWindows.of_size_and_grace(1000, 0).advance_by(100)
    counts = numbers.group_by(lambda key, value: f"k{value % 50}", key=str).windowed_by(hopping).count("windows")
    back = counts.to_stream().map(lambda key, count: (key.key, count), key=str, value=int)
    numbers.merge(back.repartition()).to("out")
    topology = builder.build()
    rows = [("in", f"k{n % 50}", n, 20 * n) for n in range(400)]
    with most_held(ENTRIES) as held:
        world = backlog(topology, rows, count, statestore_uncommitted_max_records=100)
    assert max(held) < 100 + 10
    assert in_any_order(world.outputs()) == in_any_order(backlog(topology, rows, count).outputs())
