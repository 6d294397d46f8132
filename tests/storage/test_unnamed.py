"""Files without a name: nobody sees them before they are whole, and those made ahead are taken by nobody twice."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import unnamed
from penstock.errors import StoreError
from penstock.storage import LocalStorage, durable_file


@pytest.fixture(autouse=True)
def pool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[unnamed._Pool]:
    found = unnamed._Pool()
    monkeypatch.setattr(unnamed, "_pool", found)
    if unnamed.take(tmp_path) is None:
        pytest.skip("this file system has no files without names")
    yield found
    found.close()


def is_ahead(pool: unnamed._Pool, folder: Path) -> int:
    return len(pool._ahead.get(str(folder), ()))


def used_twice(storage: LocalStorage) -> None:
    for _ in range(2):
        with storage.write(f"files/{len(storage.list('files'))}") as file:
            file.write(b"x")
        unnamed.make_ahead()


def test_a_file_has_no_name_until_it_is_whole(tmp_path: Path):
    with durable_file(tmp_path / "file") as file:
        file.write(b"half ")
        assert list(tmp_path.iterdir()) == []
        file.write(b"and half")
    assert (tmp_path / "file").read_bytes() == b"half and half"


def test_files_are_made_ahead_in_folders_that_are_used_again_and_let_go_in_others(tmp_path: Path, pool: unnamed._Pool):
    storage, folder = LocalStorage(tmp_path), tmp_path / "files"
    storage.create("files/first", b"1")
    unnamed.make_ahead()
    assert is_ahead(pool, folder) == 0
    used_twice(storage)
    assert is_ahead(pool, folder) == 1
    assert [path.name for path in sorted(folder.iterdir())] == ["1", "2", "first"]
    unnamed.make_ahead()
    assert is_ahead(pool, folder) == 0


def test_a_file_made_ahead_has_what_is_written_to_it_and_replaces_another(tmp_path: Path, pool: unnamed._Pool):
    storage = LocalStorage(tmp_path)
    used_twice(storage)
    with storage.write("files/1") as file:
        file.write(b"new")
    assert bytes(storage.read("files/1")) == b"new"
    assert is_ahead(pool, tmp_path / "files") == 0
    assert storage.create("files/1", b"newer") is False
    assert bytes(storage.read("files/1")) == b"new"


def test_a_folder_that_was_made_anew_gets_none_of_the_files_made_for_the_old_one(tmp_path: Path, pool: unnamed._Pool):
    storage, folder = LocalStorage(tmp_path), tmp_path / "files"
    used_twice(storage)
    folder.rename(tmp_path / "old")
    folder.mkdir()
    storage.create("files/7", b"7")
    assert [path.name for path in folder.iterdir()] == ["7"]
    assert [path.name for path in sorted((tmp_path / "old").iterdir())] == ["0", "1"]


def test_a_file_begun_in_a_folder_that_is_removed_does_not_come_into_the_next_of_its_name(tmp_path: Path):
    folder = tmp_path / "topic"
    folder.mkdir()

    def write() -> None:
        with durable_file(folder / "file", parents=False) as file:
            file.write(b"for the old one")
            shutil.rmtree(folder)
            folder.mkdir()

    with pytest.raises(StoreError, match="No such file"):
        write()
    assert list(folder.iterdir()) == []


def test_a_forked_process_does_not_write_into_the_files_of_its_parent(tmp_path: Path, pool: unnamed._Pool):
    storage = LocalStorage(tmp_path)
    used_twice(storage)
    child = os.fork()
    if child == 0:
        storage.create("files/child", b"child")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    storage.create("files/parent", b"parent")
    assert bytes(storage.read("files/child")) == b"child"
    assert bytes(storage.read("files/parent")) == b"parent"


def test_where_there_are_no_such_files_names_are_given_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(unnamed, "_UNNAMED", 0)
    storage = LocalStorage(tmp_path)
    assert storage.create("a", b"1") is True
    assert storage.create("a", b"2") is False
    with storage.write("b") as file:
        file.write(b"3")
    assert [bytes(storage.read(name)) for name in storage.list("")] == [b"1", b"3"]
