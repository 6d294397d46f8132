"""The windows and sessions of one key over time, as text and as pictures."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from penstock import ConfigError, SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows, produce
from penstock.metrics import LATE, total
from penstock.testing import TopologyTestDriver
from support.watched import SOLD, shop_topology

SECOND, MINUTE = 1_000, 60_000


def driver_of(windows: TimeWindows | SessionWindows | SlidingWindows) -> TopologyTestDriver:
    builder = StreamsBuilder()
    builder.stream("in", value=str).group_by_key().windowed_by(windows).count("kept", name="step").to_stream().to("out")
    return TopologyTestDriver(builder.build())


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


@pytest.mark.parametrize(
    "windows",
    [
        TimeWindows.of_size_and_grace("20 seconds", "5 seconds").advance_by("10 seconds"),
        TimeWindows.of_size_with_no_grace("7 seconds"),
        SessionWindows.of_inactivity_gap_and_grace("3 seconds", "4 seconds"),
        SlidingWindows.of_time_difference_and_grace("5 seconds", "3 seconds"),
    ],
    ids=["hopping", "tumbling", "sessions", "sliding"],
)
def test_what_is_said_to_be_late_is_what_the_step_has_dropped(windows):
    driver = driver_of(windows)
    for number in range(400):  # forwards with steps back, of all lengths around the limits
        time = 40_000 + number * 500 - (number * 7919 % 23) * 1_000
        before = total(driver.metrics(), LATE)
        driver.pipe_input("in", "abc"[number % 3], str(number), time)
        dropped = total(driver.metrics(), LATE) > before
        [line] = driver.timeline("abc"[number % 3]) if number % 10 == 0 or dropped else [None]
        if line is not None:
            assert bool(line.records[-1].closed) == dropped, (number, str(line).splitlines()[-1])


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
    with pytest.raises(ConfigError, match="no step named 'final' aggregates in windows; these have: by-minute"):
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
    assert "no step named 'nothing' aggregates in windows; these have: by-minute" in wrong.output
