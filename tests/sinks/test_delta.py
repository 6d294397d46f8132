"""What tables of Delta Lake alone do: rules, forgotten numbers, arguments."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock import SinkError, StreamsBuilder, faults
from penstock.errors import ConfigError
from penstock.sinks import DeltaSink
from support.handing import handed_on, put

deltalake = pytest.importorskip("deltalake")


def appended(folder: Path) -> StreamsBuilder:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.to_sink(DeltaSink(folder / "rows"), "rows", key=None, value="n", timestamp=None)
    return builder


def test_a_table_of_the_users_own_keeps_its_partitions(tmp_path: Path):
    deltalake.DeltaTable.create(
        tmp_path / "rows", pa.schema([("note", pa.string()), ("n", pa.int32())]), partition_by=["n"]
    )
    put(tmp_path, "shop-rows-sink", ("a", 1), ("b", 2), key=str, value=int)
    handed_on(appended(tmp_path), tmp_path)
    found = deltalake.DeltaTable(tmp_path / "rows")
    assert found.metadata().partition_columns == ["n"]
    assert sorted(found.to_pyarrow_table()["n"].to_pylist()) == [1, 2]


def test_a_rule_of_the_table_ends_the_program_at_once(tmp_path: Path):
    deltalake.DeltaTable.create(tmp_path / "rows", pa.schema([("n", pa.int64())])).alter.add_constraint({"c": "n > 0"})
    put(tmp_path, "shop-rows-sink", ("a", -1), key=str, value=int)
    with pytest.raises(SinkError, match="rows break a rule of the table"):
        handed_on(appended(tmp_path), tmp_path)


def test_a_table_that_forgets_numbers_is_refused(tmp_path: Path):
    properties = {"delta.setTransactionRetentionDuration": "interval 1 days"}
    deltalake.DeltaTable.create(tmp_path / "rows", pa.schema([("n", pa.int64())]), configuration=properties)
    put(tmp_path, "shop-rows-sink", ("a", 1), key=str, value=int)
    with pytest.raises(SinkError, match="the table forgets the numbers of batches"):
        handed_on(appended(tmp_path), tmp_path)


def fill(folder: Path, *numbers: int) -> None:
    """Have the sink get numbers, each in a commit of its own."""
    for number in numbers:
        put(folder, "shop-rows-sink", ("a", number), key=str, value=int)
        handed_on(appended(folder), folder)


def rows(folder: Path) -> list[int]:
    return sorted(deltalake.DeltaTable(folder / "rows").to_pyarrow_table()["n"].to_pylist())


def restore(folder: Path, version: object) -> None:
    deltalake.DeltaTable(folder / "rows").restore(version)


def test_a_table_that_is_restored_to_an_older_version_is_given_again_what_it_lacks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """Delta leaves the identifiers of transactions as they are then."""
    fill(tmp_path, 1, 2, 3)
    restore(tmp_path, 1)
    deltalake.write_deltalake(tmp_path / "rows", pa.table({"n": [7] * 11}), mode="append", target_file_size=1)
    assert rows(tmp_path) == [1, *[7] * 11]
    fill(tmp_path, 4)
    assert rows(tmp_path) == [1, 2, 3, 4, *[7] * 11]
    assert "the sink has number 1 and had 3 before: it was restored from an older copy" in caplog.text
    restore(tmp_path, 2)
    restore(tmp_path, 0)
    fill(tmp_path, 5)
    assert rows(tmp_path) == [1, 2, 3, 4, 5]


def test_many_commits_of_others_do_not_hide_a_number_or_a_restore(tmp_path: Path):
    fill(tmp_path, 1, 2)
    for _ in range(12):
        deltalake.write_deltalake(tmp_path / "rows", pa.table({"n": [7]}), mode="append")
    fill(tmp_path, 3)
    assert rows(tmp_path) == [1, 2, 3, *[7] * 12]
    restore(tmp_path, 1)
    for _ in range(12):
        deltalake.write_deltalake(tmp_path / "rows", pa.table({"n": [8]}), mode="append")
    fill(tmp_path, 4)
    assert rows(tmp_path) == [1, 2, 3, 4, *[8] * 12]


def test_a_restore_of_a_version_that_is_gone_is_refused(tmp_path: Path):
    fill(tmp_path, 1, 2, 3)
    deltalake.DeltaTable(tmp_path / "rows").create_checkpoint()
    restore(tmp_path, 1)
    for name in ("0" * 19 + "0.json", "0" * 19 + "1.json"):
        (tmp_path / "rows" / "_delta_log" / name).unlink()
    with pytest.raises(SinkError, match="rows of 'shop/rows/0' is unknown, as version 1 cannot be read"):
        fill(tmp_path, 4)
    assert rows(tmp_path) == [1]


REFUSED: dict[str, str] = {
    "DeltaSink(5)": "DeltaSink: place takes a path or a URL, got 5",
    "DeltaSink('x', rows=0)": "DeltaSink: rows is a number of records from 1 on; got 0",
    "DeltaSink('x', storage_options={'key': 5})": "storage_options is a dict of texts; its values are not shown",
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_cannot_be_meant_is_refused_where_it_is_said(call: str):
    with pytest.raises(ConfigError, match=REFUSED[call]):
        eval(call, {"DeltaSink": DeltaSink})


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(ConfigError, match=r"pip install 'penstock-streams\[delta\]'"):
        DeltaSink("lake")


def test_a_table_in_an_object_store_has_each_row_once_and_no_message_has_its_keys(
    s3_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    place = f"{s3_server.bucket()}/rows"
    sink = DeltaSink(place, storage_options=s3_server.environment)
    failed: list[str] = []

    def fail(point: str) -> None:
        if point in ("in-sink", "after-sink") and point not in failed:
            failed.append(point)
            raise OSError(f"no answer to {s3_server.environment['AWS_SECRET_ACCESS_KEY']}")

    monkeypatch.setattr(faults, "listener", fail)
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.to_sink(sink, "rows", key=None, value="n", timestamp=None)
    put(tmp_path, "shop-rows-sink", ("a", 1), ("a", 2), key=str, value=int)
    handed_on(builder, tmp_path)
    table = deltalake.DeltaTable(place, storage_options=s3_server.environment)
    assert sorted(table.to_pyarrow_table()["n"].to_pylist()) == [1, 2]
    assert failed == ["in-sink", "after-sink"]
    assert "no answer to ****" in caplog.text
    assert s3_server.environment["AWS_SECRET_ACCESS_KEY"] not in caplog.text
