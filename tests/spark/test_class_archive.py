"""The archive of Spark's classes: one for each environment, since JVMs take only what was made from their own files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.engine.spark import class_archive


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "penstock"


def spark(folder: Path, installed_at: int) -> Path:
    """A folder that Spark was installed into at a time."""
    (folder / "jars").mkdir(parents=True, exist_ok=True)
    os.utime(folder / "jars", (installed_at, installed_at))
    return folder


def test_each_spark_of_a_machine_has_an_archive_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    places = []
    for name, installed_at in (("one", 1), ("two", 1), ("one", 2), ("one", 1)):
        monkeypatch.setenv("SPARK_HOME", str(spark(tmp_path / name, installed_at)))
        places.append(class_archive.archive())
    assert len(set(places)) == 3
    assert places[0] == places[3]


def test_without_the_files_of_spark_there_is_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "none"))
    assert class_archive.archive() is None
    assert class_archive.java_options() == ""


def test_what_a_jvm_left_is_taken_when_it_is_whole_and_the_newest_four_archives_are_kept(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SPARK_HOME", str(spark(tmp_path / "spark", 1)))
    cache.mkdir(parents=True)
    for age in range(5):
        other = cache / f"spark-classes-other{age}.jsa"
        other.touch()
        os.utime(other, (1000 - age, 1000 - age))
    place = class_archive.archive()
    assert place is not None
    left = place.with_name(f"{place.stem}-77.made")

    left.write_bytes(b"the beginning")
    assert "-XX:ArchiveClassesAtExit" in class_archive.java_options()
    left.write_bytes(bytes(2 << 20))
    os.utime(left, (2000, 2000))
    assert f'-XX:SharedArchiveFile="{place}"' in class_archive.java_options()
    assert sorted(path.name for path in cache.iterdir()) == sorted(
        [
            place.name,
            f"{place.stem}.sum",
            "spark-classes-other0.jsa",
            "spark-classes-other1.jsa",
            "spark-classes-other2.jsa",
        ]
    )


def test_made_at_once_it_is_what_a_jvm_has_left_before_without_another_run(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SPARK_HOME", str(spark(tmp_path / "spark", 1)))
    place = class_archive.archive()
    assert place is not None
    cache.mkdir(parents=True)
    left = place.with_name(f"{place.stem}-77.made")
    left.write_bytes(bytes(2 << 20))
    os.utime(left, (2000, 2000))
    assert class_archive.make() == place
    assert sorted(path.name for path in cache.iterdir()) == [place.name, f"{place.stem}.sum"]


@pytest.mark.parametrize("damage", ["a bit", "cut short", "empty", "no checksum"])
def test_a_damaged_archive_is_removed_before_a_jvm_has_it(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, damage: str
):
    monkeypatch.setenv("SPARK_HOME", str(spark(tmp_path / "spark", 1)))
    place = class_archive.archive()
    assert place is not None
    cache.mkdir(parents=True)
    left = place.with_name(f"{place.stem}-77.made")
    left.write_bytes(bytes(2 << 20))
    os.utime(left, (2000, 2000))
    assert "-XX:SharedArchiveFile" in class_archive.java_options()
    whole = place.read_bytes()
    if damage == "no checksum":
        place.with_suffix(".sum").unlink()
    else:
        place.write_bytes({"a bit": whole[:-1] + b"\1", "cut short": whole[:-5], "empty": b""}[damage])
    assert "-XX:ArchiveClassesAtExit" in class_archive.java_options()
    assert list(cache.iterdir()) == []
