"""Sinks: databases, files and services that get the results of a program, each record exactly once.

``to_sink`` of streams and tables takes one. A sink of your own is a :class:`Sink`, which opens a :class:`SinkWriter`
for each partition; ready ones are here, too.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from penstock.sinks.batch import SinkBatch
    from penstock.sinks.duckdb import DuckDbSink
    from penstock.sinks.http import HttpSink
    from penstock.sinks.lakes.delta import DeltaSink
    from penstock.sinks.lakes.iceberg import IcebergSink
    from penstock.sinks.parquet.sink import ParquetSink
    from penstock.sinks.postgres.sink import PostgresSink
    from penstock.sinks.protocol import Sink, SinkPartition, SinkWriter
    from penstock.sinks.sqlite import SqliteSink

_NAMES = {
    "DeltaSink": "lakes.delta",
    "DuckDbSink": "duckdb",
    "HttpSink": "http",
    "IcebergSink": "lakes.iceberg",
    "ParquetSink": "parquet.sink",
    "PostgresSink": "postgres.sink",
    "Sink": "protocol",
    "SinkBatch": "batch",
    "SinkPartition": "protocol",
    "SinkWriter": "protocol",
    "SqliteSink": "sqlite",
}
__all__ = [
    "DeltaSink",
    "DuckDbSink",
    "HttpSink",
    "IcebergSink",
    "ParquetSink",
    "PostgresSink",
    "Sink",
    "SinkBatch",
    "SinkPartition",
    "SinkWriter",
    "SqliteSink",
]


def __getattr__(name: str) -> _Any:
    """Import a public name on first use, so that no sink costs anything to those who do not use it."""
    if name in _NAMES:
        value = globals()[name] = getattr(_import_module(f"penstock.sinks.{_NAMES[name]}"), name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
