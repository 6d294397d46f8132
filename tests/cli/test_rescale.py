"""``penstock rescale``: what it would do, and that it does it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Penstock
from penstock.cli.program import load_program
from penstock.engine.local import LocalApplication
from penstock.engine.operate.lock import ApplicationLock
from penstock.engine.shared.program import ProgramFile
from penstock.log.file.log import FileLog
from penstock.log.produce import produce
from penstock.settings import Settings
from penstock.storage.base import LocalStorage

pytestmark = pytest.mark.kip("KS-12")

PROGRAM = """
from penstock import StreamsBuilder

builder = StreamsBuilder()
builder.stream("flights", key=str, value=str).group_by_key().count("counts").to_stream().to("totals")
topology = builder.build()
"""


@pytest.fixture(autouse=True)
def app(folder: Path, penstock: Penstock) -> None:
    (folder / "rescaled_flights.py").write_text(PROGRAM)
    log = FileLog(folder / ".penstock" / "log")
    produce([("JFK", "UA", 0), ("LAX", "UA", 1), ("ORD", "UA", 2)], "flights", str, str, log)
    state = folder / ".penstock" / "app"
    settings = Settings.load(state_dir=state)
    program = ProgramFile(folder / "rescaled_flights.py", "topology", False)
    topology = load_program(str(folder / "rescaled_flights.py"))
    application = LocalApplication(topology, "app", settings, log, LocalStorage(state / "checkpoint"), program=program)
    application.run_until()
    application.close()
    penstock("topics", "rm", "flights", "--yes")
    penstock("topics", "create", "flights", "--partitions", "4", "--key", "str", "--value", "str")


def test_it_tells_what_it_would_do_and_does_it_when_asked(penstock: Penstock):
    told = penstock("rescale", "app", "--partitions", "4")
    assert told.out == [
        "Rescale of app, as commit 2:",
        "topic    partitions before  now  is read on",
        "flights                  1    4  from its first record",
        "  sub-topologies with other tasks: 0 (1 to 4)",
        "  stores written again: counts",
    ]
    assert told.err == ["Nothing was changed; --execute does it."]
    done = penstock("rescale", "app", "--partitions", "4", "--execute")
    assert done.out == told.out
    assert done.err == ["Done, as commit 2, with 3 rows; the next start continues from there."]
    assert len(penstock("state", "scan", "app", "counts").out) == 4


def test_it_refuses_while_the_program_runs(penstock: Penstock, folder: Path):
    lock = ApplicationLock(folder / ".penstock" / "app", "app")
    refused = penstock("rescale", "app", "--partitions", "4", "--execute")
    lock.release()
    assert refused.code != 0
    assert "is running already on this machine" in " ".join(refused.err)


def test_a_topic_gets_more_partitions_and_the_application_goes_on(penstock: Penstock):
    assert penstock("topics", "repartition", "flights", "--partitions", "8").err == [
        "Topic flights has 8 partitions, and had 4."
    ]
    assert penstock("topics", "repartition", "totals", "--partitions", "2").err == [
        "Topic totals has 2 partitions, and had 1.",
        "Its 3 records stay in the partitions in which they are: whoever reads it from its beginning finds what a key "
        "had before and what it gets now in two partitions. An application that has read all of it goes on with "
        "`penstock rescale`",
    ]
    refused = penstock("topics", "repartition", "flights", "--partitions", "3")
    assert (refused.code, refused.err[0].startswith("Error: topic 'flights' has 8 partitions, and cannot have 3")) == (
        1,
        True,
    )
