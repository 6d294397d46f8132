"""What is put where a file of a log belongs: nothing is written through links, and pipes keep nobody waiting."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import CorruptDataError, PenstockError, StoreError
from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog
from penstock.storage.base import LocalStorage, replace_file
from support.logs import append, rows
from support.no_files import SPECIAL, Make, folder, link_to_device

pytestmark = pytest.mark.usefixtures("never_waits")

PRECIOUS = b"a file of mine\n" * 20


@pytest.fixture
def log(tmp_path: Path) -> FileLog:
    log = FileLog(tmp_path / "log")
    log.create_topic(TopicInfo("t", 1))
    append(log, "t", (b"a", b"1", 10))
    append(log, "t", (b"b", b"2", 20))
    return log


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    path = tmp_path / "precious"
    path.write_bytes(PRECIOUS)
    return path


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
@pytest.mark.parametrize("is_known", [True, False])
def test_an_append_never_writes_what_newest_is_a_link_to(
    log: FileLog, precious: Path, link: Callable[[Path, Path], None], is_known: bool
):
    note = log.root / "t" / "newest"
    note.unlink()
    link(precious, note)
    append(log if is_known else FileLog(log.root), "t", (b"c", b"3", 30))
    assert precious.read_bytes() == PRECIOUS
    assert not note.is_symlink()
    assert note.stat().st_nlink == 1
    assert rows(FileLog(log.root), "t") == [(0, b"a", b"1", 10), (1, b"b", b"2", 20), (2, b"c", b"3", 30)]
    (log.root / "t" / "commits" / f"{2:016d}.json").unlink()
    with pytest.raises(CorruptDataError, match="is missing, with the newest records of topic 't'"):
        FileLog(log.root).end_offsets("t")


def test_an_append_makes_no_file_where_newest_leads_nowhere(log: FileLog, tmp_path: Path):
    note = log.root / "t" / "newest"
    note.unlink()
    note.symlink_to(tmp_path / "made")
    append(log, "t", (b"c", b"3", 30))
    assert not (tmp_path / "made").exists()
    assert not note.is_symlink()


def test_an_entry_that_is_a_link_which_leads_nowhere_is_an_error_and_no_free_number(log: FileLog, tmp_path: Path):
    entry = log.root / "t" / "commits" / f"{2:016d}.json"
    entry.symlink_to(tmp_path / "made")
    with pytest.raises(CorruptDataError, match=f"{entry} is a symbolic link that leads nowhere.*Remove it"):
        append(log, "t", (b"c", b"3", 30))
    assert not (tmp_path / "made").exists()
    entry.unlink()
    append(log, "t", (b"c", b"3", 30))
    assert len(rows(log, "t")) == 3


FILES = ["topic.json", "newest", "commits/*.json", "data/*.arrow"]


@pytest.mark.parametrize(("made", "kind"), SPECIAL.items())
@pytest.mark.parametrize("pattern", FILES)
def test_what_is_no_file_is_an_error_at_once_that_names_it_and_what_to_do(
    log: FileLog, precious: Path, made: Make, kind: str, pattern: str
):
    path = sorted((log.root / "t").glob(pattern))[-1]
    whole = path.read_bytes()
    path.unlink()
    made(path, precious)
    with pytest.raises(PenstockError, match=f"{path} is {kind}, and a file belongs there.*Remove it, and bring"):
        rows(FileLog(log.root), "t")
    path.rmdir() if path.is_dir() else path.unlink()
    path.write_bytes(whole)
    assert len(rows(FileLog(log.root), "t")) == 2


@pytest.mark.parametrize(("made", "kind"), SPECIAL.items())
@pytest.mark.parametrize("name", ["t/commits/0000000000000002.json", "t/index/left.node", "@applications/app.json"])
def test_nodes_states_and_claims_that_are_no_files_keep_nobody_waiting(
    log: FileLog, precious: Path, name: str, made: Make, kind: str
):
    path = log.root / name
    path.parent.mkdir(exist_ok=True)
    made(path, precious)
    with pytest.raises(CorruptDataError, match=f"{path} is {kind}"):
        LocalStorage(log.root).read(name)
    if "commits" in name:
        with pytest.raises(CorruptDataError, match=f"{path} is {kind}"):
            append(log, "t", (b"c", b"3", 30))


@pytest.mark.parametrize(("made", "kind"), SPECIAL.items())
def test_a_topic_whose_description_is_no_file_is_not_waited_for_by_whoever_removes_it(
    log: FileLog, precious: Path, made: Make, kind: str
):
    path = log.root / "t" / "topic.json"
    path.unlink()
    made(path, precious)
    kind = "a symbolic link" if made is link_to_device else kind
    with pytest.raises(CorruptDataError, match=f"{path} is {kind}"):
        log.delete_topic("t")


@pytest.mark.parametrize(("made", "kind"), SPECIAL.items())
def test_an_append_meets_a_newest_that_is_no_file_and_says_so_at_once(
    log: FileLog, precious: Path, made: Make, kind: str
):
    note = log.root / "t" / "newest"
    note.unlink()
    made(note, precious)
    with pytest.raises(CorruptDataError, match=f"{note} is {kind}, and a file belongs there"):
        append(FileLog(log.root), "t", (b"c", b"3", 30))


@pytest.mark.parametrize("made", SPECIAL)
@pytest.mark.parametrize("place", ["the file's own", "what is written beside it"])
def test_a_file_that_is_replaced_is_made_good_or_refused_where_there_is_something_else(
    tmp_path: Path, precious: Path, place: str, made: Make
):
    made(tmp_path / ("note" if place == "the file's own" else f".tmp-note-{os.getpid()}"), precious)
    if made is folder:
        with pytest.raises(StoreError, match=f"cannot write {tmp_path}/note: Is a directory; .* Remove the folder"):
            replace_file(tmp_path / "note", b"new")
    else:
        replace_file(tmp_path / "note", b"new")
        assert (tmp_path / "note").read_bytes() == b"new"


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_a_file_that_is_replaced_is_not_written_through_what_was_left_beside_it(
    tmp_path: Path, precious: Path, link: Callable[[Path, Path], None]
):
    left = tmp_path / f".tmp-note-{os.getpid()}"
    link(precious, left)
    replace_file(tmp_path / "note", b"new")
    assert (precious.read_bytes(), (tmp_path / "note").read_bytes()) == (PRECIOUS, b"new")
    assert not (tmp_path / "note").is_symlink()


def test_entries_states_and_notes_of_another_topic_are_told_from_this_ones(log: FileLog):
    log.create_topic(TopicInfo("u", 1))
    append(log, "u", (b"a", b"1", 10))
    append(log, "u", (b"b", b"2", 20))
    for name in (f"commits/{0:016d}.json", "newest"):
        path, other = log.root / "t" / name, log.root / "u" / name
        whole = path.read_bytes()
        shutil.copy(other, path)
        with pytest.raises(CorruptDataError, match=f"{path} is of another topic .with the id .*backup"):
            FileLog(log.root).end_offsets("t")
        path.write_bytes(whole)
    assert len(rows(FileLog(log.root), "t")) == 2


def test_an_entry_under_another_number_is_refused_though_its_records_would_fit(log: FileLog):
    log.set_retention("t", retention_ms=10**9)
    log.set_retention("t", retention_ms=10**10)
    first, second = (log.root / "t" / "commits" / f"{number:016d}.json" for number in (2, 3))
    aside = first.with_name("aside")
    first.rename(aside)
    second.rename(first)
    aside.rename(second)
    with pytest.raises(CorruptDataError, match=f"{first} does not fit the topic: it is entry 3"):
        FileLog(log.root).end_offsets("t")
