"""Penstock: the Kafka Streams DSL in Python, executed on Spark."""

from penstock.dataframes import write
from penstock.dsl.builder import StreamsBuilder
from penstock.dsl.deduplicated import Deduplicated
from penstock.dsl.global_table import GlobalKTable
from penstock.dsl.joined import Joined
from penstock.dsl.materialized import Materialized
from penstock.dsl.stores import Stores
from penstock.dsl.stream_joined import StreamJoined
from penstock.dsl.suppressed import BufferConfig, Suppressed
from penstock.dsl.windows import (
    EmitStrategy,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
)
from penstock.errors import PenstockError, TopologyError, TopologyException
from penstock.log.consume import ConsumerRecord, consume
from penstock.log.produce import produce, produce_columns
from penstock.plan.functions import columnar
from penstock.plan.topology import Topology
from penstock.record import Record, SessionKey, Windowed
from penstock.spark_python import let_spark_find_this_python as _let_spark_find_this_python

__all__ = [
    "BufferConfig",
    "ConsumerRecord",
    "Deduplicated",
    "EmitStrategy",
    "GlobalKTable",
    "JoinWindows",
    "Joined",
    "Materialized",
    "PenstockError",
    "Record",
    "SessionKey",
    "SessionWindows",
    "SlidingWindows",
    "Stores",
    "StreamJoined",
    "StreamsBuilder",
    "Suppressed",
    "TimeWindows",
    "Topology",
    "TopologyError",
    "TopologyException",
    "UnlimitedWindows",
    "Windowed",
    "columnar",
    "consume",
    "produce",
    "produce_columns",
    "write",
]

_let_spark_find_this_python()
