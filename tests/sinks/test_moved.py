"""Sinks of programs that are rescaled, reset or restored, on other engines and over Kafka: each record once."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder, produce
from penstock.engine.operate.reset import Reset, Wanted
from penstock.engine.rescaling.rescale import Rescale
from penstock.errors import SinkError
from penstock.log.file.log import FileLog
from penstock.sinks import Sink, SinkPartition, SinkWriter, SqliteSink
from penstock.storage.base import LocalStorage
from support.handing import put, sinks_of
from support.kafka import Cluster
from support.lakes import LAKES
from support.sink_program import asked, feed, rows, rows_in, run, topology, totals, totals_in


class Late(Sink):
    """A sink that is away until it is told to come."""

    def __init__(self, sink: Sink, is_there: threading.Event):
        self.sink, self.is_there, self.asked = sink, is_there, threading.Event()

    def open(self, partition: SinkPartition) -> SinkWriter:
        self.asked.set()
        if not self.is_there.is_set():
            raise OSError("the database is away")
        return self.sink.open(partition)


def test_an_older_log_is_noticed_although_the_sink_comes_when_the_log_is_as_long_again(tmp_path: Path):
    """Otherwise the sink would lack the first of the new records, as it has their numbers already."""
    builder, is_there = StreamsBuilder(), threading.Event()
    sink = Late(SqliteSink(tmp_path / "shop.db", "rows"), is_there)
    builder.stream("in", key=str, value=int).to_sink(sink, "rows", key="user", value="n", timestamp=None)
    put(tmp_path, "shop-rows-sink", ("a", 1), ("a", 2), key=str, value=int)
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    put(tmp_path, "shop-rows-sink", ("a", 3), ("a", 4), key=str, value=int)
    is_there.set()
    first = sinks_of(builder, tmp_path)
    first.process_sinks()
    first.stop()
    shutil.rmtree(tmp_path / "log")
    (tmp_path / "copy").rename(tmp_path / "log")
    is_there.clear()
    sink.asked.clear()
    second = sinks_of(builder, tmp_path)
    try:
        assert sink.asked.wait(60)
        put(tmp_path, "shop-rows-sink", ("b", 5), ("b", 6), ("b", 7), key=str, value=int)
        is_there.set()
        with pytest.raises(SinkError, match=r"the sink has number 4, and topic 'shop-rows-sink' ended at offset 2"):
            second.process_sinks()
    finally:
        second.stop()
    assert rows(tmp_path) == [1, 2, 3, 4]


def test_a_rescaled_program_goes_on_with_its_sinks(tmp_path: Path):
    """The topics on the way keep their partitions, so that the changes of a key stay in order."""
    feed(tmp_path, 0, 70, partitions=2)
    run(tmp_path)
    log = FileLog(tmp_path / "log")
    log.add_partitions("in", 4)
    Rescale(topology(tmp_path), LocalStorage(tmp_path / "state" / "checkpoint"), log, 4).execute()
    feed(tmp_path, 70, 140)
    run(tmp_path)
    assert rows(tmp_path) == list(range(140))
    assert totals(tmp_path) == {f"u{one}": 20 for one in range(7)}
    assert {log.topic(f"shop-{name}-sink").partitions for name in ("rows", "totals")} == {2}


@pytest.mark.parametrize("empties", [False, True])
def test_a_program_that_is_reset_gives_its_sinks_the_results_again(empties: bool, tmp_path: Path):
    feed(tmp_path, 0, 70, partitions=2)
    run(tmp_path)
    storage, log = LocalStorage(tmp_path / "state" / "checkpoint"), FileLog(tmp_path / "log")
    Reset(storage, log, Wanted(empty_outputs=empties)).execute()
    asked(tmp_path, "delete from rows")
    run(tmp_path)
    assert rows(tmp_path) == list(range(70))
    assert totals(tmp_path) == {f"u{one}": 10 for one in range(7)}


def test_a_database_that_is_restored_from_an_older_copy_gets_what_it_lacks(tmp_path: Path, caplog: Any):
    feed(tmp_path, 0, 70, partitions=2)
    run(tmp_path)
    shutil.copy(tmp_path / "shop.db", tmp_path / "older.db")
    feed(tmp_path, 70, 140)
    run(tmp_path)
    shutil.copy(tmp_path / "older.db", tmp_path / "shop.db")
    feed(tmp_path, 140, 210)
    run(tmp_path)
    assert rows(tmp_path) == list(range(210))
    assert totals(tmp_path) == {f"u{one}": 30 for one in range(7)}
    assert "it was restored from an older copy. Penstock writes the missing records again" in caplog.text


def test_a_program_over_kafka_has_each_record_in_its_sinks_once(cluster: Cluster, tmp_path: Path):
    topic = f"{cluster.name}-in"
    for start in (0, 70):
        records = [(f"u{n % 7}", n) for n in range(start, start + 70)]
        produce(records, topic, key=str, value=int, log=cluster.log)
        run(tmp_path, log=f"kafka://{cluster.servers}", topic=topic)
    assert rows(tmp_path) == list(range(140))
    assert totals(tmp_path) == {f"u{one}": 20 for one in range(7)}


@pytest.mark.parametrize("kind", LAKES)
def test_a_program_over_kafka_has_each_record_in_a_lake_once(kind: str, cluster: Cluster, tmp_path: Path):
    pytest.importorskip({"delta": "deltalake", "iceberg": "pyiceberg.table"}[kind])
    lake, topic = LAKES[kind](tmp_path / "lake"), f"{cluster.name}-in"
    for start in (0, 70):
        records = [(f"u{n % 7}", n) for n in range(start, start + 70)]
        produce(records, topic, key=str, value=int, log=cluster.log)
        run(tmp_path, log=f"kafka://{cluster.servers}", topic=topic, sink=lake.sink, application_id=f"{kind}-shop")
    assert rows_in(lake) == list(range(140))
    assert totals_in(lake) == {f"u{one}": 20 for one in range(7)}
