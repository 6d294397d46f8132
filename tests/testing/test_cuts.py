"""``CutDriver``: the face of the test driver over the engine, its input cut at random or where told."""

from __future__ import annotations

import pytest

from penstock import Record, StreamsBuilder
from penstock.errors import ConfigError, ProcessingError
from penstock.testing.cuts import CutDriver
from support.topologies import topology_of


def counting() -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count("counts").to_stream().to("out")
    return builder


def test_without_a_seed_only_commit_cuts():
    with CutDriver(counting().build()) as driver:
        for timestamp in (1, 2):
            driver.pipe_input("in", "a", "x", timestamp)
        driver.commit()
        driver.pipe_input("in", "a", "x", 3)
        assert driver.read_output("out") == [Record("a", 2, 2), Record("a", 3, 3)]
        assert list(driver.store("counts").all()) == [("a", 3, 3)]


@pytest.mark.parametrize("seed", range(10))
def test_with_a_seed_it_cuts_anywhere_and_nothing_shows(seed):
    with CutDriver(counting().build(), seed, statestore_cache_max_bytes=0) as driver:
        for timestamp in range(20):
            driver.pipe_input("in", "ab"[timestamp % 2], "x", timestamp)
        expected = [Record("ab"[n % 2], n // 2 + 1, n) for n in range(20)]
        assert driver.read_output("out") == expected
        assert driver.read_output("out") == []


def test_some_seed_starts_the_engine_again():
    starts = []
    for seed in range(5):
        with CutDriver(counting().build(), seed) as driver:
            first = driver._application
            for timestamp in range(20):
                driver.pipe_input("in", "a", "x", timestamp)
            starts.append(driver._application is not first)
    assert any(starts)


def test_before_anything_was_piped_in_everything_is_empty():
    with CutDriver(counting().build(), 1) as driver:
        assert driver.read_output("out") == []
        assert list(driver.store("counts").all()) == []
        assert driver.metrics() == {}


def test_drops_tell_which_input_they_are_of():
    with CutDriver(counting().build(), 3) as driver:
        for key in ("a", None, "b", None):
            driver.pipe_input("in", key, "x")
        assert driver.dropped_records_total() == 2
        assert driver.dropped_inputs() == [1, 3]


def test_after_a_failure_what_was_committed_before_can_be_read_and_no_more_is_processed():
    builder = StreamsBuilder()
    builder.stream("in", value=int).map_values(lambda value: 10 // value, value=int).to("out")
    with CutDriver(builder.build()) as driver:
        driver.pipe_input("in", "a", 5)
        driver.commit()
        driver.pipe_input("in", "a", 0)
        with pytest.raises(ProcessingError, match="ZeroDivisionError"):
            driver.commit()
        driver.pipe_input("in", "a", 2)
        assert driver.read_output("out") == [Record("a", 2, 0)]


def test_topics_and_stores_that_are_not_there_are_refused():
    with CutDriver(counting().build()) as driver:
        with pytest.raises(ConfigError, match="the topology does not read a topic 'out'; it reads these topics: in"):
            driver.pipe_input("out", "a", 1)
        with pytest.raises(ConfigError, match="the topology does not write a topic 'in'; it writes these topics: out"):
            driver.read_output("in")
        with pytest.raises(ConfigError, match="there is no store 'count'; the stores are counts"):
            driver.store("count")


def test_of_a_topic_that_is_read_and_written_only_what_the_topology_wrote_comes_out():
    builder = StreamsBuilder()
    builder.stream("words", value=str).filter(lambda key, word: len(word) < 3).map_values(
        lambda word: word + "!", value=str
    ).to("words")
    with CutDriver(builder.build(), seed=3) as driver:
        for word in ["a", "long", "bc"]:
            driver.pipe_input("words", None, word)
        assert sorted(record.value for record in driver.read_output("words")) == ["a!", "a!!", "bc!"]


def test_drops_behind_a_topic_of_the_topologys_own_are_counted_but_not_told_apart():
    builder = StreamsBuilder()
    builder.stream("words", value=str).to("again")
    builder.stream("again", value=str).group_by_key().count("counts")
    with CutDriver(builder.build()) as driver:
        driver.pipe_input("words", None, "a")
        assert driver.dropped_inputs() == [-1]


def test_a_row_that_two_caches_change_in_one_commit_ends_as_its_last_change():
    with CutDriver(topology_of("table_join_by_foreign_key_behind_joins_and_groups")) as driver:
        for row in [("in", "a", 1), ("in", "b", 1), ("other", "b", 1)]:
            driver.pipe_input(*row)
        assert {record.key: record.value for record in driver.read_output("out")} == {"a": "1|2", "b": "2|0"}
