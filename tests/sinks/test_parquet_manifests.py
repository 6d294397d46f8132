"""Manifests of Parquet files become one when there are many, and name the same files at every moment."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock import StreamsBuilder, faults
from penstock.sinks import ParquetSink
from penstock.sinks.parquet import manifests
from support.handing import handed_on, put

COUNT = 15


@pytest.fixture(autouse=True)
def three_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "MANY", 3)


def appended(folder: Path) -> StreamsBuilder:
    """A batch has one record."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.to_sink(ParquetSink(folder / "lake", date=None, rows=1), "rows", key=None, value="n", timestamp=None)
    return builder


def put_numbers(folder: Path, start: int, end: int) -> None:
    put(folder, "shop-rows-sink", *(("a", n) for n in range(start, end)), key=str, value=int)


def names(folder: Path) -> list[str]:
    return sorted(path.stem.replace("0" * 14, "") for path in (folder / "lake").glob("_penstock/*/*/*/*.json"))


def counted(folder: Path) -> list[int]:
    """The rows of the files that manifests name."""
    notes = [json.loads(note.read_text()) for note in (folder / "lake").glob("_penstock/*/*/*/*.json")]
    paths = {file["path"] for note in notes for file in note["files"]}
    return sorted(n for path in paths for n in pq.ParquetFile(folder / "lake" / path).read()["n"].to_pylist())


def there(folder: Path) -> list[int]:
    """The rows of all files."""
    files = (folder / "lake").rglob("*.parquet")
    return sorted(n for path in files for n in pq.ParquetFile(path).read()["n"].to_pylist())


def test_many_manifests_become_one_and_stay_for_another_batch(tmp_path: Path):
    put_numbers(tmp_path, 0, 4)
    handed_on(appended(tmp_path), tmp_path)
    assert names(tmp_path) == ["00", "00-03", "01", "02", "03"]
    assert counted(tmp_path) == [0, 1, 2, 3]
    put_numbers(tmp_path, 4, 12)
    handed_on(appended(tmp_path), tmp_path)
    assert names(tmp_path) == ["00-03", "03-06", "06-09", "09", "10", "11"]
    assert counted(tmp_path) == there(tmp_path) == list(range(12))


def test_there_are_a_few_manifests_of_each_level_however_many_batches_were_written(tmp_path: Path):
    put_numbers(tmp_path, 0, 60)
    handed_on(appended(tmp_path), tmp_path)
    assert names(tmp_path) == ["00-27-3", "27-36-2", "36-45-2", "45-54-2", "54-57", "57", "58", "59"]
    assert counted(tmp_path) == there(tmp_path) == list(range(60))


def test_at_no_moment_do_manifests_miss_a_file_that_they_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    seen: list[list[int]] = []

    def look(point: str) -> None:
        seen.append(counted(tmp_path))

    monkeypatch.setattr(faults, "listener", look)
    put_numbers(tmp_path, 0, COUNT)
    handed_on(appended(tmp_path), tmp_path)
    assert all(one == list(range(len(one))) for one in seen)
    assert [len(one) for one in seen] == sorted(len(one) for one in seen)


@pytest.mark.parametrize("failing", range(1, 3 * COUNT, 2))
def test_what_fails_at_any_time_leaves_each_row_once(failing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    times = 0

    def fail(point: str) -> None:
        nonlocal times
        times += point == "in-sink"
        if times == failing and point == "in-sink":
            raise OSError("the disk is full")

    monkeypatch.setattr(faults, "listener", fail)
    put_numbers(tmp_path, 0, COUNT)
    handed_on(appended(tmp_path), tmp_path)
    assert counted(tmp_path) == there(tmp_path) == list(range(COUNT))


@pytest.mark.parametrize("at", [1, 2, 7, 8, 9])
def test_a_program_that_slept_meanwhile_doubles_nothing(at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Another one goes on where it sleeps, until the manifest of its batch is part of another one."""
    times: list[str] = []

    def meanwhile(point: str) -> None:
        if point == "in-sink":
            times.append(point)
            if len(times) == at:
                handed_on(appended(tmp_path), tmp_path)

    monkeypatch.setattr(faults, "listener", meanwhile)
    put_numbers(tmp_path, 0, COUNT)
    handed_on(appended(tmp_path), tmp_path)
    assert counted(tmp_path) == there(tmp_path) == list(range(COUNT))
    put_numbers(tmp_path, COUNT, COUNT + 4)
    handed_on(appended(tmp_path), tmp_path)
    assert counted(tmp_path) == there(tmp_path) == list(range(COUNT + 4))


def test_a_start_goes_on_behind_a_manifest_that_is_made_of_many(tmp_path: Path):
    put_numbers(tmp_path, 0, 4)
    handed_on(appended(tmp_path), tmp_path)
    for name in ("00", "01", "02", "03"):
        [path] = (tmp_path / "lake").rglob(f"{'0' * 14}{name}.json")
        path.unlink()
    put_numbers(tmp_path, 4, 5)
    handed_on(appended(tmp_path), tmp_path)
    assert counted(tmp_path) == there(tmp_path) == [0, 1, 2, 3, 4]
