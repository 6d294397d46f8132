"""The windows and sessions of one key over time, as text and as pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import (
    ConfigError,
    EmitStrategy,
    ProcessingError,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    produce,
)
from penstock.figures.metrics import LATE, total
from penstock.testing import TopologyTestDriver
from support.watched import SOLD, shop_topology

SECOND, MINUTE = 1_000, 60_000


def driver_of(windows: TimeWindows | SessionWindows | SlidingWindows, **settings: Any) -> TopologyTestDriver:
    builder = StreamsBuilder()
    builder.stream("in", value=str).group_by_key().windowed_by(windows).count("kept", name="step").to_stream().to("out")
    return TopologyTestDriver(builder.build(), **settings)


def test_hopping_windows_take_a_record_while_one_of_them_is_open():
    driver = driver_of(TimeWindows.of_size_and_grace("20 seconds", "5 seconds").advance_by("10 seconds"))
    driver.pipe_record_list("in", [("a", "x", 15_000), ("b", "far", 36_000), ("a", "y", 17_000), ("a", "z", 4_000)])
    [line] = driver.timeline("a")
    assert [(one.value, one.windows, one.closed) for one in line.records] == [
        ("x", ((0, 20_000), (10_000, 30_000)), ()),
        ("y", (), ((0, 20_000), (10_000, 30_000))),
        ("z", (), ((0, 20_000),)),
    ]
    assert line.stream_time == 36_000


def test_sessions_that_a_record_joins_become_one():
    driver = driver_of(SessionWindows.of_inactivity_gap_and_grace("10 seconds", "1 minute"))
    driver.pipe_record_list("in", [("a", "x", 0), ("a", "y", 18_000), ("a", "z", 9_000), ("b", "far", 120_000)])
    driver.pipe_input("in", "a", "late", 30_000)
    [line] = driver.timeline("a")
    assert [one.windows for one in line.records] == [((0, 0),), ((18_000, 18_000),), ((0, 18_000),), ()]
    assert line.spans == ((0, 18_000),)
    assert [one.value for one in line.late] == ["late"]


WINDOWS = {
    "tumbling": TimeWindows.of_size_and_grace(10, 5),
    "hopping": TimeWindows.of_size_and_grace(20, 5).advance_by(5),
    "sliding": SlidingWindows.of_time_difference_and_grace(10, 5),
    "wide sliding without grace": SlidingWindows.of_time_difference_with_no_grace(30),
    "sessions": SessionWindows.of_inactivity_gap_and_grace(5, 5),
    "sessions without grace": SessionWindows.of_inactivity_gap_with_no_grace(20),
}
ROWS = st.lists(
    st.tuples(st.sampled_from("aab"), st.sampled_from(["x", None]), st.integers(0, 120)), min_size=1, max_size=14
)


def changed_and_late(windows: Any, rows: list[tuple[str, str | None, int]]) -> list[tuple[Any, bool]]:
    """For each record of key a: the windows that a program's output shows it to have changed, and whether the program
    has counted it as late."""
    driver = driver_of(windows, statestore_cache_max_bytes=0)
    found = []
    for row in rows:
        late = total(driver.metrics(), LATE)
        driver.pipe_input("in", *row)
        output = driver.read_output("out")
        if row[0] == "a":
            own = {(one.key.start, one.key.end) for one in output if one.key.key == "a" and one.value is not None}
            found.append((tuple(sorted(own)), total(driver.metrics(), LATE) > late))
    return found


@pytest.mark.parametrize("kind", WINDOWS)
@given(rows=ROWS)
def test_a_timeline_says_what_the_program_did_with_each_record(kind: str, rows: list[tuple[str, str | None, int]]):
    driver = driver_of(WINDOWS[kind])
    driver.pipe_record_list("in", rows)
    [line] = driver.timeline("a")
    assert [(one.windows, bool(one.closed)) for one in line.records] == changed_and_late(WINDOWS[kind], rows)


@pytest.mark.parametrize("kind", ["tumbling", "hopping"])
@given(rows=ROWS)
def test_final_results_count_the_records_that_the_timeline_puts_into_their_windows(
    kind: str, rows: list[tuple[str, str | None, int]]
):
    builder = StreamsBuilder()
    windowed = builder.stream("in", value=str).group_by_key().windowed_by(WINDOWS[kind])
    windowed.emit_strategy(EmitStrategy.on_window_close()).count(name="step").to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_record_list("in", [*rows, ("b", "closes all", 1_000)])
    [line] = driver.timeline("a")
    final = {(one.key.start, one.key.end): one.value for one in driver.read_output("out") if one.key.key == "a"}
    taken = [one for one in line.records if one.windows]
    assert final == {span: sum(span in one.windows for one in taken) for span in line.spans}


def test_each_stream_of_a_cogroup_is_late_by_its_own_time():
    builder = StreamsBuilder()
    clicks, views = (builder.stream(topic, value=str).group_by_key() for topic in ("clicks", "views"))
    grouped = clicks.cogroup(lambda key, value, count: count + 1).cogroup(views, lambda key, value, count: count + 10)
    windowed = grouped.windowed_by(TimeWindows.of_size_with_no_grace(10))
    windowed.aggregate(lambda: 0, value=int, name="step").to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    for topic, time in [("clicks", 25), ("views", 5), ("clicks", 6), ("views", 12), ("views", 7)]:
        driver.pipe_input(topic, "a", topic, time)
    [line] = driver.timeline("a")
    assert [(one.value, one.timestamp, one.windows, one.is_late) for one in line.records] == [
        ("clicks", 25, ((20, 30),), False),
        ("views", 5, ((0, 10),), False),
        ("clicks", 6, (), True),
        ("views", 12, ((10, 20),), False),
        ("views", 7, (), True),
    ]
    assert [(one.key.start, one.value) for one in driver.read_output("out")] == [(20, 1), (0, 10), (10, 10)]


def test_distinct_shows_every_record_of_a_window_and_not_only_the_first():
    builder = StreamsBuilder()
    windowed = builder.stream("in", value=str).group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10))
    windowed.distinct(named="step").to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_record_list("in", [("a", "x", 1), ("a", "y", 2), ("b", "z", 20), ("a", "late", 3)])
    [line] = driver.timeline("a")
    assert [(one.value, one.windows, one.is_late) for one in line.records] == [
        ("x", ((0, 10),), False),
        ("y", ((0, 10),), False),
        ("late", (), True),
    ]


def test_each_stream_of_a_cogroup_joins_sessions_and_is_late_by_its_own_time():
    builder = StreamsBuilder()
    clicks, views = (builder.stream(topic, value=str).group_by_key() for topic in ("clicks", "views"))
    grouped = clicks.cogroup(lambda key, value, total: f"{total}{value}")
    grouped = grouped.cogroup(views, lambda key, value, total: f"{total}{value}")
    windowed = grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(10))
    table = windowed.aggregate(str, lambda key, one, other: one + other, value=str, name="step")
    table.to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    came = [("views", "v", 0), ("views", "w", 8), ("clicks", "c", 40), ("clicks", "d", 20), ("views", "x", 12)]
    for topic, value, time in came:
        driver.pipe_input(topic, "a", value, time)
    [line] = driver.timeline("a")
    assert [(one.value, one.stream_time, one.windows, one.closed) for one in line.records] == [
        ("v", 0, ((0, 0),), ()),
        ("w", 8, ((0, 8),), ()),
        ("c", 40, ((40, 40),), ()),
        ("d", 40, (), ((20, 20),)),
        ("x", 12, ((12, 12),), ()),  # the store's time is that of all streams, so it does not show (0, 8) any more
    ]
    assert line.spans == ((0, 8), (12, 12), (40, 40))
    assert [(one.key.start, one.key.end, one.value) for one in driver.read_output("out") if one.value] == [
        (0, 0, "v"),
        (0, 8, "vw"),
        (40, 40, "c"),
        (12, 12, "x"),
    ]


def test_a_final_session_whose_retention_ends_as_it_becomes_final_is_told():
    builder = StreamsBuilder()
    windowed = builder.stream("in", value=str).group_by_key()
    sessions = windowed.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(5))
    sessions.emit_strategy(EmitStrategy.on_window_close()).count(name="step").to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_record_list("in", [("b", "far", 9), ("a", "just in time", 4), ("a", "late", 3), ("b", "closes", 30)])
    [line] = driver.timeline("a")
    assert [(one.value, one.windows, one.closed) for one in line.records] == [
        ("just in time", ((4, 4),), ()),
        ("late", (), ((3, 3),)),
    ]
    assert [(one.key.start, one.key.end, one.value) for one in driver.read_output("out") if one.key.key == "a"] == [
        (4, 4, 1)
    ]


def test_a_deduplication_tells_which_records_it_left_out():
    builder = StreamsBuilder()
    builder.stream("in", str, str).deduplicate_by_key("10 seconds").to("out")
    topology = builder.build()
    driver = TopologyTestDriver(topology)
    driver.pipe_record_list("in", [("a", "x", 1_000), ("b", "far", 5_000), ("a", "y", 2_000), ("a", "z", 12_000)])
    [line] = driver.timeline("a")
    assert str(line).splitlines()[1:] == [
        "  1970-01-01T00:00:01Z  'x'  goes on",
        "  1970-01-01T00:00:02Z  'y'  left out: a duplicate; stream time was 1970-01-01T00:00:05Z",
        "  1970-01-01T00:00:12Z  'z'  goes on",
    ]
    assert [one.value for one in driver.read_output("out") if one.key == "a"] == ["x", "z"]
    assert line.to_svg().count("<circle") == 3


def test_records_that_were_processed_again_because_one_of_them_failed_are_told_once():
    builder = StreamsBuilder()
    numbers = builder.stream("in", value=str).map_values(int, value=int).group_by_key()
    numbers.windowed_by(TimeWindows.of_size_with_no_grace(10)).count(name="step").to_stream().to("out")
    driver = TopologyTestDriver(builder.build(), statestore_cache_max_bytes=0)
    with pytest.raises(ProcessingError):
        driver.pipe_record_list("in", [("a", "1", 1), ("a", "2", 2), ("a", "no number", 3)])
    [line] = driver.timeline("a")
    assert [one.value for one in line.records] == [1, 2]


def test_a_sliding_window_that_begins_behind_a_record_is_told_apart():
    driver = driver_of(SlidingWindows.of_time_difference_and_grace(10, 50))
    driver.pipe_record_list("in", [("a", "x", 25), ("a", "y", 20), ("a", None, 30)])
    [line] = driver.timeline("a")
    assert [line.told(one).replace("1970-01-01T00:00:00.", "") for one in line.records] == [
        "into 015Z – 025Z",
        "into 010Z – 020Z, 015Z – 025Z; begins 021Z – 031Z, which has later records",
        "left out: no window takes it",
    ]


def test_it_is_told_in_words_when_a_window_closed():
    driver = TopologyTestDriver(shop_topology())
    driver.pipe_record_list("orders", SOLD)
    [line] = driver.timeline("ann", "by-minute")
    assert str(line).splitlines() == [
        "by-minute, key 'ann': 3 records, 1 of them late; stream time is 1970-01-01T00:02:00Z",
        "  1970-01-01T00:00:01Z  5.0  into 1970-01-01T00:00:00Z – 1970-01-01T00:01:00Z",
        "  1970-01-01T00:02:00Z  1.0  into 1970-01-01T00:02:00Z – 1970-01-01T00:03:00Z",
        "  1970-01-01T00:00:01Z  9.0  late: stream time was 1970-01-01T00:02:00Z, and its window "
        "1970-01-01T00:00:00Z – 1970-01-01T00:01:00Z closed at 1970-01-01T00:01:10Z",
    ]


def test_the_picture_has_a_bar_a_window_and_a_dot_a_record():
    driver = TopologyTestDriver(shop_topology())
    driver.pipe_record_list("orders", SOLD)
    [line] = driver.timeline("ann")
    drawn = ElementTree.fromstring(line.to_svg())
    dots = list(drawn.iter("{http://www.w3.org/2000/svg}circle"))
    assert [dot.get("fill") for dot in dots] == ["#1a9c8d", "#1a9c8d", "#d3382c"]
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}g"))) == 2
    assert "<svg" in line._repr_html_()


def test_a_step_without_windows_is_refused():
    with pytest.raises(ConfigError, match="'final' is not a step that aggregates in windows; they are: by-minute"):
        TopologyTestDriver(shop_topology()).timeline("ann", "final")


SHOP = """
from penstock import StreamsBuilder, TimeWindows

builder = StreamsBuilder()
windows = TimeWindows.of_size_and_grace("1 minute", "10 seconds")
orders = builder.stream("orders", key=str, value=float).group_by_key()
orders.windowed_by(windows).count(name="by-minute").to_stream().to("out")
"""


def test_why_reads_the_topics_of_a_program_and_counts_the_stream_time_of_the_keys_own_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from click.testing import CliRunner

    from penstock.cli.main import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop_to_ask.py").write_text(SHOP)
    produce([("ann", 5.0, 1_000), ("gus", 1.0, 5 * MINUTE), ("ann", 2.0, 30_000)], "orders", str, float, partitions=2)
    ran = CliRunner().invoke(main, ["why", "shop_to_ask.py:builder", "by-minute", "ann", "--svg", "ann.svg"])
    assert ran.exit_code == 0, ran.output
    assert "by-minute, key 'ann': 2 records; stream time is 1970-01-01T00:00:30Z" in ran.output
    assert (tmp_path / "ann.svg").read_text().startswith("<svg")
    wrong = CliRunner().invoke(main, ["why", "shop_to_ask.py:builder", "nothing", "ann"])
    assert wrong.exit_code == 1
    assert "'nothing' is not a step that aggregates in windows; they are: by-minute" in wrong.output


def test_why_as_json_has_the_place_of_each_record_and_reads_the_newest_ones_where_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from click.testing import CliRunner

    from penstock.cli.main import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop_as_json.py").write_text(SHOP)
    produce([("ann", 5.0, 1_000), ("ann", 2.0, 5 * MINUTE), ("ann", 3.0, 30_000)], "orders", str, float)
    asked = ["why", "shop_as_json.py:builder", "by-minute", "ann", "--newest", "--limit", "2", "--json"]
    ran = CliRunner().invoke(main, asked)
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    assert (found["read"], found["present"], found["key"], found["stream_time"]) == (2, 3, "ann", 5 * MINUTE)
    rows = [(one["topic"], one["partition"], one["offset"], one["value"], one["late"]) for one in found["records"]]
    assert rows == [("orders", 0, 1, 2.0, False), ("orders", 0, 2, 3.0, True)]
    told = CliRunner().invoke(main, asked[:-1])
    assert "Only the newest 2 records were read, so the oldest windows may lack records." in told.output


SHOP_WITH_RETURNS = SHOP + 'builder.stream("returns", key=str, value=float).to("counted")\n'


def test_why_gives_each_topic_as_many_partitions_as_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from click.testing import CliRunner

    from penstock.cli.main import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop_with_returns.py").write_text(SHOP_WITH_RETURNS)
    produce([("gus", 5.0, 1_000)], "returns", str, float, partitions=1)
    produce([("ann", 5.0, 1_000), ("gus", 1.0, 5 * MINUTE), ("ann", 2.0, 30_000)], "orders", str, float, partitions=3)
    ran = CliRunner().invoke(main, ["why", "shop_with_returns.py:builder", "by-minute", "ann"])
    assert ran.exit_code == 0, ran.output
    [head] = [line for line in ran.output.splitlines() if line.startswith("by-minute")]
    assert head == "by-minute, key 'ann': 2 records; stream time is 1970-01-01T00:00:30Z"
