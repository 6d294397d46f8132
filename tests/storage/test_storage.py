"""Where commits lie: files created at most once and whole, in a folder and in object stores, by one contract."""

from __future__ import annotations

import errno
import os
import shutil
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ConfigError, CorruptDataError, StoreError
from penstock.files.plain_files import read_plain
from penstock.storage.base import (
    TEMPORARY,
    FileRef,
    LocalStorage,
    Storage,
    checksum,
    create_file,
    durable_file,
    seal,
    unseal,
    writing,
)
from penstock.storage.objects import ObjectStorage
from penstock.storage.opening import open_storage
from support.s3 import S3Server


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture(params=["folder", "file://", "memory:///", "s3://"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """An empty storage."""
    if request.param == "s3://":
        server = request.getfixturevalue("s3")
        server.be_found(monkeypatch)
        return open_storage(server.bucket())
    urls = {"folder": str(tmp_path / "s"), "file://": f"file://{tmp_path}"}
    return open_storage(urls.get(request.param, request.param))


def write(storage: Storage, name: str, *parts: bytes) -> FileRef:
    """Write a file in pieces."""
    with storage.write(name) as file:
        for part in parts:
            file.write(part)
    return storage.ref(name)


def test_a_url_is_an_object_store_and_anything_else_a_folder(tmp_path: Path):
    assert type(open_storage("memory:///")) is ObjectStorage
    assert type(open_storage(str(tmp_path))) is LocalStorage
    for url in (str(tmp_path), f"file://{tmp_path}", "memory:///"):
        assert open_storage(url).url == url


def test_two_that_open_the_same_url_see_the_same_files(tmp_path: Path):
    for url in (str(tmp_path / "folder"), f"file://{tmp_path}"):
        open_storage(url).create("a", b"1")
        assert bytes(open_storage(url).read("a")) == b"1"


def test_a_file_is_created_at_most_once(storage: Storage):
    assert storage.create("manifests/7.json", b"first") is True
    assert storage.create("manifests/7.json", b"second") is False
    assert bytes(storage.read("manifests/7.json")) == b"first"
    storage.delete("manifests/7.json")
    assert storage.create("manifests/7.json", b"third") is True
    assert bytes(storage.read("manifests/7.json")) == b"third"


def test_a_file_is_written_in_pieces_and_known_by_its_size_and_checksum(storage: Storage):
    ref = write(storage, "deltas/0_1/5", b"one ", b"", b"two" * 100_000)
    assert ref == FileRef("deltas/0_1/5", 300_004, checksum(b"one " + b"two" * 100_000))
    assert bytes(storage.read_verified(ref)) == b"one " + b"two" * 100_000
    assert write(storage, "empty").size == 0
    assert bytes(storage.read("empty")) == b""


def test_a_file_is_put_as_a_whole_and_read_in_parts(storage: Storage):
    ref = storage.put("deltas/whole", pa.py_buffer(b"one two three"))
    assert ref == FileRef("deltas/whole", 13, checksum(b"one two three"))
    assert bytes(storage.read_verified(ref)) == b"one two three"
    part = FileRef("deltas/whole", 3, checksum(b"two"))
    assert bytes(storage.read_verified(part, 4)) == b"two"
    with pytest.raises(CorruptDataError, match="deltas/whole is damaged"):
        storage.read_verified(part, 5)
    with pytest.raises(CorruptDataError, match="deltas/whole is torn: 3 bytes were written, 1 are there"):
        storage.read_verified(part, 12)
    assert storage.put("deltas/nothing", b"").size == 0
    assert bytes(storage.read("deltas/nothing")) == b""


def test_a_file_that_is_not_written_to_its_end_does_not_exist(storage: Storage):
    def fail() -> None:
        with storage.write("deltas/torn") as file:
            file.write(b"half of it")
            raise RuntimeError("the program stumbles")

    with pytest.raises(RuntimeError, match="the program stumbles"):
        fail()
    assert storage.list("") == []
    with pytest.raises(FileNotFoundError):
        storage.read("deltas/torn")


def test_files_of_a_folder_are_listed_sorted_with_those_in_folders_below(storage: Storage):
    for name in ("deltas/0_1/10", "deltas/0_1/9", "deltas/0_0/1", "deltas-old/1", "manifests/1.json"):
        storage.create(name, b"x")
    assert storage.list("deltas") == ["deltas/0_0/1", "deltas/0_1/10", "deltas/0_1/9"]
    assert storage.list("deltas/0_1") == ["deltas/0_1/10", "deltas/0_1/9"]
    assert storage.list("nothing") == []
    assert len(storage.list("")) == 5


def test_a_removed_file_is_gone_and_may_be_removed_again(storage: Storage):
    storage.create("a", b"1")
    for _ in range(2):
        storage.delete("a")
    assert storage.list("") == []


def test_what_is_read_stays_when_the_file_is_removed(storage: Storage):
    ref = write(storage, "a", b"still here")
    data = storage.read_verified(ref)
    storage.delete("a")
    assert bytes(data) == b"still here"


def test_a_file_that_is_missing_torn_or_damaged_is_named(storage: Storage):
    ref = write(storage, "deltas/1", b"0123456789")
    for content, message in [
        (None, "is missing: 10 bytes were committed"),
        (b"012345678", "is torn: 10 bytes were written, 9 are there"),
        (b"", "is torn: 10 bytes were written, 0 are there"),
        (b"0123456780", "is damaged: its checksum is not the one it was written with"),
    ]:
        storage.delete("deltas/1")
        if content is not None:
            storage.create("deltas/1", content)
        with pytest.raises(
            CorruptDataError, match=f"^{storage.url}/deltas/1 {message}; restore the file from a backup$"
        ):
            storage.read_verified(ref)


@pytest.mark.parametrize("url", ["nowhere://bucket/app", "s3://", "nowhere://user:secret@bucket"])
def test_a_url_that_nobody_can_open_is_refused_without_showing_its_keys(url: str):
    with pytest.raises(
        ConfigError, match=r"storage (nowhere|s3)://\.\.\. is no URL that obstore can open; write it"
    ) as e:
        open_storage(url)
    assert "secret" not in str(e.value)


# --- folders of this machine ---------------------------------------------------------------------------------------


def test_files_being_created_are_not_listed_and_leave_nothing_behind(tmp_path: Path):
    storage = LocalStorage(tmp_path)
    (tmp_path / f"{TEMPORARY}7.json-123-abcd").write_bytes(b"half of a file whose program was killed")
    storage.create("7.json", b"{}")
    assert storage.create("7.json", b"other") is False
    assert storage.list("") == ["7.json"]
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
def test_a_full_disk_is_named_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    open_file = pa.OSFile
    monkeypatch.setattr(pa, "OSFile", lambda path, mode: open_file("/dev/full", mode))

    def fill() -> None:
        with LocalStorage(tmp_path).write("full") as file:
            file.write(b"x" * 1_000_000)

    with pytest.raises(StoreError, match=f"cannot write {tmp_path}/full: .*; nothing was committed. Make room"):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    storage = LocalStorage(tmp_path / "file")
    with pytest.raises(StoreError, match=f"cannot write {tmp_path}/file/a: .*; nothing was committed"):
        storage.create("a", b"1")
    with pytest.raises(StoreError, match=f"cannot write {tmp_path}/file/a: .*; nothing was committed"):
        write(storage, "a", b"1")
    assert (tmp_path / "file").read_text() == "in the way"


def test_of_many_that_create_the_same_file_one_wins(tmp_path: Path):
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda n: create_file(tmp_path / "manifest", b"%d" % n * 1000), range(24)))
    assert won.count(True) == 1
    assert (tmp_path / "manifest").read_bytes() == b"%d" % won.index(True) * 1000


# --- small files that say themselves whether they are whole --------------------------------------------------------


@given(st.dictionaries(st.text(max_size=5), st.integers(-(2**63), 2**63 - 1), max_size=4), st.data())
def test_a_sealed_structure_comes_back_and_no_changed_byte_goes_unseen(content: dict[str, int], data: st.DataObject):
    sealed = seal(content)
    assert unseal(sealed, dict, "f") == content
    place, bit = data.draw(st.integers(0, len(sealed) - 1)), data.draw(st.integers(0, 7))
    changed = bytearray(sealed)
    changed[place] ^= 1 << bit
    with pytest.raises(CorruptDataError, match=r"^f is damaged: .*; restore it from a backup$"):
        unseal(bytes(changed), dict, "f")


@given(st.binary(max_size=60))
def test_what_was_never_sealed_is_damaged(data: bytes):
    with pytest.raises(CorruptDataError, match=r"^file\.json is damaged: "):
        unseal(data, dict, "file.json")


def test_what_killed_programs_left_of_unfinished_files_is_swept_once_it_is_old(tmp_path: Path):
    storage = LocalStorage(tmp_path)
    storage.create("manifests/7.json", b"{}")
    for name, age in (("old", 7200), ("new", 10)):
        left = tmp_path / "manifests" / f"{TEMPORARY}{name}"
        left.write_bytes(b"half")
        os.utime(left, (time.time() - age,) * 2)
    storage.sweep()
    assert sorted(path.name for path in (tmp_path / "manifests").iterdir()) == [f"{TEMPORARY}new", "7.json"]


# --- names and keys ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/passwd", "..", "a//b"])
def test_a_name_that_leads_out_of_the_storage_is_refused_whatever_is_to_be_done(
    storage: Storage, tmp_path: Path, name: str
):
    (tmp_path / "x").write_text("precious")
    for use in (storage.read, storage.delete, storage.list, lambda name: storage.create(name, b"")):
        with pytest.raises(CorruptDataError, match="leads out of its folder; nothing was read, written or removed"):
            use(name)
    with pytest.raises(CorruptDataError, match="leads out of its folder"), storage.write(name) as file:
        file.write(b"")
    assert (tmp_path / "x").read_text() == "precious"


URL = "s3://AKIA:wJalr@bucket/app?secret_access_key=K7MDENG&region=eu&sig=bPxR"


def test_keys_in_a_url_are_in_no_message(monkeypatch: pytest.MonkeyPatch):
    storage = open_storage(URL)
    assert isinstance(storage, ObjectStorage)
    assert storage.shown == "s3://****@bucket/app?secret_access_key=****&region=eu&sig=****"

    class Broken:
        exceptions = storage._obstore.exceptions

        def __getattr__(self, name: str) -> object:
            def fail(*_: object, **__: object) -> None:
                raise self.exceptions.GenericError(f"no answer from {URL} today")

            return fail

    monkeypatch.setattr(storage, "_obstore", Broken())
    for use in (storage.read, storage.delete, storage.list, lambda name: storage.create(name, b"")):
        with pytest.raises(StoreError, match=r"cannot .* s3://\*\*\*\*@bucket") as error:
            use("a/b")
        shown = "".join(traceback.format_exception(error.value))
        assert not any(key in str(error.value) for key in ("wJalr", "K7MDENG", "bPxR"))
        assert "During handling" not in shown
    ref = FileRef("a", 1, 1)
    monkeypatch.setattr(storage, "read", lambda name: (_ for _ in ()).throw(FileNotFoundError(name)))
    with pytest.raises(CorruptDataError, match=r"^s3://\*\*\*\*@bucket/app\?[^ ]*/a is missing"):
        storage.read_verified(ref)


# --- a disk that is full -------------------------------------------------------------------------------------------


def test_of_several_files_that_are_written_the_one_that_does_not_fit_is_named(tmp_path: Path):
    full = OSError(errno.ENOSPC, "No space left on device")
    first, second = tmp_path / "first", tmp_path / "second"
    with pytest.raises(StoreError) as error, durable_file(first), durable_file(second), writing(first):
        raise full
    assert str(error.value).startswith(f"cannot write {first}: No space left on device; nothing was committed.")
    assert "`penstock topics retain`" in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_an_input_that_cannot_be_read_is_not_called_an_output_that_cannot_be_written(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="no such input"), durable_file(tmp_path / "output"):
        (tmp_path / "no such input").read_bytes()


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


def test_a_link_in_the_place_of_a_new_file_is_replaced_and_not_followed(tmp_path: Path):
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "new").symlink_to(tmp_path / "precious")
    with durable_file(tmp_path / "new") as file:
        file.write(b"1")
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "new").is_symlink()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cycle", "cycle is a symbolic link that leads to itself, and a file belongs there"),
        ("nowhere", "nowhere is a symbolic link that leads nowhere, and a file belongs there"),
        ("file/below", "file is a file, and a folder belongs there"),
        ("pipe/below", "pipe is a named pipe, and a folder belongs there"),
        ("cycle/below", "cycle is a symbolic link that leads to itself"),
    ],
)
def test_what_leads_to_no_file_is_named_when_it_is_read(tmp_path: Path, name: str, said: str):
    (tmp_path / "cycle").symlink_to("cycle")
    (tmp_path / "nowhere").symlink_to("missing")
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    for read in (LocalStorage(tmp_path).read, lambda name: read_plain(tmp_path / name)):
        with pytest.raises(CorruptDataError, match=f"{tmp_path}/{said}.*Nothing was read or written there"):
            read(name)
