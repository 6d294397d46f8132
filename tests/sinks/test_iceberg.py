"""What tables of Iceberg alone do: numbers in summaries and properties, after roll-backs and expiry; arguments."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from penstock import SinkError, StreamsBuilder
from penstock.errors import ConfigError
from penstock.sinks import IcebergSink
from support.handing import handed_on, put
from support.lakes import IcebergLake

pytest.importorskip("pyiceberg.table")


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    return IcebergLake(tmp_path / "lake")


def appended(lake: IcebergLake) -> StreamsBuilder:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.to_sink(lake.sink("rows"), "rows", key=None, value="n", timestamp=None)
    return builder


def fill(lake: IcebergLake, folder: Path, *numbers: int) -> None:
    """Have the sink get numbers, each in a commit of its own."""
    for number in numbers:
        put(folder, "shop-rows-sink", ("a", number), key=str, value=int)
        handed_on(appended(lake), folder)


def rows(lake: IcebergLake) -> list[int]:
    return sorted(lake.arrow("rows")["n"].to_pylist())


def roll_back(lake: IcebergLake, to: int) -> None:
    """Have the table as it was after so many commits."""
    table = lake.table("rows")
    table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[to - 1].snapshot_id).commit()


def expire(lake: IcebergLake, first: int, last: int) -> None:
    """Forget snapshots by their place."""
    table = lake.table("rows")
    ids = [snapshot.snapshot_id for snapshot in table.metadata.snapshots[first - 1 : last]]
    table.maintenance.expire_snapshots().by_ids(ids).commit()


def test_a_table_that_is_rolled_back_is_given_again_what_it_lacks(
    lake: IcebergLake, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    fill(lake, tmp_path, 1, 2, 3)
    roll_back(lake, 1)
    assert rows(lake) == [1]
    with caplog.at_level(logging.WARNING):
        fill(lake, tmp_path, 4)
    assert rows(lake) == [1, 2, 3, 4]
    assert "the sink has number 1 and had 3 before: it was restored from an older copy" in caplog.text
    fill(lake, tmp_path, 5)
    assert rows(lake) == [1, 2, 3, 4, 5]


def test_a_table_that_is_rolled_back_behind_all_rows_is_given_all(lake: IcebergLake, tmp_path: Path):
    lake.create("rows", pa.schema([("n", pa.int64())]))
    lake.add("rows", pa.table({"n": [7]}))
    fill(lake, tmp_path, 1, 2)
    roll_back(lake, 1)
    fill(lake, tmp_path, 3)
    assert rows(lake) == [1, 2, 3, 7]


def test_a_number_outlives_its_snapshot(lake: IcebergLake, tmp_path: Path):
    fill(lake, tmp_path, 1, 2)
    for _ in range(2):
        lake.add("rows", pa.table({"n": [7]}))
    expire(lake, 1, 2)
    fill(lake, tmp_path, 3)
    assert rows(lake) == [1, 2, 3, 7, 7]


def test_a_table_that_is_rolled_back_to_where_its_number_has_expired_is_refused(lake: IcebergLake, tmp_path: Path):
    fill(lake, tmp_path, 1)
    for _ in range(2):
        lake.add("rows", pa.table({"n": [7]}))
    fill(lake, tmp_path, 2)
    roll_back(lake, 3)
    expire(lake, 1, 2)
    with pytest.raises(SinkError, match="the table was rolled back to before number 2 of 'shop/rows/0'"):
        fill(lake, tmp_path, 3)
    assert rows(lake) == [1, 7, 7]
    topic = lake.table("rows").properties["penstock.shop/rows/0"].split(" ")[2]
    with lake.table("rows").transaction() as transaction:
        transaction.set_properties({"penstock.shop/rows/0": f"0 1 {topic}"})
    handed_on(appended(lake), tmp_path)
    assert rows(lake) == [1, 2, 3, 7, 7]


def upserted(lake: IcebergLake, folder: Path, *changes: tuple[str, int | None]) -> None:
    """Hand changes of a table on."""
    builder = StreamsBuilder()
    sink = lake.sink("totals", rows=1_000)
    builder.table("in", key=str, value=int).to_sink(sink, "totals", key="who", value="n", timestamp=None)
    put(folder, "shop-totals-sink", *changes, key=str, value=int)
    handed_on(builder, folder)


def files_of(lake: IcebergLake) -> list[str]:
    return sorted(lake.table("totals").inspect.files()["file_path"].to_pylist())


@pytest.mark.parametrize("is_partitioned", [False, True])
def test_many_changes_write_only_files_again_that_have_their_keys_and_keep_other_columns(
    is_partitioned: bool, lake: IcebergLake, tmp_path: Path
):
    lake.create("totals", pa.schema([("who", pa.string()), ("note", pa.string()), ("n", pa.int64())]))
    if is_partitioned:
        with lake.table("totals").update_spec() as update:
            update.add_identity("note")
    for letter in "zab":
        names = [f"{letter}{n:04}" for n in range(500)]
        lake.add("totals", pa.table({"who": names, "note": [letter] * 500, "n": [0] * 500}))
        if letter == "z":
            [untouched] = files_of(lake)
    changes = [(f"{letter}{n:04}", None if n % 7 == 0 else n) for letter in "ab" for n in range(0, 500, 2)]
    upserted(lake, tmp_path, *changes, ("new", 1))
    changed = {who: n for who, n in changes if n is not None}
    expected = [("new", None, 1)]
    for letter in "abz":
        for n in range(500):
            who = f"{letter}{n:04}"
            if letter == "z" or n % 2 or who in changed:
                expected.append((who, letter, changed.get(who, 0)))
    found = [tuple(row.values()) for row in lake.arrow("totals").to_pylist()]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert untouched in files_of(lake)


REFUSED: dict[str, str] = {
    "IcebergSink(5, 'shop.rows')": "IcebergSink: catalog is the name of a catalog, or a dict of its properties",
    "IcebergSink({'token': 5}, 'shop.rows')": "IcebergSink: catalog is .*; properties are not shown",
    "IcebergSink('lake', 'rows')": "IcebergSink: table is a name behind that of a namespace, .* got 'rows'",
    "IcebergSink('lake', 'shop.rows', rows=0)": "IcebergSink: rows is a number of records from 1 on; got 0",
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_cannot_be_meant_is_refused_where_it_is_said(call: str):
    with pytest.raises(ConfigError, match=REFUSED[call]):
        eval(call, {"IcebergSink": IcebergSink})


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pyiceberg.table", None)
    with pytest.raises(ConfigError, match=r"pip install 'penstock-streams\[iceberg\]'"):
        IcebergSink("lake", "shop.rows")


def test_a_namespace_that_is_not_there_ends_the_program_at_once(lake: IcebergLake, tmp_path: Path):
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).to_sink(IcebergSink(lake.properties, "other.rows"), "rows")
    put(tmp_path, "shop-rows-sink", ("a", 1), key=str, value=int)
    with pytest.raises(SinkError, match=r"the catalog has no namespace for 'other.rows': create it first"):
        handed_on(builder, tmp_path)
