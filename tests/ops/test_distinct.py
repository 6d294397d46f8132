"""Distinct: the first record of each new window, of KIP-655's text."""

import pytest

from penstock import EmitStrategy, Materialized, SessionWindows, SlidingWindows, TimeWindows
from penstock.errors import TopologyError
from support.flows import Run, source, windowed

TEXT = [4, 5, 6, 23, 22, 24, 34, 33, 32, 7, 22, 35]
"""The text's records, by their seconds."""


def distinct(windows, **given):
    builder, stream = source(value=str)
    stream.group_by_key().windowed_by(windows).distinct(**given).to_stream().to("out")
    return builder


@pytest.mark.kip("655-14")
@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        (TimeWindows.of_size_and_grace("10 s", "1 h"), [("4", 0, 10), ("23", 20, 30), ("34", 30, 40)]),
        (SessionWindows.of_inactivity_gap_and_grace("10 s", "1 h"), [("4", 4, 4), ("23", 23, 23)]),
        (SessionWindows.of_inactivity_gap_and_grace("9 s", "1 h"), [("4", 4, 4), ("23", 23, 23), ("34", 34, 34)]),
    ],
)
def test_the_first_record_of_each_new_window_comes_out_with_its_own_value_and_time(run: Run, windows, expected):
    rows = [("key", str(second), second * 1000) for second in TEXT]
    assert run(distinct(windows), rows).output() == [
        (windowed("key", start * 1000, end * 1000), value, int(value) * 1000) for value, start, end in expected
    ]


@pytest.mark.kip("655-14")
@pytest.mark.parametrize(
    ("windows", "stored"),
    [
        (TimeWindows.of_size_with_no_grace(10), [(windowed("a", 0, 10), None, 3), (windowed("b", 0, 10), "y", 4)]),
        (SessionWindows.of_inactivity_gap_with_no_grace(9), [(windowed("a", 3, 5), None), (windowed("b", 4, 4), "y")]),
    ],
)
def test_null_is_a_value_like_any_other_and_a_null_key_is_dropped(run: Run, windows, stored):
    rows = [("a", None, 3), (None, "x", 3), ("b", "y", 4), ("a", "z", 5)]
    ran = run(distinct(windows, materialized=Materialized.as_("first")), rows)
    assert [(key.key, value) for key, value, _ in ran.output()] == [("a", None), ("b", "y")]
    assert ran.store("first") == stored
    assert ran.dropped() == {("KSTREAM-DISTINCT-0000000001", "null-key"): 1}


def test_a_late_record_of_a_closed_window_is_dropped(run: Run):
    ran = run(distinct(TimeWindows.of_size_with_no_grace(10)), [("a", "x", 12), ("a", "y", 9)])
    assert ran.output() == [(windowed("a", 10, 20), "x", 12)]
    assert ran.dropped() == {("KSTREAM-DISTINCT-0000000002", "expired-window"): 1}


@pytest.mark.kip("655-15")
@pytest.mark.parametrize(
    ("windows", "kind"),
    [
        (TimeWindows.of_size_with_no_grace(10).advance_by(5), "hopping"),
        (SlidingWindows.of_time_difference_with_no_grace(10), "sliding"),
    ],
)
def test_windows_that_overlap_are_refused_with_the_reason(windows, kind):
    with pytest.raises(TopologyError, match=f"{kind} windows overlap, so a record would be multiplied"):
        distinct(windows)


def test_distinct_has_no_final_results():
    _, stream = source(value=str)
    windows = stream.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10))
    with pytest.raises(TopologyError, match="take emit_strategy"):
        windows.emit_strategy(EmitStrategy.on_window_close()).distinct()
