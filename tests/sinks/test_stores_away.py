"""Whole programs with tables and files in an object store that is away for a while, or loses each fifth request."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock import StreamsBuilder, produce
from penstock.sinks import DeltaSink, IcebergSink, ParquetSink, Sink

if TYPE_CHECKING:
    from support.s3 import S3Server

for _package in ("moto", "deltalake", "pyiceberg.table"):
    pytest.importorskip(_package)

_AWAY_SECONDS = 2.0
_FOREVER = 1 << 40


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    from support.s3 import S3Server

    with S3Server() as found:
        yield found


@pytest.fixture
def store(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """A store that works at the beginning and at the end."""
    server.be_found(monkeypatch)
    as_ever = {"failing": 0, "failing_reads": 0, "every": 0}
    server.tell(**as_ever)
    yield server
    server.tell(**as_ever)


class Lakes:
    """Sinks in a bucket, and what they have."""

    def __init__(self, store: S3Server, folder: Path):
        self._options = store.environment
        self._bucket = store.bucket()
        self._properties = {
            "name": "lake",
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"{self._bucket}/iceberg",
            "s3.endpoint": self._options["AWS_ENDPOINT_URL"],
            "s3.access-key-id": self._options["AWS_ACCESS_KEY_ID"],
            "s3.secret-access-key": self._options["AWS_SECRET_ACCESS_KEY"],
            "s3.region": self._options["AWS_REGION"],
        }
        with self._catalog() as catalog:
            catalog.create_namespace("shop")

    def sinks(self) -> dict[str, Sink]:
        return {
            "delta": DeltaSink(f"{self._bucket}/delta", storage_options=self._options),
            "iceberg": IcebergSink(self._properties, "shop.rows"),
            "parquet": ParquetSink(f"{self._bucket}/parquet", date=None),
        }

    def numbers(self) -> dict[str, list[int]]:
        from deltalake import DeltaTable

        with self._catalog() as catalog:
            tables = {
                "delta": DeltaTable(f"{self._bucket}/delta", storage_options=self._options).to_pyarrow_table(),
                "iceberg": catalog.load_table("shop.rows").scan().to_arrow(),
                "parquet": self._in_parquet(),
            }
        return {kind: sorted(table["n"].to_pylist()) for kind, table in tables.items()}

    def _catalog(self) -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog(**self._properties)

    def _in_parquet(self) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        from penstock.storage.objects import ObjectStorage

        storage = ObjectStorage(f"{self._bucket}/parquet")
        names = [name for name in storage.list("") if name.endswith(".parquet")]
        return pa.concat_tables([pq.read_table(pa.BufferReader(storage.read(name))) for name in names])


@dataclass
class Shop:
    """A program whose records go into lakes."""

    lakes: Lakes
    folder: Path
    count: int = 0

    def feed(self) -> None:
        numbers = range(self.count, self.count + 100)
        produce([("a", n) for n in numbers], "in", key=str, value=int, partitions=2, log=self.folder / "log")
        self.count += 100

    def start(self) -> Any:
        builder = StreamsBuilder()
        stream = builder.stream("in", key=str, value=int)
        for kind, sink in self.lakes.sinks().items():
            stream.to_sink(sink, kind, key=None, value="n", timestamp=None)
        places: dict[str, Any] = {"log": self.folder / "log", "state_dir": self.folder / "state"}
        return builder.build().start("shop", engine="local", slots=1, **places)

    def has_all(self) -> bool:
        return self.lakes.numbers() == {kind: list(range(self.count)) for kind in self.lakes.sinks()}


@pytest.fixture
def shop(store: S3Server, tmp_path: Path) -> Shop:
    found = Shop(Lakes(store, tmp_path), tmp_path)
    found.feed()
    return found


def test_lakes_in_a_store_that_was_away_have_each_record_once(store: S3Server, shop: Shop):
    with shop.start() as streams:
        streams.process_all_available()
        shop.feed()
        store.tell(failing=_FOREVER, failing_reads=_FOREVER)
        back = threading.Timer(_AWAY_SECONDS, lambda: store.tell(failing=0, failing_reads=0))
        back.start()
        started = time.monotonic()
        streams.process_all_available()
        assert time.monotonic() - started >= _AWAY_SECONDS
        back.join()
    assert shop.has_all()


def test_lakes_in_a_store_that_loses_each_fifth_request_have_each_record_once(store: S3Server, shop: Shop):
    store.tell(every=5)
    with shop.start() as streams:
        streams.process_all_available()
        shop.feed()
        streams.process_all_available()
    store.tell(every=0)
    assert shop.has_all()
