"""``penstock explain``: what is held back and what was lost (KIP-328), and what deduplications remember (KIP-655)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock import Topology
from penstock.engine.local import LocalApplication
from penstock.log.file.log import FileLog
from penstock.log.produce import produce
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from penstock.testing import TopologyTestDriver

pytestmark = pytest.mark.slow

PROGRAM = """
from penstock import BufferConfig, StreamsBuilder, Suppressed, TimeWindows

builder = StreamsBuilder()
events = builder.stream("in", value=str)
counts = events.group_by_key().windowed_by(TimeWindows.of_size_and_grace("10 s", "5 s")).count()
counts.suppress(Suppressed.until_window_closes().with_name("final")).to_stream().to("out")
limit = Suppressed.until_time_limit("1 min", BufferConfig.max_records(100)).with_name("calm")
events.to_table().suppress(limit).to_stream().to("calm-out")
topology = builder.build()
"""

DEDUPLICATIONS = """
from penstock import Deduplicated, StreamsBuilder

builder = StreamsBuilder()
events = builder.stream("in", value=str)
once = events.deduplicate_by_key("5 s", Deduplicated.as_("once"), dropped_to="again")
once.to("out")
events.deduplicate(lambda key, value: int(value), "1 min", Deduplicated.as_("by-number")).to("numbers")
topology = builder.build()
"""


PLAIN = """
from penstock import StreamsBuilder

builder = StreamsBuilder()
builder.stream("in", value=str).to("out")
topology = builder.build()
"""


def program(text: str) -> Topology:
    scope: dict[str, Topology] = {}
    exec(text, scope)
    return scope["topology"]


def commit(folder: Path, name: str, text: str, rows: list[tuple[str | None, str, int]]) -> None:
    """Write a program, and run it over a few records."""
    (folder / f"{name}.py").write_text(text)
    log, storage = FileLog(folder / "log" / name), LocalStorage(folder / ".penstock" / name / "checkpoint")
    produce(rows, "in", value=str, log=log)
    application = LocalApplication(program(text), name, Settings(on_error="skip"), log, storage)
    application.run_until()
    application.close()


@pytest.fixture(autouse=True)
def app(folder: Path) -> None:
    """The program, and what it has committed after a few records."""
    rows = [("a", "x", 1_000), ("a", "x", 2_000), ("b", "x", 12_000), ("a", "x", 13_000)]
    commit(folder, "app", PROGRAM, rows)


def test_every_suppressed_table_is_explained(penstock):
    code, out, err = penstock("explain", "app.py")
    assert (code, err) == (0, [])
    assert out == [
        "final holds 3 windows back (141 B).",
        "  A window is sent when stream time is 5,000 ms past its end.",
        "  task 0_0: 3 windows; stream time is 1970-01-01T00:00:13Z, the first is due 2,000 ms later, at "
        "1970-01-01T00:00:15Z, the last at 1970-01-01T00:00:25Z",
        "  Only the records of a task move its stream time.",
        "calm holds 2 updates back (64 B).",
        "  An update is sent 60,000 ms of stream time after the first of its key.",
        "  task 0_0: 2 updates; stream time is 1970-01-01T00:00:13Z, the first is due 59,000 ms later, at "
        "1970-01-01T00:01:12Z, the last at 1970-01-01T00:01:13Z",
        "  Only the records of a task move its stream time.",
    ]


def test_one_of_them_as_json(penstock):
    code, out, err = penstock("explain", "app.py", "final", "--json")
    assert (code, err) == (0, [])
    assert [json.loads(line) for line in out] == [
        {
            "node": "final",
            "task": "0_0",
            "records": 3,
            "bytes": 141,
            "stream_time": 13_000,
            "first_goes_at": 15_000,
            "last_goes_at": 25_000,
        }
    ]


@pytest.mark.kip("655-16")
def test_a_deduplication_is_explained_with_the_ids_it_remembers_and_what_it_has_dropped(penstock, folder):
    rows = [
        ("a", "1", 1_000),
        ("b", "2", 2_000),
        ("a", "3", 3_000),  # a is a duplicate
        ("c", "2", 6_500),  # a goes; 2 is a duplicate
        (None, "none", 7_000),  # no number
    ]
    commit(folder, "dedup", DEDUPLICATIONS, rows)
    code, out, err = penstock("explain", "dedup.py")
    assert (code, err) == (0, [])
    assert out == [
        "once remembers 2 ids.",
        "  An id is remembered until stream time is more than 5,000 ms past its record.",
        "  task 0_0: 2 ids; stream time is 1970-01-01T00:00:07Z, the oldest is of 1970-01-01T00:00:02Z, the newest of "
        "1970-01-01T00:00:06.500Z",
        "    did not go on: 1 duplicate",
        "  Duplicates can be looked at in the topic again.",
        "by-number remembers 3 ids.",
        "  An id is remembered until stream time is more than 60,000 ms past its record.",
        "  task 1_0: 3 ids; stream time is 1970-01-01T00:00:06.500Z, the oldest is of 1970-01-01T00:00:01Z, "
        "the newest of 1970-01-01T00:00:03Z",
        "    did not go on: 1 duplicate",
    ]


@pytest.mark.kip("655-16")
def test_a_deduplication_as_json_and_a_selector_that_failed(penstock, folder):
    text = DEDUPLICATIONS.replace("events.deduplicate(", "events.deduplicate_by_key_value(")
    commit(folder, "local", text, [("a", "1", 1_000), ("a", "1", 2_000), ("a", "none", 3_000)])
    code, out, err = penstock("explain", "local.py", "by-number", "--json")
    assert (code, err) == (0, [])
    assert [json.loads(line) for line in out] == [
        {
            "node": "by-number",
            "task": "0_0",
            "ids": 1,
            "stream_time": 2_000,
            "oldest": 1_000,
            "newest": 1_000,
            "dropped": {"duplicate": 1, "skipped: ValueError": 1},
        }
    ]


def test_a_program_without_such_steps_is_said_to_have_none(penstock, folder):
    commit(folder, "plain", PLAIN, [("a", "x", 1)])
    assert penstock("explain", "plain.py").out == ["No step of this program holds records back or remembers them."]
    assert penstock("explain", "plain.py", "--json").out == []


def test_a_name_that_is_not_there_is_refused_with_those_that_are(penstock):
    code, out, err = penstock("explain", "app.py", "finale")
    assert (code, out) == (2, [])
    assert err[-1] == (
        "Error: Invalid value for 'NODE': no suppressed table and no deduplication is named 'finale'; "
        "there are final, calm"
    )


def test_an_application_that_has_done_nothing_is_said_to_be_so(penstock):
    code, out, err = penstock("explain", "app.py", "--application-id", "other")
    assert (code, out) == (1, [])
    assert "there is no commit in" in " ".join(err)


# --- windows that emit on close --------------------------------------------------------------------------------------

CLOSING = """
from penstock import EmitStrategy, SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows

builder = StreamsBuilder()
events = builder.stream("in", value=str).group_by_key()
for name, windows in {
    "tumbling": TimeWindows.of_size_and_grace("10 s", "5 s"),
    "sliding": SlidingWindows.of_time_difference_and_grace("10 s", "5 s"),
    "sessions": SessionWindows.of_inactivity_gap_and_grace("2 s", "5 s"),
}.items():
    closed = events.windowed_by(windows).emit_strategy(EmitStrategy.on_window_close())
    closed.count(name=name).to_stream().to(f"{name}-out")
topology = builder.build()
"""
CLOSING_ROWS = [("a", "x", 1_000), ("a", "x", 2_000), ("b", "x", 12_000), ("a", "x", 15_000), (None, "x", 15_000)]


def test_windows_that_emit_on_close_are_explained_like_a_suppression(penstock, folder):
    commit(folder, "closing", CLOSING, CLOSING_ROWS)
    code, out, err = penstock("explain", "closing.py", "tumbling")
    assert (code, err) == (0, [])
    assert out == [
        "tumbling holds 2 windows back.",
        "  A window is sent when stream time is 5,000 ms past its end.",
        "  task 0_0: 2 windows; stream time is 1970-01-01T00:00:15Z, the first is due 10,000 ms later, at "
        "1970-01-01T00:00:25Z, the last at 1970-01-01T00:00:25Z",
        "  Only the records of a task move its stream time.",
    ]


@pytest.mark.parametrize(
    ("node", "held", "first", "last"),
    [
        ("tumbling", 2, 25_000, 25_000),
        ("sliding", 4, 15_001, 20_001),  # of a to 10 s, 11.001 s and 15 s, of b to 12 s; ends belong to windows
        ("sessions", 2, 19_001, 22_001),  # of b at 12 s, of a at 15 s, each with its gap
    ],
)
def test_what_they_hold_goes_at_the_time_that_is_said(penstock, folder, node, held, first, last):
    """A record at that time makes the first go, and one a millisecond before does not."""
    commit(folder, "closing", CLOSING, CLOSING_ROWS)
    [found] = map(json.loads, penstock("explain", "closing.py", node, "--json").out)
    assert (found["records"], found["bytes"], found["stream_time"]) == (held, None, 15_000)
    assert (found["first_goes_at"], found["last_goes_at"]) == (first, last)
    for time, count in [(first - 1, 0), (first, 1)]:
        driver = TopologyTestDriver(program(CLOSING), emit_interval_ms=0)
        for row in CLOSING_ROWS:
            driver.pipe_input("in", *row)
        driver.read_output(f"{node}-out")
        driver.pipe_input("in", "z", "x", time)
        assert min(len(driver.read_output(f"{node}-out")), 1) == count


# --- losses ----------------------------------------------------------------------------------------------------------

LOSING = """
from penstock import StreamsBuilder, TimeWindows

builder = StreamsBuilder()
numbers = builder.stream("in", value=str).map_values(int, value=int, name="number")
windows = TimeWindows.of_size_and_grace("10 s", "5 s")
numbers.group_by_key().windowed_by(windows).count(name="tens").to_stream().to("out")
topology = builder.build()
"""
LOSING_ROWS = [
    ("a", "1", 1_000),
    ("a", "1", 16_000),
    ("a", "1", 2_000),
    ("b", "1", 3_000),
    ("a", "x", 0),
    (None, "1", 0),
]


@pytest.mark.kip("328-10", "328-13")
def test_the_losses_are_those_of_each_step_with_the_reason_and_what_helps(penstock, folder):
    commit(folder, "losing", LOSING, LOSING_ROWS)
    code, out, err = penstock("explain", "losing.py", "--losses")
    assert (code, err) == (0, [])
    assert out == [
        "2 records dropped as late by tens (expired-window), counted by late-record-drop-total: their windows had "
        "closed: stream time was past the end plus the grace period; a longer grace period accepts later records.",
        "  task 0_0: 2",
        "1 record dropped by tens (null-key), counted by dropped-records-total: they have no key; give them one with "
        "select_key or map, if they are to count.",
        "  task 0_0: 1",
        "1 record skipped by number (ValueError), counted by skipped-records-total: the step raised ValueError, or the "
        "record did not decode; fix the function or the records.",
        "  task 0_0: 1",
    ]
    assert list(map(json.loads, penstock("explain", "losing.py", "number", "--losses", "--json").out)) == [
        {"task": "0_0", "metric": "skipped-records-total", "node": "number", "reason": "ValueError", "records": 1}
    ]


def test_no_losses_are_said_to_be_none(penstock):
    assert penstock("explain", "app.py", "--losses").out == ["No record was left out."]
