"""Whatever becomes of the files of a database, results stay right: it is a copy, and made anew when there is doubt."""

from __future__ import annotations

import logging
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder, Suppressed, TimeWindows, Topology
from penstock.dsl.suppressed import BufferConfig
from penstock.engine.commit.opening import open_application
from penstock.engine.local import LocalApplication
from penstock.errors import StoreError
from penstock.log.consume import consume
from penstock.log.file.log import FileLog
from penstock.log.produce import produce
from penstock.query.committed import committed_store
from penstock.settings import Settings
from penstock.state import folder_lock, task_state
from penstock.storage.base import LocalStorage

pytestmark = pytest.mark.slow

SETTINGS = {
    "statestore_cache_max_bytes": 0,
    "flush_commits": 1,
    "snapshot_commits": 4,
    "hot_max_bytes": 1_000,  # so that rows are looked up on disk
    "block_cache_bytes": 1_000,
    "chunk_records": 50,
    "commit_max_bytes": 500,
}


def topology() -> Topology:
    """Look-ups of keys, windows that are held back in the order of their times, and two groupings."""
    builder = StreamsBuilder()
    numbers = builder.stream("in", key=str, value=int)
    numbers.group_by_key().count("counts").to_stream().to("counted")
    windows = numbers.group_by_key().windowed_by(TimeWindows.of_size_and_grace("1 s", "1 s")).count("windows")
    windows.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())).to_stream().to("final")
    return builder.build()


class Place:
    """An application's folders."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.log = FileLog(folder / "log")
        self.storage = LocalStorage(folder / "checkpoint")
        self.settings = Settings.load(environment={}, folder=folder, **SETTINGS)

    def start(self) -> LocalApplication:
        return LocalApplication(topology(), "app", self.settings, self.log, self.storage, self.folder / "tasks")

    def feed(self, turn: int) -> None:
        rng = random.Random(turn)
        rows = [(f"key-{rng.randrange(150)}", i, 1_000 * turn + 5 * i) for i in range(200)]
        produce(rows, "in", key=str, value=int, log=self.log)

    def run(self, turn: int) -> None:
        self.feed(turn)
        application = self.start()
        application.run_until()
        application.close()

    def outcome(self) -> dict[str, Any]:
        found: dict[str, Any] = {t: [tuple(r) for r in consume(t, log=self.log)] for t in ("counted", "final")}
        opened = open_application(topology(), "app", self.settings, self.log, self.storage)
        for spec in opened.topology.facts.stores.values():
            with committed_store(opened, spec.name) as store:
                found[spec.name] = sorted(map(repr, store.all()))
        return found

    def files(self, pattern: str) -> list[Path]:
        return sorted((self.folder / "tasks").rglob(pattern))

    def lose_local_state(self) -> None:
        shutil.rmtree(self.folder / "tasks")


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An application that was stopped, with a database of many tables."""
    place = Place(tmp_path_factory.mktemp("closed"))
    for turn in range(7):
        place.run(turn)
    assert len(place.files("*.sst")) >= 8
    place.log.wait()
    return place.folder


@pytest.fixture(scope="module")
def killed(closed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, killed when it had processed more: what it wrote last lies in RocksDB's log."""
    folder = tmp_path_factory.mktemp("killed")
    place = Place(shutil.copytree(closed, folder / "running"))
    place.feed(7)
    application = place.start()
    application.run_until()
    place.log.wait()  # what it does beside its work must not change files while they are copied
    shutil.copytree(place.folder, folder / "killed")
    application.close()
    assert any(path.stat().st_size for path in Place(folder / "killed").files("*.log"))
    return folder / "killed"


def undisturbed(start: Path, folder: Path) -> dict[str, Any]:
    place = Place(shutil.copytree(start, folder))
    place.run(9)
    return place.outcome()


@pytest.fixture(scope="module")
def after_closed(closed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return undisturbed(closed, tmp_path_factory.mktemp("after") / "closed")


@pytest.fixture(scope="module")
def after_killed(killed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return undisturbed(killed, tmp_path_factory.mktemp("after") / "killed")


# --- kinds of damage -----------------------------------------------------------------------------------------------


def flip(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def truncate(path: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data))] if data else b"")


def empty(path: Path, rng: random.Random) -> None:
    path.write_bytes(b"")


def delete(path: Path, rng: random.Random) -> None:
    path.unlink()


def garbage(path: Path, rng: random.Random) -> None:
    path.write_bytes(rng.randbytes(path.stat().st_size or 100))


Damage = Callable[[Path, random.Random], None]
DAMAGES = [flip, truncate, empty, delete, garbage]
NEEDED = ["*.sst", "MANIFEST-*", "CURRENT", "penstock.inventory"]
SPARE = ["OPTIONS-*", "LOG", "IDENTITY", "LOCK"]
"""Files that RocksDB writes and needs nothing of."""


@pytest.mark.parametrize(
    ("state", "kind", "damage"),
    [
        *(("killed", kind, damage) for kind in [*NEEDED, "*.log"] for damage in DAMAGES),
        *(("closed", kind, damage) for kind in NEEDED for damage in (truncate, garbage)),
        *(("killed", kind, damage) for kind in [*SPARE, "rocksdict-config.json"] for damage in (delete, garbage)),
    ],
)
def test_whatever_becomes_of_a_file_of_a_database_the_results_are_right(
    state: str, kind: str, damage: Damage, request: pytest.FixtureRequest, tmp_path: Path, caplog: Any
):
    expected = request.getfixturevalue(f"after_{state}")
    place = Place(shutil.copytree(request.getfixturevalue(state), tmp_path / "app"))
    rng = random.Random(f"{state} {kind} {damage.__name__}")
    path = rng.choice(place.files(kind))
    damage(path, rng)
    with caplog.at_level(logging.WARNING):
        place.run(9)
    assert place.outcome() == expected
    warnings = [record.getMessage() for record in caplog.records if "Nothing is lost" in record.getMessage()]
    assert len(warnings) <= 1
    if kind in NEEDED and damage is not flip and (kind, damage) != ("*.sst", delete):
        assert warnings
        assert str(path) in warnings[0]
    if kind in SPARE:
        assert not warnings


@pytest.mark.parametrize("seed", range(10))
def test_no_flipped_bit_in_a_table_changes_a_result_or_is_called_another_program(
    closed: Path, after_closed: dict[str, Any], seed: int, tmp_path: Path, caplog: Any
):
    place = Place(shutil.copytree(closed, tmp_path / "app"))
    rng = random.Random(seed)
    flip(rng.choice(place.files("*.sst")), rng)
    place.run(9)
    assert place.outcome() == after_closed
    assert "another" not in caplog.text


@pytest.mark.parametrize("part", [0.2, 0.5, 0.8, 0.95])
def test_a_manifest_that_is_cut_does_not_open_with_the_rows_of_another_commit(
    killed: Path, after_killed: dict[str, Any], part: float, tmp_path: Path, caplog: Any
):
    place = Place(shutil.copytree(killed, tmp_path / "app"))
    (manifest,) = place.files("MANIFEST-*")
    data = manifest.read_bytes()
    manifest.write_bytes(data[: int(len(data) * part)])
    place.run(9)
    assert place.outcome() == after_killed
    assert f"{manifest} has " in caplog.text


def test_damage_that_is_found_while_a_program_runs_does_not_stop_it(
    closed: Path, after_closed: dict[str, Any], tmp_path: Path, caplog: Any
):
    """Every block of every table is damaged as soon as the database is open."""
    place = Place(shutil.copytree(closed, tmp_path / "app"))
    application = place.start()
    application.settle()
    for path in place.files("*.sst"):
        path.write_bytes(bytes(path.stat().st_size))
    place.feed(9)
    application.run_until()
    application.close()
    assert place.outcome() == after_closed
    found = [record.getMessage() for record in caplog.records]
    assert len(found) == 1
    assert re.search(r"damaged: .*\d+\.sst.*; it is a copy, and rebuilt from the checkpoint", found[0])


def test_no_damaged_table_gets_into_a_snapshot(
    closed: Path, after_closed: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A table that nobody reads is damaged, then snapshots are taken, then the local copy is lost."""
    monkeypatch.setitem(SETTINGS, "snapshot_commits", 1)
    for number in range(0, len(Place(closed).files("*.sst")), 3):
        place = Place(shutil.copytree(closed, tmp_path / str(number)))
        flip(place.files("*.sst")[number], random.Random(number))
        place.run(9)
        place.lose_local_state()
        assert place.outcome() == after_closed


def test_damage_that_shows_while_a_database_is_closed_is_told_and_the_next_start_makes_it_anew(
    closed: Path, after_closed: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
):
    from penstock.state import database

    close = database.Family.close

    def meets_damage(self: Any) -> None:
        close(self)
        raise RuntimeError("Corruption: block checksum mismatch in 000012.sst")

    place = Place(shutil.copytree(closed, tmp_path / "app"))
    monkeypatch.setattr(database.Family, "close", meets_damage)
    place.run(9)
    monkeypatch.undo()
    assert "is damaged, and is rebuilt at the next start: Corruption" in caplog.text
    caplog.clear()
    place.start().close()
    application = place.start()
    application.settle()
    application.close()
    assert "it is a copy, and rebuilt from the checkpoint" in caplog.text
    assert place.outcome() == after_closed


def test_a_database_that_is_damaged_again_and_again_is_an_error_that_says_so(
    closed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from penstock.state import database

    def unreadable(self: Any, keys: list[bytes]) -> None:
        raise database.DamagedStateError(f"{place.folder}/tasks/0_0/000012.sst is damaged")

    place = Place(shutil.copytree(closed, tmp_path / "app"))
    monkeypatch.setattr(database.Family, "get_many", unreadable)
    place.feed(9)
    with pytest.raises(StoreError, match=r"000012\.sst is damaged, though it was just restored .* is the disk failing"):
        place.start().run_until()


HOLD = """
import sys
from pathlib import Path
from engine.test_damaged_state import Place
application = Place(Path(sys.argv[1])).start()
application.settle()
print("open", flush=True)
sys.stdin.read()
"""


def test_a_database_that_another_program_has_open_is_left_alone_however_its_files_look(
    closed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Files change while a program works; a second one in the same folder must not take that for damage."""
    place = Place(shutil.copytree(closed, tmp_path / "app"))
    tests = str(Path(__file__).parents[1])
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(place.folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "open\n"
    inventory = place.files("penstock.inventory")[0]
    inventory.write_text("being written")
    lock = folder_lock.FolderLock
    monkeypatch.setattr(task_state, "FolderLock", lambda folder: lock(folder, patience=0.2))
    before = {path: path.stat().st_size for path in place.files("*.sst")}
    with pytest.raises(StoreError, match=r"in use by another process after 0\.2 s of waiting"):
        place.run(9)
    assert {path: path.stat().st_size for path in place.files("*.sst")} == before
    holder.kill()
    holder.wait()
