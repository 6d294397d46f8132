"""Parquet files by date, with manifests: every row once, whatever is killed, repeated or written twice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import SinkError, StreamsBuilder, faults
from penstock.errors import ConfigError, TopologyError
from penstock.log.file.log import FileLog
from penstock.sinks import ParquetSink
from penstock.sinks.parquet.dates import by_date
from support.handing import Order, handed_on, put

DAY = 86_400_000
TOPIC = "shop-rows-sink"


@dataclass
class Sized(Order):
    sizes: dict[str, int]


ORDER = Sized("tea", 2, 1.5, True, None, ["hot"], {"cup": 1})


def appended(folder: Path | str, **options: Any) -> StreamsBuilder:
    builder = StreamsBuilder()
    sink = ParquetSink(folder, **options)
    builder.stream("in", key=str, value=int).to_sink(sink, "rows", retry_for="20 s")
    return builder


def lake(folder: Path) -> Path:
    return folder / "lake"


def put_rows(folder: Path, *rows: tuple[str, int, int]) -> None:
    put(folder, TOPIC, *rows, key=str, value=int)


def files(folder: Path) -> list[str]:
    """The files of rows, without the last part of their names, which tells topics apart."""
    found = sorted(path.relative_to(lake(folder)).as_posix() for path in lake(folder).rglob("*.parquet"))
    return [name.rpartition("-")[0] for name in found]


def all_rows(folder: Path) -> list[tuple[str, int, int]]:
    """What readers see who read all files that are there: key, value, time in ms."""
    found = (row for path in lake(folder).rglob("*.parquet") for row in pq.ParquetFile(path).read().to_pylist())
    return sorted((row["key"], row["value"], round(row["timestamp"].timestamp() * 1000)) for row in found)


def manifests(folder: Path) -> list[Any]:
    found = sorted(lake(folder).glob("_penstock/*/*/*/*.json"))
    return [json.loads(path.read_text()) for path in found]


def counted(folder: Path) -> list[tuple[str, int, int]]:
    """The rows of the files that manifests name."""
    named = [file["path"] for manifest in manifests(folder) for file in manifest["files"]]
    found = [row for path in named for row in pq.ParquetFile(lake(folder) / path).read().to_pylist()]
    return sorted((row["key"], row["value"], round(row["timestamp"].timestamp() * 1000)) for row in found)


def plans(folder: Path) -> list[Path]:
    return sorted(lake(folder).rglob("*.plan"))


def test_rows_are_in_files_by_the_day_of_their_time_in_utc(tmp_path: Path):
    put_rows(tmp_path, ("a", 1, DAY), ("b", 2, DAY - 1), ("a", 3, 2 * DAY - 1), ("c", 4, 0))
    handed_on(appended(lake(tmp_path)), tmp_path)
    name = "shop-rows-0-0000000000000000"
    assert files(tmp_path) == [f"date=1970-01-01/{name}", f"date=1970-01-02/{name}"]
    assert all_rows(tmp_path) == [("a", 1, DAY), ("a", 3, 2 * DAY - 1), ("b", 2, DAY - 1), ("c", 4, 0)]
    second = next(lake(tmp_path).glob("date=1970-01-02/*"))
    assert pq.ParquetFile(second).read().to_pylist() == [
        {"key": "a", "value": 1, "timestamp": datetime(1970, 1, 2, tzinfo=UTC)},
        {"key": "a", "value": 3, "timestamp": datetime(1970, 1, 2, 23, 59, 59, 999_000, UTC)},
    ]


def test_a_manifest_has_the_numbers_and_the_files_of_each_batch(tmp_path: Path):
    put_rows(tmp_path, ("a", 1, 0), ("b", 2, DAY))
    handed_on(appended(lake(tmp_path)), tmp_path)
    put_rows(tmp_path, ("c", 3, DAY))
    handed_on(appended(lake(tmp_path)), tmp_path)
    first, second = manifests(tmp_path)
    assert [(one["before"], one["number"]) for one in (first, second)] == [(0, 2), (2, 3)]
    assert [one["rows"] for one in (*first["files"], *second["files"])] == [1, 1, 1]
    sizes = {one["path"]: one["bytes"] for one in (*first["files"], *second["files"])}
    assert sizes == {
        path.relative_to(lake(tmp_path)).as_posix(): path.stat().st_size for path in lake(tmp_path).rglob("*.parquet")
    }
    assert first["topic"] == FileLog(tmp_path / "log").topic_id(TOPIC)
    assert counted(tmp_path) == [("a", 1, 0), ("b", 2, DAY), ("c", 3, DAY)]
    assert plans(tmp_path) == []


def test_without_dates_the_files_are_in_the_folder_itself(tmp_path: Path):
    put_rows(tmp_path, ("a", 1, 0), ("b", 2, DAY))
    handed_on(appended(lake(tmp_path), date=None), tmp_path)
    assert files(tmp_path) == ["shop-rows-0-0000000000000000"]
    assert all_rows(tmp_path) == [("a", 1, 0), ("b", 2, DAY)]


def test_fields_of_all_types_are_columns_and_other_readers_see_the_dates(tmp_path: Path):
    duckdb = pytest.importorskip("duckdb")
    builder = StreamsBuilder()
    orders = builder.stream("in", key=str, value=Sized)
    orders.to_sink(ParquetSink(lake(tmp_path)), "rows", key="number")
    put(tmp_path, TOPIC, ("1", ORDER, 5_000), ("2", None, DAY), key=str, value=Sized)
    handed_on(builder, tmp_path)
    found = duckdb.sql(
        f"select number, item, count, price, paid, note, tags, sizes, epoch_ms(timestamp), date::text "
        f"from read_parquet('{lake(tmp_path)}/*/*.parquet', hive_partitioning=true) order by number"
    ).fetchall()
    assert found == [
        ("1", "tea", 2, 1.5, True, None, ["hot"], {"cup": 1}, 5_000, "1970-01-01"),
        ("2", None, None, None, None, None, None, None, DAY, "1970-01-02"),
    ]


TIMES: dict[str, tuple[Any, list[Any]]] = {
    "seconds of no zone": (pa.timestamp("s"), [-1, None, 86_400, 0]),
    "microseconds of a zone": (pa.timestamp("us", "America/New_York"), [-1, None, 86_400_000_000, 86_399_999_999]),
    "days": (pa.date32(), [-1, None, 1, 0]),
    "milliseconds of days": (pa.date64(), [-86_400_000, None, 86_400_000, 0]),
}


@pytest.mark.parametrize("kind", TIMES)
def test_columns_of_times_and_of_days_split_rows_by_the_day_in_utc(kind: str):
    type_, times = TIMES[kind]
    table = pa.table({"at": pa.array(times, type_), "n": [1, 2, 3, 4]})
    assert [(day, rows["n"].to_pylist()) for day, rows in by_date(table, "at")] == [
        ("1969-12-31", [1]),
        ("1970-01-01", [4]),
        ("1970-01-02", [3]),
        ("__HIVE_DEFAULT_PARTITION__", [2]),
    ]


def test_batches_have_at_most_so_many_records(tmp_path: Path):
    rows = [(f"k{n % 3}", n, n) for n in range(10)]
    put_rows(tmp_path, *rows)
    handed_on(appended(lake(tmp_path), rows=4), tmp_path)
    assert files(tmp_path) == [f"date=1970-01-01/shop-rows-0-{first:016d}" for first in (0, 4, 8)]
    assert all_rows(tmp_path) == counted(tmp_path) == sorted(rows)


# --- what goes wrong -------------------------------------------------------------------------------------------------


def at_points(monkeypatch: pytest.MonkeyPatch, does: Callable[[], None], *points: tuple[str, int]) -> list[str]:
    """Do something when a point is reached for so many times; return the list of where it was done."""
    seen: list[str] = []
    done: list[str] = []

    def reached(point: str) -> None:
        seen.append(point)
        if (point, seen.count(point)) in points and point in faults.SINK_POINTS:
            done.append(point)
            does()

    monkeypatch.setattr(faults, "listener", reached)
    return done


def fail() -> None:
    raise OSError("the disk is full")


@pytest.mark.parametrize("at", [("before-sink", 1), ("in-sink", 1), ("in-sink", 2), ("after-sink", 1)])
def test_a_batch_that_fails_is_written_again_with_the_same_records_although_more_have_come(
    at: tuple[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    rows = [("a", 1, 0), ("b", 2, DAY)]
    put_rows(tmp_path, *rows)

    def fails() -> None:
        put_rows(tmp_path, ("c", 3, 2 * DAY))
        fail()

    done = at_points(monkeypatch, fails, at)
    handed_on(appended(lake(tmp_path)), tmp_path)
    handed_on(appended(lake(tmp_path)), tmp_path)
    assert done == [at[0]]
    assert all_rows(tmp_path) == counted(tmp_path) == [*rows, ("c", 3, 2 * DAY)]
    assert plans(tmp_path) == []
    first = manifests(tmp_path)[0]
    assert first["number"] == (3 if at[0] == "before-sink" else 2)


@pytest.mark.parametrize("at", [("before-sink", 1), ("in-sink", 1), ("in-sink", 2)])
def test_two_programs_that_write_at_once_do_not_double_a_batch(
    at: tuple[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As a program does that sleeps while another one takes over, and wakes in the middle of a batch."""
    rows = [("a", 1, 0), ("b", 2, DAY)]
    put_rows(tmp_path, *rows)

    def another() -> None:
        put_rows(tmp_path, ("c", 3, 2 * DAY))
        handed_on(appended(lake(tmp_path)), tmp_path)
        assert all_rows(tmp_path) == counted(tmp_path) == [*rows, ("c", 3, 2 * DAY)]

    done = at_points(monkeypatch, another, at)
    handed_on(appended(lake(tmp_path)), tmp_path)
    assert done == [at[0]]
    assert all_rows(tmp_path) == counted(tmp_path) == [*rows, ("c", 3, 2 * DAY)]


def test_files_of_an_unfinished_batch_go_when_it_is_written_to_other_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    put_rows(tmp_path, ("a", 1, 0), ("b", 2, DAY))
    done = at_points(monkeypatch, lambda: (_ for _ in ()).throw(SinkError("stop here")), ("in-sink", 2))
    with pytest.raises(SinkError, match="stop here"):
        handed_on(appended(lake(tmp_path)), tmp_path)
    assert (done, len(files(tmp_path)), manifests(tmp_path)) == (["in-sink"], 2, [])
    handed_on(appended(lake(tmp_path), date=None), tmp_path)
    assert files(tmp_path) == ["shop-rows-0-0000000000000000"]
    assert all_rows(tmp_path) == counted(tmp_path) == [("a", 1, 0), ("b", 2, DAY)]


def test_a_folder_that_was_restored_from_an_older_copy_gets_what_it_lacks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    put_rows(tmp_path, ("a", 1, 0))
    handed_on(appended(lake(tmp_path)), tmp_path)
    shutil.copytree(lake(tmp_path), tmp_path / "older")
    for n in (2, 3):
        put_rows(tmp_path, ("a", n, n * DAY))
        handed_on(appended(lake(tmp_path)), tmp_path)
    shutil.rmtree(lake(tmp_path))
    shutil.move(tmp_path / "older", lake(tmp_path))
    handed_on(appended(lake(tmp_path)), tmp_path)
    assert "the sink has number 1 and had 3 before: it was restored from an older copy" in caplog.text
    assert all_rows(tmp_path) == counted(tmp_path) == [("a", 1, 0), ("a", 2, 2 * DAY), ("a", 3, 3 * DAY)]


def test_a_log_that_was_made_anew_is_told_apart_although_its_numbers_fit(tmp_path: Path):
    put_rows(tmp_path, ("a", 1, 0))
    handed_on(appended(lake(tmp_path)), tmp_path)
    FileLog(tmp_path / "log").delete_topic(TOPIC)
    put_rows(tmp_path, ("a", 1, 0), ("a", 2, 0))
    with pytest.raises(SinkError, match=r"the sink has rows of another topic .* Empty the folder of Parquet files in"):
        handed_on(appended(lake(tmp_path)), tmp_path)
    assert all_rows(tmp_path) == [("a", 1, 0)]


def test_a_log_that_was_restored_behind_an_unfinished_batch_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    put_rows(tmp_path, ("a", 1, 0))
    shutil.copytree(tmp_path / "log", tmp_path / "older")
    put_rows(tmp_path, ("a", 2, 0))
    at_points(monkeypatch, lambda: (_ for _ in ()).throw(SinkError("stop here")), ("in-sink", 1))
    with pytest.raises(SinkError, match="stop here"):
        handed_on(appended(lake(tmp_path)), tmp_path)
    shutil.rmtree(tmp_path / "log")
    shutil.move(tmp_path / "older", tmp_path / "log")
    with pytest.raises(SinkError, match=r"has begun a batch up to number 2, and topic .* ends at offset 1"):
        handed_on(appended(lake(tmp_path)), tmp_path)


def test_a_begun_batch_whose_records_are_gone_ends_the_program_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    put_rows(tmp_path, ("a", 1, 0), ("a", 2, 0))
    at_points(monkeypatch, lambda: (_ for _ in ()).throw(SinkError("stop here")), ("in-sink", 1))
    with pytest.raises(SinkError, match="stop here"):
        handed_on(appended(lake(tmp_path)), tmp_path)
    put_rows(tmp_path, ("a", 3, 0))
    FileLog(tmp_path / "log").trim(TOPIC, {0: 2})
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).to_sink(ParquetSink(lake(tmp_path)), "rows", missing="skip")
    with pytest.raises(SinkError, match=r"a batch of 2 records was begun .* are gone\..* remove .*/0{16}.plan"):
        handed_on(builder, tmp_path)
    plans(tmp_path)[0].unlink()
    handed_on(builder, tmp_path)
    assert all_rows(tmp_path) == counted(tmp_path) == [("a", 3, 0)]


def test_two_programs_and_two_sinks_share_a_folder(tmp_path: Path):
    builder = appended(lake(tmp_path))
    builder.stream("other", key=str, value=int).to_sink(ParquetSink(lake(tmp_path)), "more")
    put_rows(tmp_path, ("a", 1, 0))
    put(tmp_path, "shop-more-sink", ("b", 2, 0), key=str, value=int)
    handed_on(builder, tmp_path)
    assert all_rows(tmp_path) == counted(tmp_path) == [("a", 1, 0), ("b", 2, 0)]


def test_a_damaged_manifest_ends_the_program_and_is_named(tmp_path: Path):
    put_rows(tmp_path, ("a", 1, 0))
    handed_on(appended(lake(tmp_path)), tmp_path)
    [manifest] = lake(tmp_path).glob("_penstock/*/*/*/*.json")
    manifest.write_text("{")
    with pytest.raises(SinkError, match=r"_penstock/shop/rows/0/0000000000000000.json is damaged"):
        handed_on(appended(lake(tmp_path)), tmp_path)


# --- refused ---------------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[type[Exception], str]] = {
    "ParquetSink(5)": (ConfigError, "ParquetSink: place is a folder or the URL of an object store; got 5"),
    "ParquetSink('')": (ConfigError, "ParquetSink: place is a folder or the URL of an object store; got ''"),
    "ParquetSink('hdfs://a/b')": (ConfigError, "ParquetSink: place: .* is neither a folder nor an object store"),
    "ParquetSink('x', date=5)": (ConfigError, "date is the name of a column, or None for no folders; got 5"),
    "ParquetSink('x', rows=0)": (ConfigError, "ParquetSink: rows is a number of records from 1 on; got 0"),
    "ParquetSink('x', every='soon')": (ConfigError, "ParquetSink: every"),
    "table.to_sink(ParquetSink('x'), 'rows')": (
        TopologyError,
        r"to_sink at .*: Parquet files in .*x takes streams alone: .* write table.to_stream\(\).to_sink",
    ),
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_cannot_be_meant_is_refused_where_it_is_said(call: str):
    kind, said = REFUSED[call]
    known = {"ParquetSink": ParquetSink, "table": StreamsBuilder().table("in", key=str, value=int)}
    with pytest.raises(kind, match=said):
        eval(call, known)


UNFIT: dict[str, tuple[Any, str]] = {
    "duration": (pa.duration("us"), "durations become numbers of no unit"),
    "in a list": (pa.list_(pa.duration("us")), "durations become numbers of no unit"),
    "interval": (pa.month_day_nano_interval(), "Unhandled type"),
    "no fields": (pa.struct([]), "no child field"),
}


@pytest.mark.parametrize("kind", UNFIT)
def test_columns_that_parquet_cannot_keep_are_refused(kind: str):
    type_, said = UNFIT[kind]
    schema = pa.schema([("n", pa.int64()), ("x", type_)])
    with pytest.raises(ConfigError, match=f"Parquet cannot keep column 'x' of Arrow's type .*: .*{said}"):
        ParquetSink("lake", date=None).check_columns(schema)


KEPT: dict[str, pa.Array] = {
    "null": pa.nulls(2),
    "small number": pa.array([1, None], pa.uint8()),
    "large number": pa.array([2**64 - 1, None], pa.uint64()),
    "half": pa.array([1.5, None], pa.float16()),
    "decimal": pa.array([None, 10**60], pa.decimal256(70, 2)),
    "bytes": pa.array([b"\0", None], pa.binary(1)),
    "nanoseconds": pa.array([1, None], pa.timestamp("ns", "Europe/Berlin")),
    "time of day": pa.array([1, None], pa.time64("ns")),
    "day": pa.array([1, None], pa.date32()),
    "words": pa.array(["a", None]).dictionary_encode(),
    "structs of lists": pa.array([{"a": [1, None]}, None]),
    "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
}


@pytest.mark.parametrize("kind", KEPT)
def test_columns_of_all_other_types_are_kept(kind: str, tmp_path: Path):
    table = pa.table({"x": KEPT[kind]})
    ParquetSink("lake", date=None).check_columns(table.schema)
    pq.write_table(table, tmp_path / "x.parquet", compression="zstd")
    assert pq.read_table(tmp_path / "x.parquet")["x"].combine_chunks() == KEPT[kind]


def started(tmp_path: Path, sink: ParquetSink, **columns: Any) -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).to_sink(sink, "rows", **columns)
    handed_on(builder, tmp_path)


def test_a_date_that_is_no_column_of_times_is_refused_before_anything_starts(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"to_sink at .*: .* date='timestamp' is not a column of .* there are: 'at'"):
        started(tmp_path, ParquetSink(lake(tmp_path)), timestamp="at")
    with pytest.raises(ConfigError, match=r"date='value' is not a column of times or dates; .* there are: 'timestamp'"):
        started(tmp_path, ParquetSink(lake(tmp_path), date="value"))
    with pytest.raises(ConfigError, match="column 'date' has the name of the folders"):
        started(tmp_path, ParquetSink(lake(tmp_path)), value="date")
    assert not lake(tmp_path).exists()


# --- object stores ---------------------------------------------------------------------------------------------------


def downloaded(url: str, folder: Path) -> None:
    """Copy what is at a URL into the folder of the lake."""
    from penstock.storage.objects import ObjectStorage

    storage = ObjectStorage(url)
    shutil.rmtree(lake(folder), ignore_errors=True)
    for name in storage.list(""):
        path = lake(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(storage.read(name))


def test_rows_go_into_a_bucket_and_a_failing_batch_comes_again(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    url, rows = s3.bucket(), [("a", 1, 0), ("b", 2, DAY)]
    put_rows(tmp_path, *rows)
    done = at_points(monkeypatch, fail, ("in-sink", 1), ("in-sink", 3))
    handed_on(appended(f"{url}/"), tmp_path)
    put_rows(tmp_path, ("c", 3, DAY))
    s3.tell(failing=2)
    handed_on(appended(url), tmp_path)
    downloaded(url, tmp_path)
    assert done == ["in-sink", "in-sink"]
    assert all_rows(tmp_path) == counted(tmp_path) == [*rows, ("c", 3, DAY)]
    assert plans(tmp_path) == []


def test_two_programs_that_write_into_a_bucket_at_once_do_not_double_a_batch(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    url, rows = s3.bucket(), [("a", 1, 0), ("b", 2, DAY)]
    put_rows(tmp_path, *rows)
    done = at_points(monkeypatch, lambda: handed_on(appended(url), tmp_path), ("in-sink", 1))
    handed_on(appended(url), tmp_path)
    downloaded(url, tmp_path)
    assert done == ["in-sink"]
    assert all_rows(tmp_path) == counted(tmp_path) == rows


def test_a_store_without_conditional_puts_is_refused(s3: Any, tmp_path: Path):
    s3.tell(is_conditional=False)
    put_rows(tmp_path, ("a", 1, 0))
    with pytest.raises(SinkError, match=r"the place of a ParquetSink s3://.* knows no conditional puts"):
        handed_on(appended(s3.bucket()), tmp_path)
