"""Snapshots: a database as files in the checkpoint storage, uploaded once each."""

from pathlib import Path

import pytest

from penstock.errors import CorruptDataError
from penstock.state.database import Database
from penstock.state.ownership import Owner
from penstock.state.snapshot import read_snapshot, upload_of
from penstock.storage.base import LocalStorage

OWNER = Owner("application", "0_0")


@pytest.fixture
def database(tmp_path: Path):
    database = Database(tmp_path / "0_0")
    yield database
    database.close()


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "checkpoint")


def write(database: Database, commit: int, rows: int = 2_000) -> None:
    some = ((b"%d-%08d" % (commit, i), b"v" * 1_000) for i in range(rows))
    database.write({"s": some}, {"commit": commit})


def restored(storage: LocalStorage, commit: int, folder: Path) -> tuple[dict, int]:
    """The meta data of a restored snapshot, and how many rows it has."""
    read_snapshot(storage, OWNER, commit, folder)
    database = Database(folder)
    found = database.meta(), sum(1 for _ in database.family("s").scan(None, None))
    database.close()
    return found


def tables(storage: LocalStorage) -> dict[str, int]:
    """The table files in the storage, and when they were written."""
    names = (name for name in storage.list("snapshots") if name.endswith(".sst"))
    return {name: (storage.root / name).stat().st_mtime_ns for name in names}


def test_a_snapshot_is_the_database_as_it_was(tmp_path: Path, storage, database):
    write(database, 1)
    upload_of(database, storage, OWNER, 1)()
    write(database, 2)
    assert restored(storage, 1, tmp_path / "other") == ({"commit": 1}, 2_000)
    assert [path.name for path in tmp_path.iterdir() if "snapshot" in path.name] == []


def test_a_second_snapshot_uploads_only_new_table_files(storage, database):
    write(database, 1)
    upload_of(database, storage, OWNER, 1)()
    first = tables(storage)
    write(database, 2, rows=10)
    upload_of(database, storage, OWNER, 2, referred=1)()
    second = tables(storage)
    assert first
    assert {name: second[name] for name in first} == first
    assert len(second) > len(first)


@pytest.mark.kip("892-13")
def test_files_of_a_snapshot_that_was_gone_back_from_are_uploaded_again(tmp_path: Path, storage, database):
    write(database, 1)
    upload_of(database, storage, OWNER, 1)()
    write(database, 2)
    upload_of(database, storage, OWNER, 2, referred=1)()
    damaged = storage.root / max(tables(storage))  # only the second has it; a restore went back to the first
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"!")
    write(database, 3, rows=1)
    upload_of(database, storage, OWNER, 3, referred=1)()
    assert restored(storage, 3, tmp_path / "back") == ({"commit": 3}, 4_001)


def test_a_damaged_index_of_the_snapshot_before_does_not_stop_a_new_one(tmp_path: Path, storage, database, caplog):
    write(database, 1)
    upload_of(database, storage, OWNER, 1)()
    [index] = storage.root.glob("snapshots/0_0/*.snapshot")
    index.write_bytes(b"")
    write(database, 2)
    upload_of(database, storage, OWNER, 2, referred=1)()
    assert restored(storage, 2, tmp_path / "back") == ({"commit": 2}, 4_000)
    assert f"{index.name} is damaged" in caplog.text


def test_the_last_two_snapshots_are_kept_and_older_ones_removed(tmp_path: Path, storage, database):
    for commit in range(1, 6):
        write(database, commit, rows=100)
        upload_of(database, storage, OWNER, commit, referred=commit - 1)()
    assert [name for name in storage.list("snapshots/0_0") if name.endswith(".snapshot")] == [
        "snapshots/0_0/0000000000000004.snapshot",
        "snapshots/0_0/0000000000000005.snapshot",
    ]
    assert restored(storage, 4, tmp_path / "four") == ({"commit": 4}, 400)
    assert restored(storage, 5, tmp_path / "five") == ({"commit": 5}, 500)
    referenced = {name for folder in ("four", "five") for name in _names(tmp_path / folder)}
    assert len(tables(storage)) <= len(referenced)


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("*.sst")]


def test_the_snapshot_that_the_newest_manifest_names_stays_though_crashes_left_newer_ones(
    tmp_path: Path, storage, database
):
    for commit in range(1, 6):  # crashes came before a manifest could name the later ones
        write(database, commit, rows=100)
        upload_of(database, storage, OWNER, commit, referred=1)()
    assert restored(storage, 1, tmp_path / "one") == ({"commit": 1}, 100)


@pytest.mark.kip("892-13")
def test_a_program_that_was_taken_over_removes_no_snapshot_of_the_other_one(tmp_path: Path, storage, database):
    write(database, 4, rows=100)
    upload_of(database, storage, OWNER, 4, referred=2)()
    other = Database(tmp_path / "other machine")
    for commit in (6, 8):
        write(other, commit, rows=100)
        upload_of(other, storage, OWNER, commit, referred=4)()
    other.close()
    write(database, 5, rows=100)
    upload_of(database, storage, OWNER, 5, referred=2)()  # for all it knows, manifests name no later one
    for commit, rows in ((4, 100), (6, 100), (8, 200)):
        assert restored(storage, commit, tmp_path / f"at {commit}") == ({"commit": commit}, rows)


def test_snapshots_of_tasks_do_not_touch_each_other(tmp_path: Path, storage, database):
    write(database, 1)
    other = Database(tmp_path / "0_1")
    write(other, 1, rows=5)
    for commit in (1, 2, 3):
        upload_of(database, storage, OWNER, commit)()
        upload_of(other, storage, Owner("application", "0_1"), commit)()
    other.close()
    assert restored(storage, 3, tmp_path / "back") == ({"commit": 1}, 2_000)


def test_a_torn_file_of_an_upload_that_was_killed_is_uploaded_again(tmp_path: Path, storage, database):
    write(database, 1)
    upload_of(database, storage, OWNER, 1)()
    for name in storage.list("snapshots"):  # a process was killed in the middle of uploading: no index, half a table
        path = storage.root / name
        if name.endswith(".snapshot"):
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:100])
    upload_of(database, storage, OWNER, 1)()
    assert restored(storage, 1, tmp_path / "back") == ({"commit": 1}, 2_000)


@pytest.mark.parametrize("suffix", [".sst", ".snapshot"])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "torn|damaged"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\x01"), "damaged"),
    ],
    ids=["missing", "torn", "flipped"],
)
def test_a_damaged_file_is_named_and_after_its_repair_the_restore_goes_on(
    tmp_path: Path, storage, database, suffix, damage, message
):
    write(database, 1)
    upload_of(database, storage, OWNER, 1)()
    [file, *_] = (storage.root / name for name in storage.list("snapshots") if name.endswith(suffix))
    whole = file.read_bytes()
    damage(file)
    with pytest.raises(CorruptDataError, match=f"{file.name}.*({message}).*backup"):
        read_snapshot(storage, OWNER, 1, tmp_path / "back")
    assert not (tmp_path / "back").exists()
    file.write_bytes(whole)
    assert restored(storage, 1, tmp_path / "back") == ({"commit": 1}, 2_000)
