"""Tables and files of a program in an object store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock import StreamsBuilder, Topology
from penstock.sinks import DeltaSink, IcebergSink, ParquetSink, Sink
from support.s3 import S3Server


class StoredLakes:
    """Sinks in a bucket, and what they have.

    Args:
        folder: of Iceberg's catalog.
    """

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

    def topology(self, topic: str) -> Topology:
        """The numbers of clicks into each lake."""
        builder = StreamsBuilder()
        clicks = builder.stream(topic, key=str, value=int)
        for kind, sink in self._sinks().items():
            clicks.to_sink(sink, kind, key=None, value="n", timestamp=None)
        return builder.build()

    def _sinks(self) -> dict[str, Sink]:
        return {
            "delta": DeltaSink(f"{self._bucket}/delta", storage_options=self._options),
            "iceberg": IcebergSink(self._properties, "shop.rows"),
            "parquet": ParquetSink(f"{self._bucket}/parquet", date=None),
        }

    def has_all(self, count: int) -> bool:
        """Whether each lake has each of so many clicks once."""
        return self._numbers() == {kind: list(range(count)) for kind in self._sinks()}

    def _numbers(self) -> dict[str, list[int]]:
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
