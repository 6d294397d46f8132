"""Penstock: the Kafka Streams DSL in Python, executed on Spark or in processes of one machine.

The public names are imported when they are first used, so that ``import penstock`` costs little.
"""

import sys as _sys
from importlib import import_module as _import_module
from pathlib import Path as _Path
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from penstock.frames.spark_python import let_spark_find_this_python as _let_spark_find_this_python
from penstock.usage.java_names import is_imported as _is_imported
from penstock.usage.java_names import of_module as _of_module

if _TYPE_CHECKING:
    from penstock.dsl.branched import Branched, BranchedKStream
    from penstock.dsl.builder import StreamsBuilder
    from penstock.dsl.built_in_suppliers import BuiltInDslStoreSuppliers
    from penstock.dsl.cogrouped import CogroupedKStream, SessionWindowedCogroupedKStream, TimeWindowedCogroupedKStream
    from penstock.dsl.consumed import Consumed
    from penstock.dsl.deduplicated import Deduplicated
    from penstock.dsl.global_table import GlobalKTable
    from penstock.dsl.grouped import KGroupedStream, KGroupedTable
    from penstock.dsl.joined import Joined, TableJoined
    from penstock.dsl.kstream import KStream
    from penstock.dsl.ktable import KTable
    from penstock.dsl.materialized import Materialized
    from penstock.dsl.printed import Printed
    from penstock.dsl.produced import Produced
    from penstock.dsl.repartitioned import Grouped, Repartitioned
    from penstock.dsl.store_builder import (
        KeyValueStoreSupplier,
        SessionStoreSupplier,
        StoreBuilder,
        StoreSupplier,
        VersionedStoreSupplier,
        WindowStoreSupplier,
    )
    from penstock.dsl.stores import Stores
    from penstock.dsl.stream_joined import StreamJoined
    from penstock.dsl.suppressed import BufferConfig, Suppressed
    from penstock.dsl.windowed import SessionWindowedKStream, TimeWindowedKStream
    from penstock.dsl.windows import (
        CalendarWindows,
        EmitStrategy,
        JoinWindows,
        SessionWindows,
        SlidingWindows,
        TimeWindows,
        UnlimitedWindows,
        Windows,
    )
    from penstock.engine.batch.result import BatchResult
    from penstock.engine.operate.close_options import CloseOptions
    from penstock.engine.operate.lifecycle import State, UncaughtExceptionResponse
    from penstock.engine.operate.restores import LagInfo, RestoreProgress
    from penstock.engine.running.streams import Streams
    from penstock.engine.shared.places import KeyQueryMetadata, SlotPlace
    from penstock.engine.shared.progress import Progress
    from penstock.errors import (
        AlreadyRunningError,
        ArgumentsError,
        BufferFullError,
        CommitError,
        ConfigError,
        CorruptDataError,
        FencedError,
        LogError,
        NoSuchElementError,
        OffsetOutOfRangeError,
        OldNameWarning,
        PartitioningWarning,
        PenstockError,
        PenstockWarning,
        ProcessingError,
        QueryError,
        RefusedRecordError,
        RegistryError,
        SerdeError,
        SinkError,
        SourceError,
        SparkLostError,
        StoreError,
        TopicExistsError,
        TopicNotFoundError,
        TopologyError,
        TopologyException,
    )
    from penstock.figures.losses import Loss
    from penstock.figures.metrics import Metric
    from penstock.figures.sensors import Sensor, StreamsMetrics
    from penstock.frames.dataframes import write
    from penstock.handlers import ErrorHandlerContext, HandlerResponse
    from penstock.log.cluster import Kafka
    from penstock.log.consume import consume
    from penstock.log.produce import produce, produce_columns
    from penstock.log.schema import schema_of
    from penstock.plan.aggregates.approximate import ApproxDistinct, ApproxQuantile
    from penstock.plan.aggregates.named import (
        Collect,
        Count,
        First,
        Last,
        Max,
        Mean,
        Min,
        NamedAggregate,
        Sum,
        TopN,
    )
    from penstock.plan.expressions.expression import col
    from penstock.plan.functions import columnar
    from penstock.plan.store_suppliers import DslKeyValueParams, DslSessionParams, DslStoreSuppliers, DslWindowParams
    from penstock.plan.topology import Topology
    from penstock.processor import (
        STREAM_TIME,
        WALL_CLOCK_TIME,
        Cancellable,
        FixedKeyProcessor,
        Processor,
        ProcessorContext,
        ProcessorSupplier,
        PunctuationType,
        RecordContext,
        RecordMetadata,
        ValueTransformerWithKey,
    )
    from penstock.processor_wrapper import ProcessorWrapper
    from penstock.query.answers import FailureReason, QueryResult, StateQueryResult
    from penstock.query.application import ApplicationStores
    from penstock.query.position import Position, PositionBound
    from penstock.query.typed import (
        KeyQuery,
        MultiVersionedKeyQuery,
        Query,
        QueryConfig,
        RangeQuery,
        StateQueryRequest,
        TimestampedKeyQuery,
        TimestampedKeyWithHeadersQuery,
        TimestampedRangeQuery,
        TimestampedRangeWithHeadersQuery,
        TimestampedWindowKeyWithHeadersQuery,
        TimestampedWindowRangeWithHeadersQuery,
        VersionedKeyQuery,
        WindowKeyQuery,
        WindowRangeQuery,
    )
    from penstock.reading import open_store
    from penstock.record import (
        AggregationWithHeaders,
        ConsumerRecord,
        Record,
        SessionKey,
        ValueAndTimestamp,
        ValueTimestampHeaders,
        Window,
        Windowed,
    )
    from penstock.serdes.formats import Change, cloud_event, debezium, json_lines, maxwell
    from penstock.serdes.kafka import Serdes
    from penstock.serdes.registry import Avro, JsonSchema, Protobuf, SchemaRegistry
    from penstock.state.buffered import BufferedTransaction
    from penstock.state.interface import IsolationLevel, StateStore, StateStoreContext, TopicPartition, Transaction
    from penstock.state.restoring import StateRestoreListener
    from penstock.state.shapes import (
        KeyValueStore,
        SessionStore,
        TimestampedBytesStore,
        VersionedBytesStore,
        VersionedKeyValueStore,
        VersionedRecord,
        WindowStore,
    )
    from penstock.state.standby_updates import StandbyUpdateListener, SuspendReason
    from penstock.state.transaction import AbstractTransaction, AbstractTransactionalStore
    from penstock.state.wrappers import TransactionalKeyValueStore, TransactionalSegment
    from penstock.values.offset_reset import AutoOffsetReset
    from penstock.values.timestamps import (
        FailOnInvalidTimestamp,
        LogAndSkipOnInvalidTimestamp,
        TimestampExtractor,
        UsePartitionTimeOnInvalidTimestamp,
        WallclockTimestampExtractor,
    )

__all__ = [
    "STREAM_TIME",
    "WALL_CLOCK_TIME",
    "AbstractTransaction",
    "AbstractTransactionalStore",
    "AggregationWithHeaders",
    "AlreadyRunningError",
    "ApplicationStores",
    "ApproxDistinct",
    "ApproxQuantile",
    "ArgumentsError",
    "AutoOffsetReset",
    "Avro",
    "BatchResult",
    "Branched",
    "BranchedKStream",
    "BufferConfig",
    "BufferFullError",
    "BufferedTransaction",
    "BuiltInDslStoreSuppliers",
    "CalendarWindows",
    "Cancellable",
    "Change",
    "CloseOptions",
    "CogroupedKStream",
    "Collect",
    "CommitError",
    "ConfigError",
    "Consumed",
    "ConsumerRecord",
    "CorruptDataError",
    "Count",
    "Deduplicated",
    "DslKeyValueParams",
    "DslSessionParams",
    "DslStoreSuppliers",
    "DslWindowParams",
    "EmitStrategy",
    "ErrorHandlerContext",
    "FailOnInvalidTimestamp",
    "FailureReason",
    "FencedError",
    "First",
    "FixedKeyProcessor",
    "GlobalKTable",
    "Grouped",
    "HandlerResponse",
    "IsolationLevel",
    "JoinWindows",
    "Joined",
    "JsonSchema",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "Kafka",
    "KeyQuery",
    "KeyQueryMetadata",
    "KeyValueStore",
    "KeyValueStoreSupplier",
    "LagInfo",
    "Last",
    "LogAndSkipOnInvalidTimestamp",
    "LogError",
    "Loss",
    "Materialized",
    "Max",
    "Mean",
    "Metric",
    "Min",
    "MultiVersionedKeyQuery",
    "NamedAggregate",
    "NoSuchElementError",
    "OffsetOutOfRangeError",
    "OldNameWarning",
    "PartitioningWarning",
    "PenstockError",
    "PenstockWarning",
    "Position",
    "PositionBound",
    "Printed",
    "ProcessingError",
    "Processor",
    "ProcessorContext",
    "ProcessorSupplier",
    "ProcessorWrapper",
    "Produced",
    "Progress",
    "Protobuf",
    "PunctuationType",
    "Query",
    "QueryConfig",
    "QueryError",
    "QueryResult",
    "RangeQuery",
    "Record",
    "RecordContext",
    "RecordMetadata",
    "RefusedRecordError",
    "RegistryError",
    "Repartitioned",
    "RestoreProgress",
    "SchemaRegistry",
    "Sensor",
    "SerdeError",
    "Serdes",
    "SessionKey",
    "SessionStore",
    "SessionStoreSupplier",
    "SessionWindowedCogroupedKStream",
    "SessionWindowedKStream",
    "SessionWindows",
    "SinkError",
    "SlidingWindows",
    "SlotPlace",
    "SourceError",
    "SparkLostError",
    "StandbyUpdateListener",
    "State",
    "StateQueryRequest",
    "StateQueryResult",
    "StateRestoreListener",
    "StateStore",
    "StateStoreContext",
    "StoreBuilder",
    "StoreError",
    "StoreSupplier",
    "Stores",
    "StreamJoined",
    "Streams",
    "StreamsBuilder",
    "StreamsMetrics",
    "Sum",
    "Suppressed",
    "SuspendReason",
    "TableJoined",
    "TimeWindowedCogroupedKStream",
    "TimeWindowedKStream",
    "TimeWindows",
    "TimestampExtractor",
    "TimestampedBytesStore",
    "TimestampedKeyQuery",
    "TimestampedKeyWithHeadersQuery",
    "TimestampedRangeQuery",
    "TimestampedRangeWithHeadersQuery",
    "TimestampedWindowKeyWithHeadersQuery",
    "TimestampedWindowRangeWithHeadersQuery",
    "TopN",
    "TopicExistsError",
    "TopicNotFoundError",
    "TopicPartition",
    "Topology",
    "TopologyError",
    "TopologyException",
    "Transaction",
    "TransactionalKeyValueStore",
    "TransactionalSegment",
    "UncaughtExceptionResponse",
    "UnlimitedWindows",
    "UsePartitionTimeOnInvalidTimestamp",
    "ValueAndTimestamp",
    "ValueTimestampHeaders",
    "ValueTransformerWithKey",
    "VersionedBytesStore",
    "VersionedKeyQuery",
    "VersionedKeyValueStore",
    "VersionedRecord",
    "VersionedStoreSupplier",
    "WallclockTimestampExtractor",
    "Window",
    "WindowKeyQuery",
    "WindowRangeQuery",
    "WindowStore",
    "WindowStoreSupplier",
    "Windowed",
    "Windows",
    "cloud_event",
    "col",
    "columnar",
    "consume",
    "debezium",
    "json_lines",
    "maxwell",
    "open_store",
    "produce",
    "produce_columns",
    "schema_of",
    "write",
]

__version__ = "0.1.0"

_let_spark_find_this_python()

_NAMES = {
    "processor_wrapper": "ProcessorWrapper",
    "frames.dataframes": "write",
    "dsl.branched": "Branched BranchedKStream",
    "dsl.builder": "StreamsBuilder",
    "dsl.built_in_suppliers": "BuiltInDslStoreSuppliers",
    "dsl.cogrouped": "CogroupedKStream SessionWindowedCogroupedKStream TimeWindowedCogroupedKStream",
    "dsl.consumed": "Consumed",
    "dsl.deduplicated": "Deduplicated",
    "dsl.global_table": "GlobalKTable",
    "dsl.grouped": "KGroupedStream KGroupedTable",
    "dsl.joined": "Joined TableJoined",
    "dsl.kstream": "KStream",
    "dsl.ktable": "KTable",
    "dsl.materialized": "Materialized",
    "dsl.printed": "Printed",
    "dsl.produced": "Produced",
    "dsl.repartitioned": "Grouped Repartitioned",
    "dsl.store_builder": (
        "KeyValueStoreSupplier SessionStoreSupplier StoreBuilder StoreSupplier VersionedStoreSupplier "
        "WindowStoreSupplier"
    ),
    "dsl.stores": "Stores",
    "dsl.stream_joined": "StreamJoined",
    "dsl.suppressed": "BufferConfig Suppressed",
    "dsl.windowed": "SessionWindowedKStream TimeWindowedKStream",
    "dsl.windows": (
        "CalendarWindows EmitStrategy JoinWindows SessionWindows SlidingWindows TimeWindows UnlimitedWindows Windows"
    ),
    "engine.batch.result": "BatchResult",
    "engine.operate.close_options": "CloseOptions",
    "engine.operate.lifecycle": "State UncaughtExceptionResponse",
    "engine.operate.restores": "LagInfo RestoreProgress",
    "engine.running.streams": "Streams",
    "engine.shared.places": "KeyQueryMetadata SlotPlace",
    "errors": (
        "AlreadyRunningError ArgumentsError BufferFullError CommitError ConfigError CorruptDataError "
        "FencedError LogError NoSuchElementError OffsetOutOfRangeError OldNameWarning PartitioningWarning "
        "PenstockError PenstockWarning ProcessingError QueryError RefusedRecordError RegistryError "
        "SerdeError SinkError SourceError SparkLostError StoreError TopicExistsError TopicNotFoundError TopologyError "
        "TopologyException"
    ),
    "handlers": "ErrorHandlerContext HandlerResponse",
    "log.cluster": "Kafka",
    "log.consume": "consume",
    "log.produce": "produce produce_columns",
    "log.schema": "schema_of",
    "figures.losses": "Loss",
    "figures.metrics": "Metric",
    "values.offset_reset": "AutoOffsetReset",
    "plan.aggregates.approximate": "ApproxDistinct ApproxQuantile",
    "plan.aggregates.named": "Collect Count First Last Max Mean Min NamedAggregate Sum TopN",
    "plan.expressions.expression": "col",
    "plan.functions": "columnar",
    "plan.store_suppliers": "DslKeyValueParams DslSessionParams DslStoreSuppliers DslWindowParams",
    "plan.topology": "Topology",
    "processor": (
        "Cancellable FixedKeyProcessor Processor ProcessorContext ProcessorSupplier "
        "PunctuationType RecordContext RecordMetadata STREAM_TIME ValueTransformerWithKey WALL_CLOCK_TIME"
    ),
    "engine.shared.progress": "Progress",
    "query.answers": "FailureReason QueryResult StateQueryResult",
    "query.application": "ApplicationStores",
    "query.position": "Position PositionBound",
    "query.typed": (
        "KeyQuery MultiVersionedKeyQuery Query QueryConfig RangeQuery StateQueryRequest TimestampedKeyQuery "
        "TimestampedKeyWithHeadersQuery TimestampedRangeQuery TimestampedRangeWithHeadersQuery "
        "TimestampedWindowKeyWithHeadersQuery TimestampedWindowRangeWithHeadersQuery VersionedKeyQuery WindowKeyQuery "
        "WindowRangeQuery"
    ),
    "reading": "open_store",
    "record": (
        "AggregationWithHeaders ConsumerRecord Record SessionKey ValueAndTimestamp ValueTimestampHeaders Window "
        "Windowed"
    ),
    "figures.sensors": "Sensor StreamsMetrics",
    "serdes.kafka": "Serdes",
    "serdes.formats": "Change cloud_event debezium json_lines maxwell",
    "serdes.registry": "Avro JsonSchema Protobuf SchemaRegistry",
    "state.buffered": "BufferedTransaction",
    "state.interface": "IsolationLevel StateStore StateStoreContext TopicPartition Transaction",
    "state.restoring": "StateRestoreListener",
    "state.standby_updates": "StandbyUpdateListener SuspendReason",
    "state.shapes": (
        "KeyValueStore SessionStore TimestampedBytesStore VersionedBytesStore VersionedKeyValueStore VersionedRecord "
        "WindowStore"
    ),
    "state.transaction": "AbstractTransaction AbstractTransactionalStore",
    "state.wrappers": "TransactionalKeyValueStore TransactionalSegment",
    "values.timestamps": (
        "FailOnInvalidTimestamp LogAndSkipOnInvalidTimestamp TimestampExtractor "
        "UsePartitionTimeOnInvalidTimestamp WallclockTimestampExtractor"
    ),
}
"""The public names in each module, as imported above."""

_MODULES = {_name: _module for _module, _names in _NAMES.items() for _name in _names.split()}
_FOLDER = _Path(__file__).parent


def __getattr__(name: str) -> _Any:
    """Import a public name, or a module of this package, on first use."""
    if name in _MODULES:
        value = globals()[name] = getattr(_import_module(f"penstock.{_MODULES[name]}"), name)
        return value
    if not name.startswith("_") and ((_FOLDER / name).is_dir() or (_FOLDER / f"{name}.py").exists()):
        return _import_module(f"penstock.{name}")
    way = _of_module(name, __all__)
    if way and _is_imported(_sys._getframe(1)):
        raise ImportError(f"cannot import name {name!r} from {__name__!r}: {way}", name=__name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{way and '; '}{way}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
