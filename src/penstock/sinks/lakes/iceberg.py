"""Rows in a table of Iceberg, with the number of their batch in the same commit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.errors import ConfigError, SinkError
from penstock.messages import show
from penstock.sinks.gathering import EVERY, ROWS, gathering
from penstock.sinks.lakes.kept_columns import check_each, kept_schema
from penstock.sinks.protocol import Sink, SinkPartition, SinkWriter
from penstock.values.durations import Duration
from penstock.values.masking import secret_values


class IcebergSink(Sink):
    """A table of Iceberg: each record of a stream is a row, each key of a table has one.

    The table is made when it does not exist, with a column for each field. A table of your own keeps its types, its
    other columns and its partitions. Penstock gathers the records of each partition, so that files are large. The
    numbers are in the summaries of snapshots, and in properties of the table. This needs ``penstock-streams[iceberg]``.

    Args:
        catalog: the name of a catalog in the configuration of the package ``pyiceberg``, or a dict of its properties
            and perhaps its ``name``. Messages show no secrets of it.
        table: the table's name behind that of its namespace, such as ``"shop.totals"``. The namespace must exist.
        rows: how many records a batch has at most. It has at most 64 MB of them, too.
        every: how long records wait at most until a batch has so many.

    Raises:
        ConfigError: an argument is not valid, or ``pyiceberg`` is not installed.

    >>> from penstock import StreamsBuilder
    >>> from penstock.sinks import IcebergSink
    >>> counts = StreamsBuilder().stream("words", key=str).group_by_key().count("counts")
    >>> sink = IcebergSink({"type": "rest", "uri": "https://lake.example"}, "shop.counts", every="1 minute")
    >>> counts.to_sink(sink, "counts", key="word", value="times")
    >>> sink
    <Iceberg table shop.counts>
    """

    def __init__(self, catalog: str | Mapping[str, str], table: str, *, rows: int = ROWS, every: Duration = EVERY):
        try:
            import pyiceberg.table  # noqa: F401
        except ImportError:
            raise ConfigError("IcebergSink needs pyiceberg: pip install 'penstock-streams[iceberg]'") from None
        self._name, self._properties = _checked(catalog)
        if not isinstance(table, str) or not re.fullmatch(r"[^.\s]+(\.[^.\s]+)+", table):
            raise ConfigError(
                f"IcebergSink: table is a name behind that of a namespace, such as 'shop.totals'; got {show(table)}"
            )
        self.table = table
        self.gather_rows, self.gather_ms = gathering("IcebergSink", rows, every)

    @property
    def shown(self) -> str:
        return f"Iceberg table {self.table}"

    @property
    def secrets(self) -> Iterable[str]:
        return secret_values(self._properties)

    def check_columns(self, schema: Any) -> None:
        from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids

        check_each(schema, self.shown, _pyarrow_to_schema_without_ids)

    def open(self, partition: SinkPartition) -> SinkWriter:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchNamespaceError

        from penstock.sinks.lakes.iceberg_writer import IcebergWriter

        partition.need_keys(self.shown)
        catalog = load_catalog(self._name, **self._properties)
        try:
            table = catalog.create_table_if_not_exists(self.table, kept_schema(partition.schema))
        except NoSuchNamespaceError:
            catalog.close()
            raise SinkError(f"the catalog has no namespace for {self.table!r}: create it first") from None
        return IcebergWriter(table, catalog, self.shown, partition)


def _checked(catalog: Any) -> tuple[str | None, dict[str, str]]:
    """Return the name of a catalog and its properties."""
    if isinstance(catalog, str) and catalog:
        return catalog, {}
    if (
        isinstance(catalog, Mapping)
        and catalog
        and all(isinstance(part, str) for one in catalog.items() for part in one)
    ):
        properties = dict(catalog)
        return properties.pop("name", "default"), properties
    raise ConfigError(
        "IcebergSink: catalog is the name of a catalog, or a dict of its properties such as "
        "{'type': 'rest', 'uri': 'https://lake.example'}; properties are not shown"
    )
