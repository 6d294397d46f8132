"""Rows in a table of Delta Lake, with the number of their batch in the same commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from penstock.errors import ConfigError
from penstock.files.locations import checkpoint_place, folder, scheme_of
from penstock.sinks.gathering import EVERY, ROWS, gathering
from penstock.sinks.lakes.kept_columns import check_each, kept_schema
from penstock.sinks.protocol import Sink, SinkPartition, SinkWriter
from penstock.values.durations import Duration
from penstock.values.masking import masked, secret_values


class DeltaSink(Sink):
    """A table of Delta Lake: each record of a stream is a row, each key of a table has one.

    The table is made when it does not exist, with a column for each field. A table of your own keeps its types, its
    other columns and its partitions. Penstock gathers the records of each partition, so that files are large. The
    numbers are Delta's transaction identifiers. This needs ``penstock-streams[delta]``.

    Args:
        place: a folder, or a URL such as ``"s3://lake/orders"``.
        storage_options: settings of the store for the package ``deltalake``. Messages show no secrets of it.
        rows: how many records a batch has at most. It has at most 64 MB of them, too.
        every: how long records wait at most until a batch has so many.

    Raises:
        ConfigError: an argument is not valid, or ``deltalake`` is not installed.

    >>> from penstock import StreamsBuilder
    >>> from penstock.sinks import DeltaSink
    >>> counts = StreamsBuilder().stream("words", key=str).group_by_key().count("counts")
    >>> counts.to_sink(DeltaSink("lake/counts", every="1 minute"), "counts", key="word", value="times")
    """

    def __init__(
        self,
        place: Path | str,
        *,
        storage_options: Mapping[str, str] | None = None,
        rows: int = ROWS,
        every: Duration = EVERY,
    ):
        try:
            import deltalake  # noqa: F401
        except ImportError:
            raise ConfigError("DeltaSink needs deltalake: pip install 'penstock-streams[delta]'") from None
        text = checkpoint_place(place, "DeltaSink: place")
        is_local = scheme_of(text) in (None, "file")
        self.place = str(folder(text, "DeltaSink: place").absolute()) if is_local else text.rstrip("/")
        given = {} if storage_options is None else storage_options
        if not isinstance(given, Mapping) or not all(isinstance(part, str) for one in given.items() for part in one):
            raise ConfigError("DeltaSink: storage_options is a dict of texts; its values are not shown")
        self.storage_options = dict(given)
        self._shown = masked(str(place))
        self.gather_rows, self.gather_ms = gathering("DeltaSink", rows, every)

    @property
    def shown(self) -> str:
        return f"Delta table {self._shown}"

    @property
    def secrets(self) -> Iterable[str]:
        return secret_values(self.storage_options)

    def check_columns(self, schema: Any) -> None:
        from deltalake import Schema

        check_each(schema, self.shown, Schema.from_arrow)

    def open(self, partition: SinkPartition) -> SinkWriter:
        from deltalake import DeltaTable

        from penstock.sinks.lakes.delta_writer import DeltaWriter

        partition.need_keys(self.shown)
        options = self.storage_options
        if not DeltaTable.is_deltatable(self.place, options):
            schema = kept_schema(partition.schema)
            DeltaTable.create(self.place, schema, mode="ignore", storage_options=options)
        return DeltaWriter(DeltaTable(self.place, storage_options=options), self.shown, partition)
