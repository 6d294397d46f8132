"""Stores as of the last commit, put together from snapshots and delta files of all tasks."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Joined, Materialized, StreamsBuilder, TimeWindows, Windowed, produce
from penstock.engine.local import LocalApplication
from penstock.errors import ConfigError, CorruptDataError, StoreError
from penstock.log.file.log import FileLog
from penstock.plan.topology import Topology
from penstock.query.commits import OwnCommits
from penstock.query.committed import CommittedStore, committed_store
from penstock.settings import Settings
from penstock.state import replica
from penstock.state.replica import FrozenFamily, Replica
from penstock.storage.base import LocalStorage
from support.folders import MEMORY

pytestmark = pytest.mark.slow

AIRPORTS = ["ATL", "BOS", "EWR", "JFK", "LAX", "LGA", "ORD", "SFO"]


def topology() -> Topology:
    """Departures by airport, at all and in windows of 10 ms."""
    builder = StreamsBuilder()
    flights = builder.stream("flights", key=str, value=str)
    flights.group_by_key().count("counts")
    flights.group_by_key().windowed_by(TimeWindows.of_size_and_grace(10, 1000)).count("windows")
    return builder.build()


class Application:
    """An application of three partitions over a file log, which commits when it is told to."""

    def __init__(self, folder: Path, **settings: Any):
        self.folder = folder
        self.log = FileLog(folder / "log")
        self.settings = Settings.load(environment={}, **settings)
        self.produce()
        self.running = self.start()

    def start(self) -> LocalApplication:
        storage = LocalStorage(self.folder / "checkpoint")
        return LocalApplication(topology(), "app", self.settings, self.log, storage, self.folder / "state")

    def produce(self, *flights: tuple[str, int]) -> None:
        """Airports and timestamps into the topic."""
        produce([(airport, "UA", at) for airport, at in flights], "flights", str, str, self.log, partitions=3)

    def commit(self) -> None:
        self.running.run_until()

    def store(self, name: str) -> Any:
        return committed_store(self.running.coordinator, name)


@pytest.fixture
def temporary(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, at first empty."""
    temporary = folder / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return temporary


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for applications that commit often."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        yield Path(name)


@pytest.fixture(params=[{}, {"flush_rows": 1}, {"flush_commits": 1, "snapshot_commits": 2}])
def application(request: pytest.FixtureRequest, folder: Path, temporary: Path) -> Iterator[Application]:
    """An application whose state lies in delta files, on disk as well, or mostly in a snapshot."""
    application = Application(folder, **request.param)
    yield application
    application.running.close()


def test_before_the_first_commit_stores_are_empty(application: Application):
    application.produce(("JFK", 1))
    with application.store("counts") as counts, application.store("windows") as windows:
        assert (counts.get("JFK"), list(counts.all()), list(windows.all())) == (None, [], [])


@pytest.mark.kip("892-12")
def test_a_view_shows_what_all_tasks_have_committed_and_nothing_more(application: Application):
    for turn in range(4):
        application.produce(*((airport, turn * 10 + number) for number, airport in enumerate(AIRPORTS)))
        with application.store("counts") as counts:
            assert [count for _, count, _ in counts.all()] == [turn] * (8 if turn else 0)
        application.commit()

    with application.store("counts") as counts:
        assert counts.get("JFK") == 4
        assert list(counts.all()) == [(airport, 4, 30 + number) for number, airport in enumerate(AIRPORTS)]
        assert [key for key, _, _ in counts.range("BOS", "LAX")] == ["BOS", "EWR", "JFK", "LAX"]
        assert [key for key, _, _ in counts.range("BOS", "LAX", reverse=True)] == ["LAX", "JFK", "EWR", "BOS"]
    with application.store("windows") as windows:
        assert list(windows.fetch("LGA", 10, 30)) == [(10, 1, 15), (20, 1, 25), (30, 1, 35)]
        assert sorted(windows.all()) == [
            (Windowed(airport, start, start + 10), 1, start + number)
            for number, airport in enumerate(AIRPORTS)
            for start in range(0, 40, 10)
        ]


@pytest.mark.kip("892-12")
def test_a_snapshot_stays_as_it_was_while_its_view_goes_on_with_the_application(application: Application):
    application.produce(("JFK", 1), ("LGA", 2))
    application.commit()
    view = application.store("counts")
    first = view.snapshot()
    began = view.range("JFK")
    assert next(began) == ("JFK", 1, 1)
    for at in range(5):
        application.produce(("JFK", at), ("SFO", at))
        application.commit()
        assert view.multi_get(["JFK", "SFO", "LGA", "BOS"]) == [at + 2, at + 1, 1, None]

    assert list(first.all()) == [("JFK", 1, 1), ("LGA", 1, 2)]
    assert list(began) == [("LGA", 1, 2)]
    assert list(view.all()) == [("JFK", 6, 4), ("LGA", 1, 2), ("SFO", 5, 4)]


@pytest.mark.parametrize("at_once", [1, 1 << 20])
def test_a_view_that_nobody_read_for_some_commits_shows_what_all_of_them_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
):
    monkeypatch.setattr(replica, "_AT_ONCE_BYTES", at_once)
    application = Application(folder)
    application.produce(("JFK", 1), ("LGA", 2))
    application.commit()
    counts, windows = application.store("counts"), application.store("windows")
    for at in (5, 12, 13, 400, 5000):  # windows of 10 ms with a grace of a second: by the last, all others are gone
        application.produce(("JFK", at), ("SFO", at))
        application.commit()
        if at == 400:
            assert list(windows.fetch("JFK", 0, 400)) == [(0, 2, 5), (10, 2, 13), (400, 1, 400)]
    assert list(counts.all()) == [("JFK", 6, 5000), ("LGA", 1, 2), ("SFO", 5, 5000)]
    assert [row for row in windows.all() if row[0].key == "JFK"] == [(Windowed("JFK", 5000, 5010), 1, 5000)]
    with application.store("windows") as anew:
        assert list(windows.all()) == list(anew.all())
    application.running.close()


def test_a_program_that_started_anew_shows_what_the_last_one_committed(application: Application):
    for at in range(3):
        application.produce(("JFK", at), ("SFO", at))
        application.commit()
    application.running.close()
    application.running = application.start()
    assert list(application.store("counts").all()) == [("JFK", 3, 2), ("SFO", 3, 2)]


def joins() -> Topology:
    """Flights with their aircraft, by foreign key, and with the weather at their time, once it cannot change."""
    builder = StreamsBuilder()
    flights, planes = builder.table("flights", key=str, value=str), builder.table("planes", key=str, value=str)
    flights.join(planes, lambda flight, plane: plane, value=str, foreign_key=lambda flight: flight, store="joined")
    weather = builder.table("weather", key=str, value=str, materialized=Materialized.as_versioned("weather", 100))
    waiting = Joined.with_name("waiting").with_grace_period(100)
    builder.stream("departures", key=str, value=str).join(weather, lambda one, other: other, joined=waiting).to("out")
    return builder.build()


def test_what_joins_keep_for_themselves_can_be_read_too(folder: Path):
    log = FileLog(folder / "log")
    for topic, key in [("flights", "UA1"), ("planes", "N1"), ("weather", "JFK"), ("departures", "JFK")]:
        produce([(key, "N1", 200)], topic, str, str, log, partitions=1)
    storage = LocalStorage(folder / "checkpoint")
    running = LocalApplication(joins(), "app", Settings.load(environment={}), log, storage, folder / "state")
    running.run_until()
    running.close()
    facts = running.coordinator.topology.facts
    rows = {spec.name: list(committed_store(running.coordinator, spec.name).all()) for spec in facts.stores.values()}
    subscription = rows.pop("KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000010")
    assert [key for key, _, _ in subscription] == [b"\0\0\0\2N1UA1"]
    assert rows == {
        "flights-STATE-STORE-0000000000": [("UA1", "N1", 200)],
        "planes-STATE-STORE-0000000003": [("N1", "N1", 200)],
        "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-0000000017-numbers": [],  # nothing is on its way
        "joined": [("UA1", "N1", 200)],
        "weather": [("JFK", "N1", 200, None)],
        "waiting-Buffer": [("JFK", "N1", 200)],
    }


# --- closing, and what is wrong ------------------------------------------------------------------------------------


def views(temporary: Path) -> int:
    """How many views have files."""
    return len(list(temporary.glob("penstock.store.*")))


def test_a_closed_view_leaves_no_files_and_cannot_be_read(application: Application, temporary: Path):
    application.produce(("JFK", 1))
    application.commit()
    view = application.store("counts")
    assert (view.get("JFK"), views(temporary)) == (1, 1)
    view.close()
    assert views(temporary) == 0
    with pytest.raises(StoreError, match="this view of the store 'counts' is closed; ask for the store again"):
        view.get("JFK")


def test_a_view_that_nobody_refers_to_any_more_leaves_no_files(application: Application, temporary: Path):
    application.produce(("JFK", 1))
    application.commit()
    view = application.store("counts")
    assert (view.get("JFK"), views(temporary)) == (1, 1)
    del view
    assert views(temporary) == 0


def test_a_store_that_does_not_exist_is_named_with_those_that_do(application: Application, temporary: Path):
    with pytest.raises(ConfigError, match="there is no store 'count'; the stores are counts, windows"):
        application.store("count")
    assert views(temporary) == 0


def test_a_damaged_delta_file_is_named_and_leaves_no_files(folder: Path, temporary: Path):
    application = Application(folder)
    application.produce(*((airport, 1) for airport in AIRPORTS))
    application.commit()
    *_, delta = sorted(path for path in (folder / "checkpoint" / "deltas").rglob("*") if path.is_file())
    data = bytearray(delta.read_bytes())
    data[len(data) // 2] ^= 1
    delta.write_bytes(data)

    with pytest.raises(CorruptDataError, match=f"{delta} is damaged: its checksum is not the one it was written with"):
        application.store("counts")
    assert views(temporary) == 0
    application.running.close()


def frozen() -> int:
    return sum(type(found) is FrozenFamily for found in gc.get_objects())


def test_of_a_store_that_nobody_has_any_more_what_is_frozen_goes_before_its_databases(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    application = Application(folder)
    application.produce(("ATL", 1), ("BOS", 2))
    application.commit()
    gc.collect()
    before, left = frozen(), []
    store = CommittedStore(OwnCommits(application.running.coordinator), "counts")
    assert store.now().commit == application.running.coordinator.manifest.commit
    assert frozen() > before
    close = Replica.close
    monkeypatch.setattr(Replica, "close", lambda replica: (left.append(frozen()), close(replica)))
    del store
    gc.collect()
    assert set(left) == {before}
