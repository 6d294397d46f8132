"""Sessions of a whole chunk of records: counts and distinct records, which are worked out at once, compared with an
aggregate of a user's functions, for which records that merge sessions are processed one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import EmitStrategy, Materialized, SessionWindows
from penstock.testing.cuts import CutDriver
from support.flows import pipe_rows, source

SHAPES = st.fixed_dictionaries(
    {
        "rows": st.lists(st.tuples(*map(st.sampled_from, ("aab", range(16), (0, 1, 1, 2, 9)))), max_size=50),
        "begin": st.sampled_from([0, 3, 1000]),
        "gap": st.sampled_from([0, 1, 3, 5]),
        "grace": st.sampled_from([0, 0, 1, 5, 20]),
        "extra_retention": st.sampled_from([0, 1, 5]),
        "cache": st.sampled_from([0, 1_000_000]),
        "in_memory": st.booleans(),
        "final": st.booleans(),
    }
)


@settings(max_examples=150, deadline=None)
@given(shape=SHAPES, chunk_records=st.sampled_from([5, 1000]))
def test_counts_merge_like_the_aggregates_of_records_one_by_one(shape: dict[str, Any], chunk_records: int):
    def counted(sessions: Any, materialized: Materialized) -> Any:
        return sessions.count(materialized=materialized)

    def added(sessions: Any, materialized: Materialized) -> Any:
        functions = (lambda: 0, lambda key, value, number: number + 1, lambda key, one, other: one + other)
        return sessions.aggregate(*functions, value=int, materialized=materialized)

    assert run(shape, chunk_records, counted) == run(shape, chunk_records, added)


@pytest.mark.kip("655-14")
@settings(max_examples=150, deadline=None)
@given(shape=SHAPES, chunk_records=st.sampled_from([5, 1000]))
def test_distinct_sessions_keep_the_value_that_aggregates_of_records_one_by_one_keep(
    shape: dict[str, Any], chunk_records: int
):
    def distinct(sessions: Any, materialized: Materialized) -> Any:
        return sessions.distinct(materialized=materialized)

    def first(sessions: Any, materialized: Materialized) -> Any:
        functions = (lambda: None, lambda key, value, kept: kept or value, lambda key, one, other: one or other)
        return sessions.aggregate(*functions, value=str, materialized=materialized)

    shape = {**shape, "final": False, "cache": 0}
    (_, *got), (_, *expected) = (run(shape, chunk_records, kept) for kept in (distinct, first))
    assert got == expected


def run(shape: dict[str, Any], chunk_records: int, aggregated: Any) -> tuple[Any, ...]:
    """All results, drops and stored sessions."""
    rows, now = [], shape["begin"]
    for number, (key, back, on) in enumerate(shape["rows"]):
        now += on
        rows.append((key, f"{number}", max(0, now - back)))
    gap, grace = shape["gap"], shape["grace"]
    kept = Materialized.as_("kept").with_retention(gap + grace + shape["extra_retention"])
    builder, stream = source(value=str)
    sessions = stream.group_by_key().windowed_by(SessionWindows.of_inactivity_gap_and_grace(gap, grace))
    if shape["final"]:
        sessions = sessions.emit_strategy(EmitStrategy.on_window_close())
    table = aggregated(sessions, kept.in_memory() if shape["in_memory"] else kept)
    table.filter(lambda key, value: value != 2).to_stream().to("out")  # which asks for the values before
    with CutDriver(builder.build(), statestore_cache_max_bytes=shape["cache"], chunk_records=chunk_records) as driver:
        pipe_rows(driver, rows)
        output = [record[:3] for record in driver.read_output("out")]
        return output, driver.dropped_inputs(), sorted(str(row[:2]) for row in driver.store("kept").all())


@pytest.mark.kip("94-04")
def test_counts_of_sessions_that_merge_are_never_processed_record_by_record(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr("penstock.ops.windows.sessions.processing._one_by_one")
    builder, stream = source(value=str)
    sessions = stream.group_by_key().windowed_by(SessionWindows.of_inactivity_gap_and_grace(20, 40))
    sessions.count("kept").to_stream().to("out")
    times = [1000 + 100 * number + within for number in range(40) for within in (0, 30, 15)]  # the last one is between
    rows = [("a", "", time) for time in times] + [("a", "", 1000)]
    with CutDriver(builder.build(), statestore_cache_max_bytes=0, chunk_records=50) as driver:
        pipe_rows(driver, rows)
        assert [record.value for record in driver.read_output("out")] == 40 * [1, 1, None, None, 3]
        assert driver.dropped_inputs() == [120]


@pytest.mark.kip("94-04")
def test_a_record_beside_a_session_that_has_just_gone_out_of_sight_begins_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr("penstock.ops.windows.sessions.processing._one_by_one")
    builder, stream = source(value=str)
    sessions = stream.group_by_key().windowed_by(SessionWindows.of_inactivity_gap_and_grace(3, 0))
    sessions.count("kept").to_stream().to("out")
    rows = [("a", "", 8), ("a", "", 9), ("a", "", 10)]
    rows += [("a", "", 9), ("b", "", 13), ("a", "", 10), ("a", "", 10), ("a", "", 12)]
    with CutDriver(builder.build(), statestore_cache_max_bytes=0, chunk_records=3) as driver:
        pipe_rows(driver, rows[:3])
        driver.read_output("out")
        pipe_rows(driver, rows[3:])
        output = [(*record.key, record.value) for record in driver.read_output("out")]
    assert output == [
        ("a", 8, 10, None),
        ("a", 8, 10, 4),
        ("b", 13, 13, 1),
        ("a", 10, 10, 1),  # stream time is 13: not too late, but the session that ends at 10 cannot be seen any more
        ("a", 10, 10, 1),
        ("a", 12, 12, 1),
    ]
