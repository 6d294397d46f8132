"""A task's database: all column families and the offsets are durable together, or not at all."""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import StoreError
from penstock.state import database_options
from penstock.state.database import Database
from penstock.state.inventory import DamagedStateError


def test_rows_are_got_and_scanned_between_bounds_both_ways(tmp_path: Path):
    database = Database(tmp_path / "db")
    rows = [(b"", b"0"), (b"a", b"1"), (b"ab", b"2"), (b"b", b"3"), (b"\xff\xff", b"4")]
    database.write({"s": iter(rows), "t": iter([(b"a", b"other")])}, {})
    family = database.family("s")
    assert family.get_many([b"b", b"nowhere", b"", b"b"]) == [b"3", None, b"0", b"3"]
    for low, high, expected in [
        (None, None, rows),
        (b"a", b"b", rows[1:3]),
        (b"aa", None, rows[2:]),
        (None, b"a", rows[:1]),
        (b"b", b"a", []),
    ]:
        assert list(family.scan(low, high)) == expected
        assert list(family.scan(low, high, reverse=True)) == expected[::-1]
    database.close()


def test_the_first_key_of_each_range_is_as_long_as_its_bounds(tmp_path: Path):
    database = Database(tmp_path / "db")
    database.write({"s": iter([(key, b"") for key in (b"a1", b"a1x", b"a3", b"a3x", b"a5", b"b")])}, {})
    family = database.family("s")
    ranges = [(b"a1", b"a9"), (b"a2", b"a9"), (b"a4", b"a5"), (b"a6", b"a9"), (b"b0", b"b9"), (b"a0", b"a1")]
    assert family.firsts(ranges) == [b"a1", b"a3", None, None, None, None]
    assert database.family("t").firsts(ranges[:1]) == [None]
    database.close()


def test_a_write_puts_and_deletes_in_several_families_and_keeps_the_meta_data(tmp_path: Path):
    database = Database(tmp_path / "db")
    assert database.meta() == {}
    database.write({"s": iter([(b"a", b"1"), (b"b", b"2")]), "t": iter([(b"c", b"3")])}, {"commit": 1})
    database.write({"s": iter([(b"a", None), (b"b", b"4")])}, {"commit": 2, "numbers": {"x": {"y": 7}}})
    database.close()
    again = Database(tmp_path / "db")
    assert again.meta() == {"commit": 2, "numbers": {"x": {"y": 7}}}
    assert (again.families(), list(again.family("s").scan(None, None))) == (["s", "t"], [(b"b", b"4")])
    again.close()


def flush(database: Database) -> None:
    """RocksDB may say that it has flushed a moment before it moves the log that is done with."""
    logs = [log.name for log in database.path.glob("*.log") if log.stat().st_size]
    assert logs != []
    for family in ("s", "offsets"):
        database._families[family]._db.flush()
    over = time.monotonic() + 60
    while not all((database.path / "archive" / name).exists() for name in logs):
        assert time.monotonic() < over, f"{logs} are not moved"
        time.sleep(0.001)


def killed_after_its_log_was_done_with(folder: Path) -> Path:
    """The files of a database that RocksDB has flushed beside, when it is killed before it does anything more."""
    running, killed = Database(folder / "running"), folder / "killed"
    running.write({"s": iter([(b"a", b"1")])}, {"commit": 1})
    flush(running)
    shutil.copytree(folder / "running", killed)
    running.close()
    return killed


@pytest.mark.kip("892-13")
def test_a_log_whose_rows_are_in_tables_is_not_missed_after_a_kill(tmp_path: Path):
    killed = killed_after_its_log_was_done_with(tmp_path)
    assert [path.parent.name for path in killed.rglob("*.log") if path.stat().st_size] == ["archive"]
    database = Database(killed)
    assert (database.meta(), list(database.family("s").scan(None, None))) == ({"commit": 1}, [(b"a", b"1")])
    assert list((killed / "archive").iterdir()) == []
    database.close()


def test_a_log_that_is_nowhere_was_lost(tmp_path: Path):
    killed = killed_after_its_log_was_done_with(tmp_path)
    (log,) = (killed / "archive").iterdir()
    log.unlink()
    with pytest.raises(DamagedStateError, match=f"cannot read .*{log.name}"):
        Database(killed)


def test_logs_that_are_done_with_go_with_the_next_write(tmp_path: Path):
    database = Database(tmp_path)
    for commit in range(3):
        database.write({"s": iter([(b"a", b"1")])}, {"commit": commit})
        flush(database)
    assert len(list((tmp_path / "archive").iterdir())) == 1
    database.settle()
    assert list((tmp_path / "archive").iterdir()) == []
    database.close()


def test_a_family_knows_whether_it_is_empty(tmp_path: Path):
    database = Database(tmp_path / "db")
    assert database.family("s").is_empty
    database.write({"s": iter([(b"a", b"1")])}, {})
    assert not database.family("s").is_empty
    database.close()
    again = Database(tmp_path / "db")
    assert (again.family("s").is_empty, again.family("t").is_empty) == (False, True)
    again.close()


def test_a_dropped_family_is_gone_with_its_rows_and_may_come_back_empty(tmp_path: Path):
    database = Database(tmp_path / "db")
    database.write({"s/0": iter([(b"a", b"1")]), "s/1": iter([(b"a", b"2")])}, {})
    database.drop("s/0")
    assert database.families() == ["s/1"]
    assert list(database.family("s/0").scan(None, None)) == []
    database.close()
    again = Database(tmp_path / "db")
    assert {name: list(again.family(name).scan(None, None)) for name in again.families()} == {
        "s/0": [],
        "s/1": [(b"a", b"2")],
    }
    again.close()


@pytest.mark.kip("892-09")
def test_offsets_lie_in_a_column_family_of_their_own_and_there_is_no_checkpoint_file(tmp_path: Path):
    database = Database(tmp_path / "db")
    database.write({"s": iter([(b"meta", b"a row of the user's own")])}, {"commit": 5})
    assert [key for key, _ in database.family("offsets").scan(None, None)] == [b"meta"]
    assert list(database.family("s").scan(None, None)) == [(b"meta", b"a row of the user's own")]
    database.close()
    assert not list(tmp_path.rglob("*.checkpoint"))


def test_a_checkpoint_stays_as_it_was_while_the_database_goes_on(tmp_path: Path):
    database = Database(tmp_path / "db")
    database.write({"s": iter([(b"a", b"1")])}, {"commit": 1})
    database.checkpoint(tmp_path / "copy")
    database.write({"s": iter([(b"a", b"2")])}, {"commit": 2})
    database.close()
    copy = Database(tmp_path / "copy")
    assert (copy.meta(), copy.family("s").get_many([b"a"])) == ({"commit": 1}, [b"1"])
    copy.close()


def test_a_second_program_is_told_that_the_database_is_in_use(tmp_path: Path):
    database = Database(tmp_path / "db")
    with pytest.raises(StoreError, match=r"in use by another process after 0\.1 s .*stop the other program"):
        Database(tmp_path / "db", patience=0.1)
    database.close()
    Database(tmp_path / "db", patience=0.1).close()


def test_a_damaged_database_says_which_file_it_is(tmp_path: Path):
    Database(tmp_path / "db").close()
    for manifest in (tmp_path / "db").glob("MANIFEST-*"):
        manifest.write_bytes(b"not a manifest")
    with pytest.raises(StoreError, match=r"db/MANIFEST-\d+ has 14 bytes and had \d+$"):
        Database(tmp_path / "db")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"cannot make the state folder .*file/db"):
        Database(tmp_path / "file" / "db")


# --- kill -9 ------------------------------------------------------------------------------------------------------

WRITER = """
import json, sys
from contextlib import suppress
from pathlib import Path
from typing import Any
from penstock.state.database import Database
from penstock.state.inventory import DamagedStateError

database = Database(Path(sys.argv[1]))
n = database.meta().get("commit", 0)
while True:
    n += 1
    rows = {name: iter([(b"%08d" % n, name.encode() * 20_000), (b"latest", b"%d" % n)]) for name in ("a", "b", "c")}
    database.write(rows, {"commit": n})
    print(n, flush=True)
"""


def kill_while_writing(folder: Path, after: int) -> int:
    """Kill a process that writes commit after commit; the last commit whose write had returned."""
    child = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True)
    for _ in range(after):
        last = child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    last = (child.stdout.read().splitlines() or [last])[-1]
    child.wait()
    return int(last)


def check_that_all_families_agree(folder: Path, returned: int) -> None:
    database = Database(folder)
    commit = database.meta()["commit"]
    assert commit in (returned, returned + 1)
    for name in ("a", "b", "c"):
        rows = dict(database.family(name).scan(None, None))
        assert rows.pop(b"latest") == b"%d" % commit
        assert list(rows) == [b"%08d" % n for n in range(1, commit + 1)]
    database.close()


@pytest.mark.kip("892-09")
@pytest.mark.slow
def test_rows_and_commit_number_of_all_families_agree_after_kill_9(tmp_path: Path):
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(12):
        returned = kill_while_writing(tmp_path / "db", chance.randint(1, 60))
        check_that_all_families_agree(tmp_path / "db", returned)


class StopsAfterOneWrite:
    """RocksDB of a process that stops after its next write."""

    def __init__(self, rocksdb: Any):
        self._rocksdb = rocksdb
        self._has_written = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rocksdb, name)

    def write(self, *given: Any) -> None:
        if self._has_written:
            raise OSError("the process has stopped")
        self._has_written = True
        self._rocksdb.write(*given)


@pytest.mark.kip("892-09")
def test_rows_of_all_families_and_offsets_are_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    database = Database(tmp_path / "db")
    database.write({"s": iter([(b"a", b"1")]), "t": iter([(b"x", b"1")])}, {"commit": 1})
    with monkeypatch.context() as stopping:
        stopping.setattr(database, "_db", StopsAfterOneWrite(database._db))
        with suppress(Exception):
            database.write({"s": iter([(b"a", b"2")]), "t": iter([(b"x", None)])}, {"commit": 2})
    found = {name: list(database.family(name).scan(None, None)) for name in database.families()}
    assert (database.meta(), found) == ({"commit": 2}, {"s": [(b"a", b"2")], "t": []})
    database.close()


@pytest.mark.kip("892-09")
def test_a_write_is_there_after_kill_9_as_soon_as_it_returned(tmp_path: Path):
    returned = kill_while_writing(tmp_path / "db", 3)
    check_that_all_families_agree(tmp_path / "db", returned)


def test_the_meta_data_is_plain_json(tmp_path: Path):
    database = Database(tmp_path / "db")
    database.write({}, {"commit": 3, "application": "ä"})
    [(_, stored)] = database.family("offsets").scan(None, None)
    assert json.loads(stored) == {"commit": 3, "application": "ä"}
    database.close()


def test_a_database_of_few_rows_stays_small_however_often_column_families_come_and_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(database_options, "MANIFEST_BYTES", 4_000)
    monkeypatch.setattr("penstock.state.database.LOG_BYTES", 50_000)
    database = Database(tmp_path / "db")
    for number in range(120):
        database.write({f"s/{number}": iter([(b"k", b"%d" % number)])}, {"commit": number})
        if number >= 3:
            database.drop(f"s/{number - 3}")
        database.settle()
    files = [*(tmp_path / "db").iterdir()]
    assert next(path.stat().st_size for path in files if path.name.startswith("MANIFEST")) < 3 * 4_000
    assert sum(path.stat().st_blocks * 512 for path in files if path.name.startswith("LOG")) < 150_000
    assert len(files) < 30
    database.abandon()
    database = Database(tmp_path / "db")
    assert (database.meta(), database.families()) == ({"commit": 119}, ["s/117", "s/118", "s/119"])
    assert database.family("s/119").get(b"k") == b"119"
    database.close()
