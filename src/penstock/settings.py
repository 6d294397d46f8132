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
    """How much memory and how many files a task's state may take.

    ``hot_max_bytes`` bounds the rows a task keeps in memory; the rest is on disk. Committed rows go to disk when that
    bound or ``flush_rows`` is reached, or the first of them is ``flush_interval`` milliseconds old. After
    ``flush_commits`` commits they go in any case: a restart reads at most that many delta files.

    At a flush a snapshot is published, and older delta files go, when delta files have ``snapshot_bytes`` since the
    last one, or the first of them is ``snapshot_interval`` milliseconds old, or after ``snapshot_commits`` commits.
    """

    hot_max_bytes: int = 128 * MIB
    flush_rows: int = 200_000
    flush_interval: int = 30_000
    flush_commits: int = 500
    snapshot_bytes: int = 1024 * MIB
    snapshot_interval: int = 300_000
    snapshot_commits: int = 5_000
    block_cache_bytes: int = 8 * MIB


class SettingsArguments(TypedDict, total=False):
    """The settings as keywords of ``topology.start`` and the test driver; see :class:`Settings` for what they are."""

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
        log: where the topics are instead: ``"kafka://host:9092"``, behind which librdkafka's options may stand as
            ``?name=value&...``, or another folder.
        engine: the runner of the application: ``"spark"``; ``"micro-batch"``, which makes each commit a short job of
            Spark; or ``"local"`` for processes of this machine, without Spark and Java. ``"auto"`` takes ``"spark"``
            where there is a session, or where PySpark and Java are installed.
        schema_registry: the URL of the schema registry of ``Avro``, ``Protobuf`` and ``JsonSchema`` where they name
            none; its options are variables ``PENSTOCK_SCHEMA_REGISTRY_...``.
        state_dir: the folder of this application's databases and, unless ``checkpoint`` says otherwise, its commits.
        checkpoint: where commits are kept: a folder, or the URL of an object store.
        query_checkpoint: where Spark keeps the progress of the queries of DataFrames and tables: a folder, or a URL of
            any file system that Spark has. By default the folder ``queries`` in the checkpoint.
        enable_transactional_statestores: False lets all queries see every write at once, as of Kafka's stores without
            transactions (KIP-892). State is exact after a crash in either case.
        default_interactive_query_isolation_level: the level of queries that name none: ``"read_committed"``
            or ``"read_uncommitted"``, or an ``IsolationLevel``. By default ``processing_guarantee`` decides: committed
            rows under exactly once, every write at once under at least once.
        dsl_store_format: ``"headers"`` gives the rows of tables, of windows and of the sides of joins headers, and
            suppressions count the bytes of headers (KIP-1285, Kafka's ``"HEADERS"``); ``"default"`` keeps none.
        statestore_cache_max_bytes: 0 sends every update of a table on; otherwise the last one per key and commit goes
            on, as in Kafka Streams, where this is the size of the cache (10 MB by default there).
        statestore_uncommitted_max_records: a task commits early when its stores hold that many uncommitted writes, in
            the middle of a chunk, too; -1 for no limit (KIP-892). A commit has no more than that and the writes of one
            record; records that would pass the limit may be processed twice to that end.
        statestore_uncommitted_max_bytes: the same for the bytes of uncommitted writes, for each task (in Kafka Streams
            for all of an instance, divided among its threads).
        commit_max_bytes: how many bytes of input a task takes in one commit.
        input_buffer_max_bytes: how many bytes may wait in repartition topics for partitions that are behind in time,
            before reading from the partitions ahead pauses (in Kafka Streams: `input.buffer.max.bytes`).
        chunk_records: how many records a task works on at once.
        chunk_bytes: how many bytes of records it works on at once, at most.
        max_task_idle: how long a task waits for records of a topic that is read to its end, before it continues with
            its other topics. A duration; 0 for not at all (in Kafka Streams: `max.task.idle.ms`).
        on_error: the reaction to a record that does not decode or whose function raises: ``"fail"``, ``"skip"``
            (and count), or ``"dead_letter:<topic>"``.
        deserialization_exception_handler: the reaction to a record that does not decode, in place of ``on_error``:
            ``"fail"``, ``"continue"``, ``"dead_letter"``, a function that gets an ``ErrorHandlerContext`` and
            answers one of these, or its name as ``"package.module:name"``.
        processing_exception_handler: the same for a record whose function raises.
        production_exception_handler: the same for one that cannot be written, or whose topic or partition cannot be
            chosen.
        dead_letter_topic: where dead letters go, unless ``on_error`` says it.
        processing_guarantee: ``"exactly_once"``, for which ``"exactly_once_v2"`` is Kafka's name, or
            ``"at_least_once"``: offsets are recorded after outputs and state, so that a crash in between has records
            processed again on the state that they have changed already.
        auto_offset_reset: where the application begins in a source topic that it has not read yet, unless the source
            names a place itself. ``"earliest"`` is the first record that is still there, ``"latest"`` the end of the
            topic. ``"by_duration:1 day"`` begins with records that are not older, ``"by_timestamp:2026-01-01"`` with
            those of that time or later. With ``"none"`` the start fails. A global table is always read from the
            earliest.
        default_key_serde: the type of keys where the topology names none. By default source topics have ``str``, and
            the results of functions keep their type. It is a type or a serde; in files ``"str"``, ``"int"``,
            ``"float"``, ``"bytes"``, ``"json"``, or ``"package.module:name"`` for a serde or a class of your own.
        default_value_serde: the type of values where the topology names none (``json`` for what is read).
        default_timestamp_extractor: where the times of records come from that the topology does not say:
            ``"FailOnInvalidTimestamp"`` (as if there were none), ``"LogAndSkipOnInvalidTimestamp"``,
            ``"UsePartitionTimeOnInvalidTimestamp"``, ``"WallclockTimestampExtractor"``, or ``"package.module:name"``.
        default_dsl_store: where the stores of the DSL are for which the program says nothing: ``"persistent"`` for the
            disk, for which ``"rocksDB"`` is Kafka's name, or ``"in_memory"`` (in Kafka Streams: `default.dsl.store`).
        dsl_store_suppliers_class: a class of ``DslStoreSuppliers`` that chooses these stores, or its name as
            ``"package.module:name"`` (KIP-954).
        processor_wrapper_class: a class of ``ProcessorWrapper`` that wraps the program's processors, or its name as
            ``"package.module:name"`` (KIP-1112).
        on_lost_records: the reaction when retention has removed records that were not read yet: ``"fail"``, or
            ``"skip"`` to continue with the first one that is still there.
        commit_interval: the least time from the beginning of a commit to that of the next, in milliseconds or as text
            such as ``"100 ms"``. 0 commits as records come: a record that comes to an idle program is committed at
            once (in Kafka Streams: `commit.interval.ms`).
        commit_cpu_percent: how much of one core commits may take, where no ``commit_interval`` is given. A program that
            takes more, and is not behind, lets records gather for the next commit, for 100 ms at most. 0 for no limit.
        slot_timeout: how long a slot may say nothing while it works before Spark is to replace it; to start it has that
            time too, and a minute at least.
        standby_replicas: on a cluster, how many other machines have a copy of each task's state that follows it commit
            by commit, so that a task which moves there restores nothing: 0 or 1 (Kafka's `num.standby.replicas`). A
            copy takes the disk of the task's own and a quarter of ``hot_max_bytes``. Stores that users bring have none.
        emit_interval_ms: milliseconds of wall clock between two looks for windows that have closed
            (``EmitStrategy.on_window_close``); 0 looks whenever stream time passes.
        output_partitions: partitions of output topics that do not exist yet; 0 for as many as the tasks that write.
        require_names: refuse a topology whose stores or repartition topics have generated names, with a list of them
            and what to write (in Kafka Streams: `ensure.explicit.internal.resource.naming`, KIP-1111).
        metrics_recording_level: which figures are given: ``"INFO"``, ``"DEBUG"`` with more of steps and stores, or
            ``"TRACE"`` with latencies up to stores as well. Only the last costs more than the first.
        hot_max_bytes: how many bytes of rows a task keeps in memory; the rest is in its database.
        flush_rows: committed rows go to the database when there are more of them,
        flush_interval: when the first of them is that old: a duration,
        flush_commits: and at the latest after so many commits, which is what a restart reads at most.
        snapshot_bytes: a task's database is published in the checkpoint, for machines that have no copy of it, when
            delta files have that many bytes since the last time,
        snapshot_interval: when the first of them is that old: a duration,
        snapshot_commits: and at the latest after so many commits, and those up to the next flush.
        block_cache_bytes: how many bytes of its database a task keeps in memory.
        origins: where each value comes from, for ``penstock config``.

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
                    hint = meant(name, types)
                    raise ConfigError(
                        f"unknown setting {name!r} ({origin}){hint or '; the settings are ' + ', '.join(types)}"
                    )
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
