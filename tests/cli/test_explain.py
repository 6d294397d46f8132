"""``penstock explain`` says what suppressed tables hold back, and what it waits for (KIP-328)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock import Topology
from penstock.engine.local import LocalApplication
from penstock.log.file.log import FileLog
from penstock.log.produce import produce
from penstock.settings import Settings
from penstock.storage import LocalStorage

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


def program() -> Topology:
    scope: dict[str, Topology] = {}
    exec(PROGRAM, scope)
    return scope["topology"]


@pytest.fixture(autouse=True)
def app(folder: Path) -> None:
    """The program, and what it has committed after a few records."""
    (folder / "app.py").write_text(PROGRAM)
    log, storage = FileLog(folder / "log"), LocalStorage(folder / ".penstock" / "app" / "checkpoint")
    rows = [("a", "x", 1_000), ("a", "x", 2_000), ("b", "x", 12_000), ("a", "x", 13_000)]
    produce(rows, "in", value=str, log=log)
    application = LocalApplication(program(), "app", Settings(), log, storage)
    application.run_until()
    application.close()


def test_every_suppressed_table_is_explained(penstock):
    code, out, err = penstock("explain", "app.py")
    assert (code, err) == (0, [])
    assert out == [
        "final holds 3 windows back (141 B).",
        "  A window goes when stream time is 5,000 ms past its end.",
        "  task 0_0: 3 windows; stream time is 1970-01-01T00:00:13Z, the first goes 2,000 ms later at "
        "1970-01-01T00:00:15Z, the last at 1970-01-01T00:00:25Z",
        "  Stream time moves on with the records that come to the task, and only with them.",
        "calm holds 2 updates back (64 B).",
        "  An update goes 60,000 ms of stream time after the first of its key.",
        "  task 0_0: 2 updates; stream time is 1970-01-01T00:00:13Z, the first goes 59,000 ms later at "
        "1970-01-01T00:01:12Z, the last at 1970-01-01T00:01:13Z",
        "  Stream time moves on with the records that come to the task, and only with them.",
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


def test_a_name_that_is_not_there_is_refused_with_those_that_are(penstock):
    code, out, err = penstock("explain", "app.py", "finale")
    assert (code, out) == (2, [])
    assert err[-1] == (
        "Error: Invalid value for 'NODE': no suppressed table is named 'finale'; the suppressed tables are final, calm"
    )


def test_an_application_that_has_done_nothing_is_said_to_be_so(penstock):
    code, out, err = penstock("explain", "app.py", "--application-id", "other")
    assert (code, out) == (1, [])
    assert "there is no commit in" in " ".join(err)
