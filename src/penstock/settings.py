"""Settings: plain values from keywords, ``PENSTOCK_*`` environment variables, or ``penstock.toml``, in that order.

Things that do work (a Spark session, a log, a clock) are arguments, never settings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypedDict

from penstock.errors import ConfigError
from penstock.figures.metric_names import RECORDING_LEVELS
from penstock.files.locations import checkpoint_place, folder, log_place, spark_path
from penstock.handlers import KINDS, Handler, Handlers, handler_of
from penstock.messages import nearest
from penstock.setting_files import files_of
from penstock.usage.setting_names import meant
from penstock.values.durations import to_ms
from penstock.values.masking import masked
from penstock.values.offset_reset import AutoOffsetReset
from penstock.values.sizes import to_bytes
from penstock.values.topic_names import TOPIC_NAMES, is_topic_name

_REGISTRIES = ("http://", "https://", "mock://")

MIB = 1 << 20
GUARANTEES = ("exactly_once", "exactly_once_v2", "at_least_once")
_CHOICES = {
    "engine": ("auto", "spark", "micro-batch", "local"),
    "processing_guarantee": GUARANTEES,
    "default_dsl_store": ("persistent", "rocksDB", "in_memory"),
    "on_lost_records": ("fail", "skip"),
    "metrics_recording_level": RECORDING_LEVELS,
    "default_interactive_query_isolation_level": ("read_committed", "read_uncommitted"),
    "dsl_store_format": ("default", "headers"),
}

_AT_LEAST_1 = (
    "commit_max_bytes", "chunk_records", "chunk_bytes", "hot_max_bytes", "flush_rows", "flush_commits",
    "flush_interval", "snapshot_bytes", "snapshot_interval", "block_cache_bytes", "slot_timeout",
)  # fmt: skip

_DURATIONS = ("commit_interval", "slot_timeout", "max_task_idle", "flush_interval", "snapshot_interval")

_AT_LEAST_0 = (
    "commit_interval", "commit_cpu_percent", "max_task_idle", "emit_interval_ms", "output_partitions",
    "standby_replicas",
)  # fmt: skip

_AT_ONCE = ("commit_max_bytes", "chunk_records", "chunk_bytes")

_KINDS = {
    "int": "a whole number", "bool": "true or false", "str": "text", "str | None": "text", "Path": "a path",
    "Path | None": "a path",
}  # fmt: skip
"""The names of types in messages."""

_CONNECTIONS = ("kafka_", "schema_registry_")
"""The prefixes of variables that are options of connections."""

_PLACES: Mapping[str, Callable[[Any, str], Path | str]] = {
    "log_dir": lambda where, name: folder(where, name, "Give a Kafka cluster as the setting log: kafka://host:9092"),
    "log": lambda where, name: str(log_place(where, name)),
    "state_dir": lambda where, name: folder(where, name, "Commits can lie in an object store: the setting checkpoint"),
    "checkpoint": checkpoint_place,
    "query_checkpoint": spark_path,
}
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class StateSettings:
    """Limits for the memory and the files of a task's state; :class:`Settings` describes them."""

    hot_max_bytes: int = 128 * MIB
    flush_rows: int = 200_000
    flush_interval: int = 30_000
    flush_commits: int = 500
    snapshot_bytes: int = 1024 * MIB
    snapshot_interval: int = 300_000
    snapshot_commits: int = 5_000
    block_cache_bytes: int = 8 * MIB


class SettingsArguments(TypedDict, total=False):
    """The settings as keywords of ``topology.start`` and the test driver; :class:`Settings` describes them."""

    log_dir: Path | str
    engine: str
    schema_registry: str | None
    state_dir: Path | str | None
    checkpoint: str | None
    query_checkpoint: str | None
    enable_transactional_statestores: bool
    default_interactive_query_isolation_level: Any
    dsl_store_format: str
    statestore_cache_max_bytes: int | str
    statestore_uncommitted_max_records: int
    statestore_uncommitted_max_bytes: int | str
    commit_max_bytes: int | str
    input_buffer_max_bytes: int | str
    chunk_records: int
    chunk_bytes: int | str
    auto_offset_reset: str
    default_key_serde: Any
    default_value_serde: Any
    default_timestamp_extractor: Any
    default_dsl_store: str
    dsl_store_suppliers_class: Any
    processor_wrapper_class: Any
    on_lost_records: str
    on_error: str
    deserialization_exception_handler: str | Handler | None
    processing_exception_handler: str | Handler | None
    production_exception_handler: str | Handler | None
    dead_letter_topic: str | None
    processing_guarantee: str
    commit_interval: int | str
    commit_cpu_percent: int
    max_task_idle: int | str
    slot_timeout: int | str
    standby_replicas: int
    emit_interval_ms: int
    output_partitions: int
    require_names: bool
    metrics_recording_level: str
    hot_max_bytes: int | str
    flush_rows: int
    flush_interval: int | str
    flush_commits: int
    snapshot_bytes: int | str
    snapshot_interval: int | str
    snapshot_commits: int
    block_cache_bytes: int | str


@dataclass(frozen=True)
class Settings:
    """All settings of an application.

    Sizes in bytes may also be given as text such as ``"64 MB"``.

    Attributes:
        log_dir: the folder of the file log's topics.
        log: the place of the topics, instead of ``log_dir``: ``"kafka://host:9092"``, which may end with librdkafka's
            options (``?name=value&...``), or a folder.
        engine: the engine that runs the application: ``"spark"``; ``"micro-batch"``, which makes each commit with short
            Spark jobs; or ``"local"``, with processes on this machine, without Spark and Java. ``"auto"`` chooses
            ``"spark"`` if there is a session, or if PySpark and Java are installed, and ``"local"`` otherwise.
        schema_registry: the URL of the schema registry for each ``Avro``, ``Protobuf`` and ``JsonSchema`` that names no
            registry. Variables ``PENSTOCK_SCHEMA_REGISTRY_...`` are its options.
        state_dir: the folder of this application's databases and, unless you set ``checkpoint``, of its commits.
        checkpoint: the place of the commits: a folder, or the URL of an object store.
        query_checkpoint: the place where Spark stores the progress of its queries for DataFrames and tables: a folder,
            or a URL of any file system that Spark supports. By default the folder ``queries`` in the checkpoint.
        enable_transactional_statestores: with False, all queries see every write at once, as with Kafka's stores
            without transactions (KIP-892). State is exact after a crash in either case.
        default_interactive_query_isolation_level: the level of queries that give no level: ``"read_committed"`` or
            ``"read_uncommitted"``, or an ``IsolationLevel``. By default ``processing_guarantee`` decides: under exactly
            once, queries see committed rows; under at least once, every write at once.
        dsl_store_format: with ``"headers"``, rows of tables, windows and both sides of joins have headers, and
            suppressions count their bytes (KIP-1285, Kafka's ``"HEADERS"``). With ``"default"``, rows have no headers.
        statestore_cache_max_bytes: with 0, a table sends every update; otherwise it sends the last update of each key
            in a commit. In Kafka Streams, this is the size of the cache, 10 MB by default.
        statestore_uncommitted_max_records: a task commits early, even in the middle of a chunk, if its stores have this
            number of uncommitted writes; -1 for no limit (KIP-892). A commit never has more than this number and the
            writes of one record. For this, Penstock may process the records that exceed the limit twice.
        statestore_uncommitted_max_bytes: the same for the bytes of uncommitted writes, for each task. In Kafka Streams,
            the threads of an instance share this limit.
        commit_max_bytes: the most bytes of input that a task reads in one commit.
        input_buffer_max_bytes: the most bytes that may wait in repartition topics for partitions that are behind in
            time. Above this limit, Penstock stops reading from the partitions that are ahead (in Kafka Streams:
            `input.buffer.max.bytes`).
        chunk_records: the most records that a task processes at once.
        chunk_bytes: the most bytes of records that a task processes at once.
        max_task_idle: if a task has read one of its topics to the end, how long it waits for more records there before
            it continues with its other topics. A duration; 0 means no wait (in Kafka Streams: `max.task.idle.ms`).
        on_error: the reaction to a record that does not decode or whose function raises an error: ``"fail"``,
            ``"skip"`` (and count), or ``"dead_letter:<topic>"``.
        deserialization_exception_handler: the reaction to a record that does not decode, in place of ``on_error``:
            ``"fail"``, ``"continue"``, ``"dead_letter"``, a function that gets an ``ErrorHandlerContext`` and returns
            one of these, or its name as ``"package.module:name"``.
        processing_exception_handler: the same for a record whose function raises an error.
        production_exception_handler: the same for a record that cannot be written, or whose topic or partition cannot
            be chosen.
        dead_letter_topic: the topic of dead letters, unless ``on_error`` names it.
        processing_guarantee: ``"exactly_once"`` (Kafka's name ``"exactly_once_v2"`` means the same), or
            ``"at_least_once"``: Penstock then stores offsets after outputs and state. After a crash in between, it
            processes records again, on state that they have already changed.
        auto_offset_reset: where the application begins in a source topic that it has not read yet, unless the source
            names a place itself. ``"earliest"`` is the first record that is still there, ``"latest"`` the end of the
            topic. ``"by_duration:1 day"`` begins with records that are at most a day old, ``"by_timestamp:2026-01-01"``
            with records of this time or later. With ``"none"``, the start fails. A global table always begins with the
            earliest record.
        default_key_serde: the type of keys, if the topology does not name it. By default the keys of source topics are
            ``str``, and the results of functions keep their type. Give a type or a serde; in files ``"str"``,
            ``"int"``, ``"float"``, ``"bytes"``, ``"json"``, or ``"package.module:name"`` for a serde or a class of your
            own.
        default_value_serde: the same for values; by default the values of source topics are JSON.
        default_timestamp_extractor: the origin of the times of records, if the topology does not name it:
            ``"FailOnInvalidTimestamp"`` (the default), ``"LogAndSkipOnInvalidTimestamp"``,
            ``"UsePartitionTimeOnInvalidTimestamp"``, ``"WallclockTimestampExtractor"``, or ``"package.module:name"``.
        default_dsl_store: the place of the DSL's stores, if the program does not name it: ``"persistent"`` for the disk
            (Kafka's name ``"rocksDB"`` means the same), or ``"in_memory"`` (in Kafka Streams: `default.dsl.store`).
        dsl_store_suppliers_class: a class of ``DslStoreSuppliers`` that chooses these stores, or its name as
            ``"package.module:name"`` (KIP-954).
        processor_wrapper_class: a class of ``ProcessorWrapper`` that wraps the program's processors, or its name as
            ``"package.module:name"`` (KIP-1112).
        on_lost_records: the reaction if retention has removed unread records: ``"fail"``, or ``"skip"`` to continue
            with the first record that is still there.
        commit_interval: the least time between the beginnings of two commits, in milliseconds or as text such as
            ``"100 ms"``. With 0, Penstock commits as records arrive: at once, if the program was idle (in Kafka
            Streams: `commit.interval.ms`).
        commit_cpu_percent: the share of one core that commits may take, if you set no ``commit_interval``. Above this
            share, a program that is not behind waits up to 100 ms for more records before its next commit. 0 means no
            limit.
        slot_timeout: how long a working slot may be silent before Penstock replaces it. A slot also has this time to
            start, but at least a minute.
        standby_replicas: on a cluster, how many other machines keep a copy of each task's state: 0 or 1 (Kafka's
            `num.standby.replicas`). The copy follows each commit, so a task that moves there restores only the commits
            that it lacks. A copy takes as much disk as the state, and a quarter of ``hot_max_bytes``. Your own stores
            have no copies.
        emit_interval_ms: milliseconds of wall clock between two checks for closed windows
            (``EmitStrategy.on_window_close``). With 0, Penstock checks whenever stream time advances.
        output_partitions: the number of partitions of new output topics; 0 means the number of tasks that write.
        require_names: refuse a topology whose stores or repartition topics have generated names. The error lists them
            and says what to write (in Kafka Streams: `ensure.explicit.internal.resource.naming`, KIP-1111).
        metrics_recording_level: the metrics that Penstock reports: ``"INFO"``, ``"DEBUG"`` with more metrics of steps
            and stores, or ``"TRACE"`` with latencies of stores, too. Only ``"TRACE"`` costs more than ``"INFO"``.
        hot_max_bytes: the most bytes of rows that a task keeps in memory; the other rows are in its database on disk.
        flush_rows: the number of committed rows at which a task writes them to its database.
        flush_interval: the age of the oldest of these rows at which the task writes them. A duration.
        flush_commits: the number of commits after which the task writes these rows at the latest, and so the most
            commits that a restart reads.
        snapshot_bytes: the size of the delta files at which a task writes a snapshot of its database into the
            checkpoint, for other machines.
        snapshot_interval: the age of the oldest of these delta files at which the task writes a snapshot. A duration.
        snapshot_commits: the number of commits after which the task writes a snapshot at the latest, at its next flush.
        block_cache_bytes: the size of the memory in which a task caches blocks of its database.
        origins: the origin of each value, for ``penstock config``.

    >>> settings = Settings(commit_max_bytes=64_000_000, on_error="skip")
    >>> settings.commit_max_bytes, settings.commit_interval
    (64000000, 0)
    """

    log_dir: Path = Path(".penstock/log")
    log: str | None = field(default=None, repr=False)  # a URL may hold keys
    engine: str = "auto"
    schema_registry: str | None = field(default=None, repr=False)
    state_dir: Path | None = None
    checkpoint: str | None = field(default=None, repr=False)  # a URL may hold keys
    query_checkpoint: str | None = field(default=None, repr=False)  # as above
    enable_transactional_statestores: bool = True
    default_interactive_query_isolation_level: str | None = None
    dsl_store_format: str = "default"
    statestore_cache_max_bytes: int = 10 * MIB
    statestore_uncommitted_max_records: int = -1
    statestore_uncommitted_max_bytes: int = 64 * MIB
    commit_max_bytes: int = 256 * MIB
    input_buffer_max_bytes: int = 512 * MIB
    chunk_records: int = 32_768
    chunk_bytes: int = 32 * MIB
    on_error: str = "fail"
    deserialization_exception_handler: Any = None
    processing_exception_handler: Any = None
    production_exception_handler: Any = None
    dead_letter_topic: str | None = None
    processing_guarantee: str = "exactly_once"
    auto_offset_reset: str = "earliest"
    default_key_serde: Any = None
    default_value_serde: Any = None
    default_timestamp_extractor: Any = None
    default_dsl_store: str = "persistent"
    dsl_store_suppliers_class: Any = None
    processor_wrapper_class: Any = None
    on_lost_records: str = "fail"
    commit_interval: int = 0
    commit_cpu_percent: int = 0
    max_task_idle: int = 0
    slot_timeout: int = 60_000
    standby_replicas: int = 0
    emit_interval_ms: int = 0
    output_partitions: int = 0
    require_names: bool = False
    metrics_recording_level: str = "DEBUG"
    hot_max_bytes: int = StateSettings.hot_max_bytes
    flush_rows: int = StateSettings.flush_rows
    flush_interval: int = StateSettings.flush_interval
    flush_commits: int = StateSettings.flush_commits
    snapshot_bytes: int = StateSettings.snapshot_bytes
    snapshot_interval: int = StateSettings.snapshot_interval
    snapshot_commits: int = StateSettings.snapshot_commits
    block_cache_bytes: int = StateSettings.block_cache_bytes
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        kind, _, topic = self.on_error.partition(":")
        if kind not in ("fail", "skip", "dead_letter") or (kind == "dead_letter") != bool(topic):
            raise ConfigError(f"on_error must be 'fail', 'skip' or 'dead_letter:<topic>', got {self.on_error!r}")
        if topic and self.dead_letter_topic not in (None, topic):
            raise ConfigError(
                f"on_error says that dead letters go to {topic!r}, and dead_letter_topic {self.dead_letter_topic!r}; "
                "say it once"
            )
        for name, dead_letters in (("on_error", topic), ("dead_letter_topic", self.dead_letter_topic)):
            if dead_letters and not is_topic_name(dead_letters):
                raise ConfigError(f"{name}: {dead_letters!r} cannot be a topic's name: {TOPIC_NAMES}")
        if self.schema_registry is not None and not self.schema_registry.startswith(_REGISTRIES):
            shown = masked(self.schema_registry)
            raise ConfigError(f"schema_registry is a URL such as 'http://localhost:8081'; got {shown!r}")
        self.handlers  # noqa: B018 - finds out whether there are such
        if isinstance(self.dsl_store_format, str):  # as in Kafka Streams, in any case of letters
            object.__setattr__(self, "dsl_store_format", self.dsl_store_format.lower())
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in (*choices, None):
                raise ConfigError(f"{name} must be one of {', '.join(choices)}; got {getattr(self, name)!r}")
        AutoOffsetReset.of(self.auto_offset_reset, "auto_offset_reset")
        for one in fields(self):
            value = getattr(self, one.name)
            if one.type == "int" and value >= 1 << 63:
                raise ConfigError(f"{one.name} must be less than 2**63, got {value}")
        for name in _AT_LEAST_1:
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.standby_replicas > 1:
            raise ConfigError(
                f"standby_replicas must be 0 or 1, got {self.standby_replicas}: there is at most one copy of a task's "
                "state, beside the checkpoint, from which any machine restores it"
            )
        for name in ("statestore_cache_max_bytes", *_AT_LEAST_0):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must not be negative, got {getattr(self, name)}")
        for name in ("statestore_uncommitted_max_records", "statestore_uncommitted_max_bytes"):
            if getattr(self, name) < 1 and getattr(self, name) != -1:
                raise ConfigError(f"{name} must be at least 1, or -1 for no limit, got {getattr(self, name)}")
        if not self.enable_transactional_statestores and self.default_interactive_query_isolation_level is not None:
            raise ConfigError(
                "default_interactive_query_isolation_level has a meaning only with enable_transactional_statestores: "
                "without it, queries see every write at once. Leave one of them out"
            )
        if self.snapshot_commits < self.flush_commits:
            raise ConfigError(
                f"snapshot_commits ({self.snapshot_commits}) must not be less than flush_commits "
                f"({self.flush_commits}): a snapshot is taken at a flush"
            )

    @property
    def topics_in(self) -> Path | str:
        """The place of the topics: a folder, or the URL of a Kafka cluster."""
        return self.log_dir if self.log is None else self.log

    def app_configs(self) -> dict[str, Any]:
        """Return the settings by name, without those that may contain secrets."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.repr}

    @property
    def handlers(self) -> Handlers:
        """The handlers of failed records."""
        kind, _, topic = self.on_error.partition(":")
        topic = topic or self.dead_letter_topic or ""
        names = {one: f"{one}_exception_handler" for one in KINDS}
        given = {one: getattr(self, name) for one, name in names.items()}
        usual = kind if kind == "dead_letter" else {"skip": "continue"}.get(kind, "fail")
        found = {o: usual if given[o] is None else handler_of(given[o], names[o], topic) for o in KINDS}
        return Handlers(found, topic)

    @property
    def dead_letters(self) -> list[str]:
        """The topic of dead letters, if there may be any."""
        handlers = self.handlers
        may_be = any(not isinstance(one, str) or one == "dead_letter" for one in handlers.by_kind.values())
        return [handlers.dead_letter_topic] if may_be and handlers.dead_letter_topic else []

    @property
    def at_least_once(self) -> bool:
        return self.processing_guarantee == "at_least_once"

    @property
    def queries_see(self) -> str:
        """The isolation level of queries that do not say it themselves."""
        if not self.enable_transactional_statestores:
            return "read_uncommitted"
        usual = "read_uncommitted" if self.at_least_once else "read_committed"
        return self.default_interactive_query_isolation_level or usual

    @property
    def state(self) -> StateSettings:
        return StateSettings(**{item.name: getattr(self, item.name) for item in fields(StateSettings)})

    def in_parts(self, parts: int) -> Settings:
        """Return these settings with the limits of a chunk and of a commit divided by `parts`."""
        limits = {name: max(getattr(self, name) // parts, 1) for name in _AT_ONCE}
        return self if parts == 1 else replace(self, **limits)

    def resolved(self) -> Settings:
        """Return these settings with absolute paths, which mean the same in every process."""
        state_dir = None if self.state_dir is None else self.state_dir.resolve()
        checkpoint = self.checkpoint
        if checkpoint is not None and "://" not in checkpoint:
            checkpoint = str(Path(checkpoint).resolve())
        return replace(self, log_dir=self.log_dir.resolve(), state_dir=state_dir, checkpoint=checkpoint)

    def as_keywords(self) -> dict[str, Any]:
        """Return these settings as keywords of ``load``, for a process with other variables and files."""
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "origins"}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def load(
        cls,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        config_file: Path | None = None,
        **keywords: Any,
    ) -> Settings:
        """Settings from keywords, then ``PENSTOCK_*`` variables, then ``penstock.toml`` or ``[tool.penstock]``.

        Args:
            folder: where these files are looked for; the current folder by default.
            environment: the variables; those of this process by default.
            config_file: a file to read in place of ``penstock.toml``.
            keywords: settings by name; None means not given.

        Raises:
            ConfigError: a name is unknown or a value has the wrong type; the message says where it came from.

        >>> Settings.load(environment={"PENSTOCK_ON_ERROR": "skip"}, chunk_records=100).on_error
        'skip'
        """
        environment = os.environ if environment is None else environment
        prefix = "PENSTOCK_"
        sources: list[tuple[str, Mapping[str, Any]]] = [
            *files_of(folder or Path(), config_file),  # not Path.cwd(), which fails where the folder was removed
            ("environment", {k[len(prefix) :].lower(): v for k, v in environment.items() if k.startswith(prefix)}),
            ("keyword", {name: value for name, value in keywords.items() if value is not None}),
        ]
        types = {item.name: item.type for item in fields(cls) if item.name != "origins"}
        values: dict[str, Any] = {}
        origins: dict[str, str] = {}
        for origin, source in sources:
            for name, value in source.items():
                if name in types:
                    values[name] = _convert(name, value, str(types[name]), origin)
                    origins[name] = origin
                elif origin != "environment":
                    raise ConfigError(f"unknown setting {name!r} ({origin}){meant(name, types)}")
                elif (
                    name not in OF_COMMANDS and not name.startswith(_CONNECTIONS) and nearest(name, types)
                ):  # other variables may belong to another program
                    guess = nearest(prefix + name.upper(), [prefix + known.upper() for known in types])
                    raise ConfigError(
                        f"unknown setting {prefix}{name.upper()} (environment){guess}; unset the variable if it "
                        "belongs to another program"
                    )
        return cls(**values, origins=origins)


OF_COMMANDS = (
    "application_id", "slots", "ui", "ui_port", "serve", "serve_port", "host", "token_file", "token", "no_token",
    "log_format", "debug", "trigger", "available_now", "live", "rename", "drop", "config",
    "json",
)  # fmt: skip
"""Variables, after ``PENSTOCK_``, that are options of commands and no settings; ``token`` is no option."""


def _convert(name: str, value: Any, type_: str, origin: str) -> Any:
    if name == "default_interactive_query_isolation_level":
        value = getattr(value, "value", value)  # of an IsolationLevel
        value = value.lower() if isinstance(value, str) else value
    if value == "":
        raise ConfigError(f"{name} ({origin}) must not be empty")
    if name.endswith("_bytes") and isinstance(value, str):
        return to_bytes(value, f"{name} ({origin})")
    if name in _DURATIONS and not isinstance(value, float):
        is_number = isinstance(value, str) and value.strip().isdecimal()
        return to_ms(int(value) if is_number else value, f"{name} ({origin})")
    try:
        if type_ == "Any":
            return value
        if type_ == "bool":
            return value if isinstance(value, bool) else _TRUTHS[value.strip().lower()]
        if type_ == "int":
            if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
                raise ValueError
            return int(value)
        if not isinstance(value, str | Path):
            raise TypeError
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ConfigError(f"{name} ({origin}) must be {_KINDS[type_]}, got {value!r}") from None
    return _PLACES[name](value, f"{name} ({origin})") if name in _PLACES else str(value)
