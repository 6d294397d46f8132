"""The rules of sliding windows one by one, called directly: what records of one key put into which windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Materialized, SlidingWindows
from penstock.columns.compiled import table
from penstock.ops.windows.sliding.processing import records_of, windows_of
from penstock.ops.windows.sliding.rules import BEGIN, COPY, GO_ON, PUT, UPDATE, Rules, process
from penstock.state.columns.packed import Entries
from penstock.state.kinds.sliding import SlidingStore
from penstock.testing.cuts import CutDriver
from support.flows import source, windowed
from support.sliding_reference import Reference

DIFFERENCE = 4
NAMES = {UPDATE: "update", BEGIN: "begin", GO_ON: "go on", COPY: "copy"}


def of_last(*times: int, grace: int = 1000, retention: int = 1000) -> list[tuple[str, int, int, int]]:
    """What the last of some records puts, in windows of 4 ms: how, the window's start, its timestamp and its count."""
    return of_record(len(times) - 1, *times, grace=grace, retention=retention)


def of_record(record: int, *times: int, grace: int = 1000, retention: int = 1000) -> list[tuple[str, int, int, int]]:
    puts, _ = processed(times, grace, retention)
    return [
        (NAMES[put["kind"]], int(put["start"]), int(put["latest"]), int(put["count"]))
        for put in puts
        if put["record"] == record
    ]


def processed(times: Any, grace: int, retention: int) -> tuple[Any, Any]:
    """All puts, and how many windows of each record were closed."""
    time, none = np.array(times), np.zeros(0, np.int64)
    records = records_of(np.zeros(len(time), np.int64), time, np.maximum.accumulate(time) - grace)
    windows = windows_of(Entries(none, none, none, pa.array([], pa.binary())), 1, records, none, -1)
    puts = table(1000, PUT)
    done, used = process(Rules(DIFFERENCE, retention, False), records, windows, puts, 0, 0, True)
    assert done == len(time)
    return puts[:used], records["closed"]


def test_a_first_record_begins_the_window_that_ends_at_it():
    assert of_last(100) == [("begin", 96, 100, 1)]


def test_rule_1_a_window_that_begins_right_behind_a_record_is_its_right_one_and_does_not_get_it():
    assert of_last(105, 100) == [("begin", 96, 100, 1)]  # the one from 101 on ends at the first record


def test_rule_2_a_record_is_added_to_all_windows_around_it_the_last_one_first():
    assert of_last(100, 103, 101, 102)[:3] == [("update", 102, 103, 2), ("update", 101, 103, 3), ("update", 99, 103, 4)]


def test_rule_3_a_left_window_that_is_there_gets_the_record_and_knows_the_one_before():
    assert of_last(100, 101, 105) == [
        ("update", 101, 105, 2),  # right of the first record, and left of this one
        ("begin", 102, 105, 1),  # right of the second one
    ]


def test_rule_4_a_second_record_of_a_time_makes_nothing():
    assert of_last(102, 102) == [("update", 98, 102, 2)]  # it is not behind the first one, so it is in no right window
    assert of_last(100, 102, 102) == [("update", 101, 102, 2), ("update", 98, 102, 3)]
    assert of_last(104, 100, 100) == [("update", 100, 104, 3), ("update", 96, 100, 2)]


def test_rule_5_the_window_before_the_left_one_knows_the_record_before():
    assert of_last(100, 102) == [("begin", 101, 102, 1), ("go on", 98, 102, 2)]


def test_rule_6_the_right_window_of_the_record_before_begins_with_the_first_record_that_falls_into_it():
    assert of_last(100, 105)[0] == ("begin", 101, 105, 1)
    assert of_last(100, 106) == [("begin", 102, 106, 1)]  # which is its left one
    assert of_last(100, 104, 102)[-2:] == [("go on", 98, 102, 2), ("copy", 103, 104, 1)]  # 100 has one already


def test_rule_7_a_left_window_goes_on_from_the_one_before_only_if_that_has_a_record_of_it():
    assert of_last(100, 104)[-1] == ("go on", 100, 104, 2)
    assert of_last(100, 106) == [("begin", 102, 106, 1)]


def test_rules_6_and_7_put_one_window_twice_where_a_right_one_ends_at_the_record():
    assert of_last(100, 101, 106) == [("begin", 102, 106, 1), ("begin", 102, 106, 1)]


def test_rule_8_a_right_window_has_what_a_window_around_the_record_had_before_it():
    assert of_last(102, 100) == [("update", 98, 102, 2), ("begin", 96, 100, 1), ("copy", 101, 102, 1)]
    assert of_last(100, 103, 103)[-1] == ("update", 99, 103, 3)  # none is later


def test_rules_2_and_7_put_nothing_into_windows_that_have_closed_and_rule_8_does():
    puts, closed = processed([100, 120, 117, 113], grace=0, retention=1000)
    assert [(put["record"], put["start"], put["count"]) for put in puts] == [
        (0, 96, 1),
        (1, 116, 1),
        (2, 116, 2),
        (2, 118, 1),  # its right one; the left one ended at 117, before 120
    ]
    assert closed.tolist() == [0, 0, 1, 1]


def test_windows_that_the_store_does_not_show_any_more_are_not_found():
    assert of_last(100, 120, 101, grace=1000, retention=10) == [("begin", 97, 101, 1)]  # 100 is out of sight
    assert of_last(100, 120, 101, grace=1000, retention=20)[-1] == ("begin", 97, 101, 1)  # just so: 116 less 20 is 96
    assert of_last(100, 120, 101, grace=1000, retention=21)[-1] == ("go on", 97, 101, 2)


def test_rule_9_early_records_share_the_window_from_0_on_which_knows_the_record_before():
    assert of_last(1, 3) == [("begin", 2, 3, 1), ("update", 0, 3, 2)]
    assert of_last(3, 3) == [("update", 0, 3, 2)]


def test_rule_10_an_early_record_is_added_to_windows_around_it_the_first_one_first():
    assert of_last(0, 1, 3, 2) == [("update", 1, 3, 3), ("update", 2, 3, 2), ("copy", 3, 3, 1), ("update", 0, 3, 4)]


def test_rule_11_the_right_window_of_an_early_record_has_what_all_share_if_all_are_later():
    assert of_last(3, 1) == [("copy", 2, 3, 1), ("update", 0, 3, 2)]
    assert of_last(3, 1, 1) == [("update", 0, 3, 3)]


def test_rule_12_the_shared_window_comes_last():
    assert of_last(2) == [("begin", 0, 2, 1)]
    assert of_last(0, 2)[-1] == ("update", 0, 2, 2)


ROWS = st.lists(
    st.tuples(st.sampled_from("aab"), st.sampled_from("xyz"), st.integers(0, 12), st.integers(0, 4)), max_size=40
)


@settings(max_examples=150, deadline=None)
@given(
    rows=ROWS,
    begin=st.sampled_from([0, 3, 1000]),
    difference=st.sampled_from([0, 1, 3, 5, 10]),
    grace=st.sampled_from([0, 0, 1, 5]),
    extra_retention=st.sampled_from([0, 1, 5]),
    in_memory=st.booleans(),
    chunk_records=st.sampled_from([2, 7, 1000]),
)
def test_all_rules_together_give_what_the_text_gives_record_by_record(
    rows: list[tuple[str, str, int, int]],
    begin: int,
    difference: int,
    grace: int,
    extra_retention: int,
    in_memory: bool,
    chunk_records: int,
):
    retention, now = 2 * difference + grace + extra_retention, begin
    store = SlidingStore("kept", retention, in_memory)
    expected = Reference(
        *(difference, grace, retention, lambda text, value: (text or "") + value),
        lambda stream_time: int(store.refused_before(np.array([stream_time]))[0]),
    )
    builder, stream = source(value=str)
    windows = SlidingWindows.of_time_difference_and_grace(difference, grace)
    texts = stream.group_by_key().windowed_by(windows)

    def kept(name: str) -> Materialized:
        materialized = Materialized.as_(name).with_retention(retention)
        return materialized.in_memory() if in_memory else materialized

    texts.reduce(lambda text, value: text + value, materialized=kept("texts")).to_stream().to("out")
    texts.count(materialized=kept("counts")).to_stream().to("counts")
    with CutDriver(builder.build(), statestore_cache_max_bytes=0, chunk_records=chunk_records) as driver:
        for key, value, back, on in rows:
            now += on
            time = max(0, now - back)
            expected.process(key, value, time)
            driver.pipe_input("in", key, value, time)
        assert [record[:3] for record in driver.read_output("out")] == [
            (windowed(key, start, start + difference), text, time) for key, start, text, time in expected.updates
        ]
        assert [record[:3] for record in driver.read_output("counts")] == [
            (windowed(key, start, start + difference), len(text), time) for key, start, text, time in expected.updates
        ]
