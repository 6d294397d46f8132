"""Topologies that read a topic which they also write: what they write there arrives with a commit, so commits show, as
in Kafka Streams, and no other cut does. With a commit behind each record they give what the test driver gives."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.test_any_cut import UNCACHED, outputs, pipe, rows, stores
from penstock import JoinWindows, StreamsBuilder, Suppressed, TimeWindows, Topology
from penstock.testing import TopologyTestDriver
from penstock.testing.cuts import CutDriver
from support.flows import Row
from support.topologies import add, at_least_2, letter, pair, stream, table
from support.topologies_of_cycles import by_value
from support.topologies_of_processors import CounterThatTells, counts

FEW = settings(max_examples=max(4, settings.default.max_examples // 4))

OWN: dict[str, Callable[[StreamsBuilder], None]] = {}
"""Each writes ``back`` and reads it."""


def own(build: Callable[[StreamsBuilder], None]) -> Callable[[StreamsBuilder], None]:
    OWN[build.__name__] = build
    return build


def small(key: Any, value: Any) -> bool:
    return value is not None and value < 3


@own
def stream_joined_with_a_table_of_its_counts(builder: StreamsBuilder) -> None:
    numbers = stream(builder)
    numbers.group_by_key().count("counts").to_stream().to("back")
    numbers.left_join(builder.table("back", value=int, store="kept"), pair, value=str).to("out")


@own
def records_that_go_around_until_they_are_many(builder: StreamsBuilder) -> None:
    both = stream(builder).merge(stream(builder, "back"))
    counted = both.group_by_key().count("counts").to_stream()
    counted.filter(small).to("back")
    counted.to("out")


@own
def windows_of_records_and_of_what_came_of_them(builder: StreamsBuilder) -> None:
    numbers = stream(builder)
    numbers.map_values(lambda value: None if value is None else value + 1, value=int).to("back")
    both = numbers.merge(stream(builder, "back"))
    windows = TimeWindows.of_size_and_grace(10, 5)
    both.group_by(by_value, key=str).windowed_by(windows).count("windows").to_stream().to("out")


@own
def join_of_a_stream_with_its_own_topic(builder: StreamsBuilder) -> None:
    numbers = stream(builder)
    numbers.filter(at_least_2).select_key(by_value, key=str).to("back")
    windows = JoinWindows.of_time_difference_and_grace(20, 10)
    numbers.outer_join(stream(builder, "back"), pair, windows, value=str).to("out")


@own
def table_joined_by_foreign_key_with_its_own_topic(builder: StreamsBuilder) -> None:
    rows = table(builder, store="rows")
    rows.to_stream().select_key(by_value, key=str).to("back")
    others = builder.table("back", value=int, store="others")
    rows.left_join(others, pair, foreign_key=lambda value: by_value(None, value), value=str).to_stream().to("out")


@own
def held_back_until_a_time_and_read_again(builder: StreamsBuilder) -> None:
    held = table(builder, store="rows").suppress(Suppressed.until_time_limit(15))
    held.to_stream().to("back")
    again = stream(builder, "back").group_by(letter, key=str).aggregate(lambda: 0, lambda k, v, sum: add(sum, v or 0))
    again.to_stream().to("out")


@own
def processor_behind_its_own_topic(builder: StreamsBuilder) -> None:
    counts(builder)
    told = stream(builder).merge(stream(builder, "back")).process(CounterThatTells, "counts", value=int)
    told.filter(lambda key, value: value == 1).to("back")
    told.to("out")


def topology_of(name: str) -> Topology:
    builder = StreamsBuilder()
    OWN[name](builder)
    return builder.build()


def outcome(driver: Any, given_rows: list[Row]) -> tuple[Any, ...]:
    pipe(driver, given_rows)
    return outputs(driver), stores(driver), driver.dropped_records_total()


def cut(topology: Topology, seed: Any, commits: Collection[int], given_rows: list[Row]) -> tuple[Any, ...]:
    with CutDriver(topology, seed, commits_behind=commits, **UNCACHED) as driver:
        return outcome(driver, given_rows)


@pytest.mark.parametrize("name", OWN)
@FEW
@given(data=st.data())
def test_no_cut_shows_but_commits(name: str, data: st.DataObject) -> None:
    """Chunks, rows that go to disk, ends and crashes change nothing."""
    topology = topology_of(name)
    given_rows = data.draw(rows(topology), "rows")
    commits = data.draw(st.sets(st.integers(0, 25)), "commits")
    seed = data.draw(st.randoms(use_true_random=False), "cuts")
    assert cut(topology, seed, commits, given_rows) == cut(topology, None, commits, given_rows)


RACE = {"table_joined_by_foreign_key_with_its_own_topic"}
"""What a record sends through an own topic and through an internal one: which of them is there first is chance."""


@pytest.mark.parametrize("name", sorted(OWN.keys() - RACE))
@FEW
@given(data=st.data())
def test_with_a_commit_behind_each_record_it_is_as_in_the_driver(name: str, data: st.DataObject) -> None:
    topology = topology_of(name)
    given_rows = data.draw(rows(topology), "rows")
    uncut = outcome(TopologyTestDriver(topology, **UNCACHED), given_rows)
    seed = data.draw(st.randoms(use_true_random=False), "cuts")
    assert cut(topology, seed, range(len(given_rows)), given_rows) == uncut
