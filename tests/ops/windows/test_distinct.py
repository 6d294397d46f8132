"""Distinct: the first record of each new window, of KIP-655's text."""

import pytest

from penstock import EmitStrategy, Materialized, SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows
from penstock.errors import ConfigError, TopologyError
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
    with pytest.raises(TopologyError, match="remove emit_strategy"):
        windows.emit_strategy(EmitStrategy.on_window_close()).distinct()


# --- joins -----------------------------------------------------------------------------------------------------------

BOTH = [
    ("A", "k", "a1", 1),
    ("B", "k", "b2", 2),
    ("A", "k", "a3", 3),  # not the first of its window
    ("B", "k", "b4", 4),
    ("B", "k", None, 12),  # a first record like any other, but no value for the join
    ("A", "k", "a13", 13),
    ("A", "k", None, 25),
    ("B", "k", "b26", 26),
]


TENS = TimeWindows.of_size_and_grace(10, 20)


def windows_of(builder: StreamsBuilder, topic: str, windows=TENS):
    return builder.stream(topic, value=str).group_by_key().windowed_by(windows)


def joined_to(left, method: str, right) -> None:
    getattr(left, method)(right, lambda one, other: f"{one} {other}", value=str).to_stream().to("out")


FIRST, SECOND, THIRD = windowed("k", 0, 10), windowed("k", 10, 20), windowed("k", 20, 30)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("join", [(FIRST, "a1 b2", 2)]),
        ("left_join", [(FIRST, "a1 None", 1), (FIRST, "a1 b2", 2), (SECOND, "a13 None", 13)]),
        (
            "outer_join",
            [(FIRST, "a1 None", 1), (FIRST, "a1 b2", 2), (SECOND, "a13 None", 13), (THIRD, "None b26", 26)],
        ),
    ],
)
def test_first_records_of_windows_are_joined_if_they_have_values(run: Run, method, expected):
    builder = StreamsBuilder()
    joined_to(windows_of(builder, "A").distinct(), method, windows_of(builder, "B").distinct())
    assert run(builder, BOTH).output() == expected


def test_first_records_join_what_is_aggregated_in_the_same_windows(run: Run):
    builder = StreamsBuilder()
    joined_to(windows_of(builder, "A").distinct(), "left_join", windows_of(builder, "B").count())
    assert run(builder, BOTH).output() == [
        (FIRST, "a1 None", 1),
        (FIRST, "a1 1", 2),
        (FIRST, "a1 2", 4),
        (SECOND, "a13 1", 13),
    ]


def test_functions_do_not_meet_first_records_without_a_value(run: Run):
    builder = StreamsBuilder()
    upper = windows_of(builder, "B").distinct().map_values(str.upper, value=str)
    joined_to(windows_of(builder, "A").distinct(), "left_join", upper)
    assert run(builder, BOTH).output() == [
        (FIRST, "a1 None", 1),
        (FIRST, "a1 B2", 2),
        (SECOND, "a13 None", 13),
    ]


SESSIONS = SessionWindows.of_inactivity_gap_and_grace(5, 10)


@pytest.mark.parametrize("method", ["join", "left_join", "outer_join"])
def test_first_records_of_sessions_are_not_looked_into(method):
    builder = StreamsBuilder()
    joined_to(windows_of(builder, "A", SESSIONS).count(), method, windows_of(builder, "B", SESSIONS).distinct())
    with pytest.raises(
        TopologyError, match=r"looks up values in the first records of sessions.* with to_stream\(\)\.to_table"
    ):
        builder.build()


def test_first_records_of_sessions_can_be_joined_from_a_table_of_their_own(run: Run):
    builder = StreamsBuilder()
    first = windows_of(builder, "A", SESSIONS).distinct().to_stream().to_table()
    joined_to(first, "left_join", windows_of(builder, "B", SESSIONS).count())
    rows = [("B", "k", "b", 1), ("A", "k", "a", 1), ("A", "k", "more", 3), ("B", "k", None, 2)]
    first_session = windowed("k", 1, 1)
    assert run(builder, rows).output() == [(first_session, "a 1", 1), (first_session, "a None", 1)]


@pytest.mark.parametrize("other", [TimeWindows.of_size_and_grace(5, 20), SESSIONS])
def test_tables_of_other_windows_are_not_joined(other):
    builder = StreamsBuilder()
    with pytest.raises(TopologyError, match=r"the left side has keys of type windowed\[str, 10\], the right side of"):
        joined_to(windows_of(builder, "A").count(), "join", windows_of(builder, "B", other).count())


@pytest.mark.kip("655-14", "KS-18")
@pytest.mark.parametrize(
    "windows", [TimeWindows.of_size_with_no_grace(10), SessionWindows.of_inactivity_gap_with_no_grace(9)]
)
def test_distinct_takes_a_name_or_how_its_table_is_kept_or_both(windows):
    def built(*given, **named):
        builder, stream = source(value=str)
        stream.group_by_key().windowed_by(windows).distinct(*given, **named)
        return builder.build().describe()

    kept = Materialized.as_("firsts")
    assert "Processor: first (stores: [KSTREAM-DISTINCT-STATE-STORE-" in built("first")
    assert built("first") == built(named="first") == built(name="first")
    assert "Processor: KSTREAM-DISTINCT-0000000001 (stores: [firsts])" in built(kept)
    assert built(kept) == built(materialized=kept) == built(store="firsts")
    assert "Processor: first (stores: [firsts])" in built("first", kept)
    with pytest.raises(ConfigError, match="named= and name= are the same; got 'one' and 'other'"):
        built("one", name="other")
    with pytest.raises(ConfigError, match="got two Materialized"):
        built(kept, kept)
