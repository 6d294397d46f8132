"""The store in SQLite: what it counts, what others find in its file, and what its document says of its class."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from penstock.log.produce import produce
from support.own_stores import SQLITE_EXAMPLE
from support.world import World


@pytest.mark.kip("892-05")
def test_counts_lie_in_a_file_that_others_read_with_the_number_of_the_newest_commit(tmp_path: Path):
    world = World(tmp_path, SQLITE_EXAMPLE.topology)
    for round_ in range(2):
        departures = [(airport, "on time", round_) for airport in ("JFK", "LAX", "JFK")]
        produce(departures, "departures", value=str, log=world.log, partitions=1)
        application = world.start()
        application.run_until()
        [file] = tmp_path.rglob("0_0.stores/counts.db")
        with sqlite3.connect(file) as database:
            rows = {key.decode(): int.from_bytes(value[8:]) for key, value in database.execute("select * from entries")}
            [(changelog, at)] = database.execute("select * from offsets").fetchall()
        assert rows == {"JFK": 2 * (round_ + 1), "LAX": round_ + 1}
        assert at == application.coordinator.manifest.commit
        assert "app-counts-changelog." in changelog
        application.close()
    assert not list(tmp_path.rglob(".checkpoint"))
