"""``penstock reset``: what it would do, and that it does it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Penstock
from penstock import StreamsBuilder, cli, produce
from penstock.engine.local import LocalApplication
from penstock.engine.operate.lock import ApplicationLock
from penstock.engine.operate.reset import Target, Wanted
from penstock.engine.shared.children import SINKS, Child, ChildNotes
from penstock.errors import ConfigError
from penstock.log.file.log import FileLog
from penstock.settings import Settings
from penstock.storage.base import LocalStorage

pytestmark = pytest.mark.kip("KS-13")


@pytest.fixture(autouse=True)
def app(folder: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("flights", key=str, value=str).group_by_key().count("counts").to_stream().to("totals")
    log = FileLog(folder / ".penstock" / "log")
    produce([("JFK", "UA", 0), ("LAX", "UA", 1)], "flights", str, str, log)
    storage = LocalStorage(folder / ".penstock" / "app" / "checkpoint")
    application = LocalApplication(builder.build(), "app", Settings(), log, storage)
    application.run_until()
    application.close()


def test_it_tells_what_it_would_do_and_does_it_when_asked(penstock: Penstock):
    told = penstock("reset", "app", "--empty-outputs")
    assert told.out == [
        "Reset of app, as commit 2:",
        "topic    partition  processed up to  goes on at",
        "flights  0                        2           0",
        "  stores emptied: counts",
        "  records dropped that wait in repartition topics: none",
        "  outputs emptied: totals",
    ]
    assert told.err == ["Nothing was changed; --execute does it."]
    assert len(penstock("topics", "cat", "totals").out) == 2
    done = penstock("reset", "app", "--empty-outputs", "--execute")
    assert done.out == told.out
    assert done.err == ["Done, as commit 2; the next start continues from there."]
    assert penstock("topics", "cat", "totals").out == []
    assert penstock("state", "scan", "app", "counts").out == []


@pytest.mark.parametrize(
    ("options", "goes_on_at"),
    [
        (["--to-earliest"], "0"),
        (["--to-latest"], "2"),
        (["--to-datetime", "1970-01-01T00:00:00.001"], "1"),
        (["--to-datetime", "1"], "1"),
        (["--by-duration", "1 day"], "2"),
        (["--by-duration", "300000 days"], "0"),
        (["--to-offset", "1"], "1"),
        (["--shift-by", "-1"], "1"),
    ],
)
def test_each_option_says_where_to_begin(penstock: Penstock, options: list[str], goes_on_at: str):
    told = penstock("reset", "app", *options)
    assert told.out[2].split() == ["flights", "0", "2", goes_on_at]


def test_options_say_which_sources_and_what_is_kept(penstock: Penstock, monkeypatch: pytest.MonkeyPatch):
    wanted: list[Wanted] = []

    def told(storage: object, log: object, told: Wanted) -> None:
        wanted.append(told)
        raise ConfigError("nothing is done")

    monkeypatch.setattr(cli.reset, "Reset", told)
    penstock("reset", "app", "--topic", "flights", "--topic", "more", "--to-offset", "3")
    penstock("reset", "app", "--keep-state")
    penstock("reset", "app", "--keep-waiting", "--to-latest")
    assert wanted == [
        Wanted(Target("offset", 3), ("flights", "more")),
        Wanted(keep_state=True),
        Wanted(Target("latest"), keep_waiting=True),
    ]


def test_it_refuses_while_the_program_runs(penstock: Penstock, folder: Path):
    lock = ApplicationLock(folder / ".penstock" / "app", "app")
    refused = penstock("reset", "app", "--execute")
    lock.release()
    assert refused.code != 0
    assert "is running already on this machine" in " ".join(refused.err)


def test_two_places_to_begin_at_are_refused(penstock: Penstock):
    refused = penstock("reset", "app", "--to-latest", "--shift-by", "3")
    assert refused.code == 2
    assert "say one place to begin at, not several" in " ".join(refused.err)


def test_sinks_that_are_given_their_results_again_are_named(penstock: Penstock, folder: Path):
    storage = LocalStorage(folder / ".penstock" / "app" / "checkpoint")
    child = Child(name="totals", topic="app-totals-sink", sink="SQLite table totals in shop.db")
    ChildNotes(storage, SINKS).write([child])
    said = "  sinks that are given their results again: totals (SQLite table totals in shop.db)"
    assert penstock("reset", "app").out[-1] == said
