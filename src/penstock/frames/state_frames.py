"""State stores as Spark DataFrames: ``spark.read.format("penstock-state")``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.engine.spark.frame_types import arrow_schema
from penstock.errors import ConfigError
from penstock.messages import nearest
from penstock.query.application import checkpoint_of
from penstock.query.commits import AtCommit, StoredCommits
from penstock.query.committed import CommittedStore
from penstock.query.stores import view_of
from penstock.storage.opening import open_storage

FORMAT = "penstock-state"
_OPTIONS = ("application", "store")


def make_known(spark: Any) -> None:
    """Register ``format("penstock-state")`` in a session."""
    spark.dataSource.register(StateSource)


class StateSource(DataSource):
    """Options: ``application`` (its id, or its checkpoint) and ``store``, which may be what is loaded.

    The columns are those of the store's Arrow table: key and value, and timestamp, window or validity as fits. All
    tasks are read as of one commit, the newest when the DataFrame is made; each is read by a task of Spark.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> Any:
        with self._store() as store:
            return from_arrow_schema(view_of(store, store.shape).to_arrow().schema)

    def reader(self, schema: Any) -> DataSourceReader:
        return _Reader(*self._place(), schema)

    def _store(self) -> CommittedStore:
        url, name = self._place()
        return CommittedStore(StoredCommits(open_storage(url)), name)

    def _place(self) -> tuple[str, str]:
        for option in self.options:
            if option.lower() not in (*_OPTIONS, "path"):
                raise ConfigError(
                    f'format("{FORMAT}") has no option {option!r}{nearest(option.lower(), _OPTIONS)}; the options are '
                    f"{', '.join(_OPTIONS)}"
                )
        store = self.options.get("store", self.options.get("path"))
        if "application" not in self.options or not store:
            raise ConfigError(
                f'format("{FORMAT}") needs .option("application", its id or checkpoint) and the store: .load("counts")'
            )
        return checkpoint_of(self.options["application"]), store


class _Task(InputPartition):
    """The rows of one task of the application."""


class _Reader(DataSourceReader):
    def __init__(self, url: str, store: str, schema: Any):
        self._schema = schema
        self._url = url
        self._store = store
        self._commit = StoredCommits(open_storage(url)).newest().commit

    def partitions(self) -> list[InputPartition]:
        with CommittedStore(AtCommit(open_storage(self._url), self._commit), self._store) as store:
            return [_Task(task) for task in store.task_names()]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        commits = AtCommit(open_storage(self._url), self._commit)
        with CommittedStore(commits, self._store, only=partition.value) as store:
            types = arrow_schema(self._schema)  # Spark's times are in microseconds
            for batch in view_of(store, store.shape).to_arrow():
                yield batch.cast(types)
