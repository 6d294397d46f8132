"""The rules of sessions one by one, called directly: what records of one key find and put."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Materialized, SessionWindows
from penstock.columns.compiled import table
from penstock.ops.windows.sessions.processing import sessions_of
from penstock.ops.windows.sessions.rules import FOUND, PUT, RECORD, process
from penstock.state.columns.packed import Entries
from penstock.state.kinds.session import SessionStore
from penstock.testing.cuts import CutDriver
from support.flows import source
from support.session_reference import Reference

GAP = 4
Spans = list[tuple[int, int, int]]


def processed(*times: int, closed_at: int = 0, visible_from: int = 0, stored_from: int = 0) -> tuple[Any, ...]:
    """What the last of some records finds and puts, each as start, end and count; and the sessions in the end.

    The limits are those of the last record.
    """
    records = table(len(times), RECORD)
    records["time"] = times
    records[-1:]["closed_at"], records[-1:]["visible_from"] = closed_at, visible_from
    records[-1:]["stored_from"] = stored_from
    none = np.zeros(0, np.int64)
    nothing = Entries(none, none, none, pa.array([], pa.binary()))
    sessions = sessions_of(nothing, none, np.zeros(len(times), np.int64), 1)
    puts, found = table(len(times), PUT), table(len(times), FOUND)
    put, _ = process(records, sessions, puts, found, GAP, 0, 0, 0, True)
    is_last = puts[:put]["record"] == len(times) - 1
    went = [spans_of(found[one["found"] : one["stop"]]) for one in puts[:put][is_last]]
    there = sessions.places[: int(sessions.keys["length"][0])]
    return (went[0] if went else []), spans_of(puts[:put][is_last]), spans_of(there)


def spans_of(rows: Any) -> Spans:
    return [(int(row["start"]), int(row["end"]), int(row["count"])) for row in rows]


def test_rule_1_a_record_meets_sessions_within_the_gap_to_both_sides_and_no_others():
    assert processed(2, 10, 6) == ([(2, 2, 1), (10, 10, 1)], [(2, 10, 3)], [(2, 10, 3)])
    assert processed(1, 11, 6) == ([], [(6, 6, 1)], [(1, 1, 1), (6, 6, 1), (11, 11, 1)])


def test_rule_1_a_session_out_of_sight_is_not_met():
    assert processed(2, 6, visible_from=3) == ([], [(6, 6, 1)], [(2, 2, 1), (6, 6, 1)])


def test_rule_2_the_merged_session_spans_all_of_them():
    assert processed(2, 4, 8, 11, 7) == ([(2, 11, 4)], [(2, 11, 5)], [(2, 11, 5)])
    assert processed(2, 12, 15, 7) == ([], [(7, 7, 1)], [(2, 2, 1), (7, 7, 1), (12, 15, 2)])


def test_rule_3_the_end_of_the_merged_session_says_whether_a_record_is_late():
    assert processed(2, closed_at=3) == ([], [], [])
    assert processed(6, 2, closed_at=6) == ([(6, 6, 1)], [(2, 6, 2)], [(2, 6, 2)])
    assert processed(6, 2, closed_at=7) == ([], [], [(6, 6, 1)])


def test_rule_4_the_sessions_that_were_met_go_and_those_around_them_stay():
    assert processed(1, 20, 8, 12, 40, 10)[2] == [(1, 1, 1), (8, 12, 3), (20, 20, 1), (40, 40, 1)]


def test_rule_5_the_store_keeps_no_session_that_is_too_old_for_it_and_the_ones_it_met_are_gone():
    assert processed(2, 4, stored_from=5) == ([(2, 2, 1)], [(2, 4, 2)], [])


def test_rule_6_a_session_out_of_sight_with_the_same_bounds_is_overwritten():
    assert processed(2, 2, visible_from=3) == ([], [(2, 2, 1)], [(2, 2, 1)])


@settings(max_examples=120, deadline=None)
@given(
    rows=st.lists(st.tuples(*map(st.sampled_from, ("aab", "xyz", range(16), (0, 1, 1, 2, 9)))), max_size=50),
    begin=st.sampled_from([0, 3, 1000]),
    gap=st.sampled_from([0, 1, 3, 5]),
    grace=st.sampled_from([0, 0, 1, 5, 20]),
    extra_retention=st.sampled_from([0, 1, 5]),
    in_memory=st.booleans(),
    chunk_records=st.sampled_from([3, 1000]),
)
def test_all_rules_together_give_what_the_text_gives_record_by_record(
    rows: list[Any], begin: int, gap: int, grace: int, extra_retention: int, in_memory: bool, chunk_records: int
):
    retention, now = gap + grace + extra_retention, begin
    store = SessionStore("kept", retention, in_memory)
    expected = Reference(
        *(gap, grace, retention, lambda value, found: "".join(found) + value),
        lambda stream_time: int(store.refused_before(np.array([stream_time]))[0]),
    )
    builder, stream = source(value=str)
    sessions = stream.group_by_key().windowed_by(SessionWindows.of_inactivity_gap_and_grace(gap, grace))

    def kept(name: str) -> Materialized:
        materialized = Materialized.as_(name).with_retention(retention)
        return materialized.in_memory() if in_memory else materialized

    functions = (lambda: "", lambda key, value, text: text + value, lambda key, one, other: one + other)
    sessions.aggregate(*functions, value=str, materialized=kept("texts")).to_stream().to("out")
    sessions.count(materialized=kept("counts")).to_stream().to("counts")
    with CutDriver(builder.build(), statestore_cache_max_bytes=0, chunk_records=chunk_records) as driver:
        for key, value, back, on in rows:
            now += on
            expected.process(key, value, max(0, now - back))
            driver.pipe_input("in", key, value, max(0, now - back))
        texts = [(*record.key, record.value) for record in driver.read_output("out")]
        counts = [(*record.key, record.value) for record in driver.read_output("counts")]
        drops = driver.dropped_inputs()
    assert texts == expected.updates
    assert counts == [(*bounds, None if text is None else len(text)) for *bounds, text in expected.updates]
    assert sorted(drops) == sorted(2 * [*expected.late, *expected.not_stored])
