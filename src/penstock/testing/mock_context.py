"""A context for testing one processor alone, without a topology (``MockProcessorContext``)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Unpack

from penstock.dsl.store_builder import StoreBuilder
from penstock.errors import ConfigError, ProcessingError
from penstock.figures.metrics import Metric, combined, labelled, readable
from penstock.figures.sensors import StreamsMetrics
from penstock.messages import show
from penstock.plan.defaults import default_serde
from penstock.plan.topology import Topology
from penstock.processor import PunctuationType, RecordMetadata
from penstock.record import Record
from penstock.serdes import Serde
from penstock.settings import Settings, SettingsArguments
from penstock.testing.captured import CapturedForward, CapturedPunctuator
from penstock.testing.driver import TopologyTestDriver
from penstock.usage.java_names import KafkaNames
from penstock.values.durations import Duration, to_ms


class MockProcessorContext(KafkaNames):
    """Stands for a processor's context in a test: it keeps what the processor forwards, schedules and asks for.

    Args:
        task_id: the task that it tells.
        application_id: the application that it tells.
        settings: the settings that ``app_configs`` tells; ``state_dir`` is the folder that it tells.

    >>> from penstock import Processor
    >>> class Doubled(Processor[str, int]):
    ...     def init(self, context):
    ...         self.context = context
    ...     def process(self, record):
    ...         self.context.forward(record.with_value(2 * record.value))
    >>> context, doubled = MockProcessorContext(), Doubled()
    >>> doubled.init(context)
    >>> doubled.process(Record("a", 21, 0))
    >>> [one.record.value for one in context.forwarded()]
    [42]
    """

    def __init__(
        self,
        task_id: str = "0_0",
        application_id: str = "mock",
        **settings: Unpack[SettingsArguments],
    ):
        self.task_id = task_id
        self.application_id = application_id
        self.committed = False
        """Whether the processor has asked for a commit."""
        self.record_metadata: RecordMetadata | None = None
        self.metrics = StreamsMetrics(self._count)
        loaded = Settings.load(environment={}, **settings)
        self._configs, self._state_dir = loaded.app_configs(), loaded.state_dir
        self._figures: dict[Metric, int] = {}
        self._forwards: list[CapturedForward] = []
        self._punctuators: list[CapturedPunctuator] = []
        self._stores: dict[str, Any] = {}
        self._builders: list[StoreBuilder] = []
        self._stream_time: int | None = None
        self._system_time: int | None = None

    # --- what the processor asks for -----------------------------------------------------------------------------

    @property
    def state_dir(self) -> Path:
        """The folder that was given.

        Raises:
            ConfigError: none was given.
        """
        if self._state_dir is None:
            raise ConfigError("the processor asks for state_dir; give MockProcessorContext(state_dir=...) a folder")
        return self._state_dir

    @property
    def current_stream_time_ms(self) -> int:
        """The stream time that was set.

        Raises:
            ConfigError: none was set.
        """
        if self._stream_time is None:
            raise ConfigError("the processor asks for the stream time; call set_current_stream_time_ms(...) first")
        return self._stream_time

    @property
    def current_system_time_ms(self) -> int:
        """The wall clock that was set.

        Raises:
            ConfigError: none was set.
        """
        if self._system_time is None:
            raise ConfigError("the processor asks for the wall clock; call set_current_system_time_ms(...) first")
        return self._system_time

    @property
    def key_serde(self) -> Serde:
        """The type of keys where a topology names none."""
        return default_serde("default_key_serde", self._configs)

    @property
    def value_serde(self) -> Serde:
        """The type of values where a topology names none."""
        return default_serde("default_value_serde", self._configs)

    def app_configs(self) -> dict[str, Any]:
        """The settings, by name."""
        return dict(self._configs)

    def app_configs_with_prefix(self, prefix: str) -> dict[str, Any]:
        """The settings whose names begin with a prefix, without it."""
        found = self._configs.items()
        return {name.removeprefix(prefix): value for name, value in found if name.startswith(prefix)}

    def forward(self, record: Record, child: str | None = None) -> None:
        """Keep a record for ``forwarded``."""
        if type(record) is not Record:
            raise ProcessingError(f"forward takes a Record; got {show(record)} of type {type(record).__name__}")
        self._forwards.append(CapturedForward(record, child))

    def schedule(
        self, interval: Duration, type: PunctuationType, callback: Callable[[int], object]
    ) -> CapturedPunctuator:
        """Keep a punctuation for ``scheduled_punctuators``; nobody calls it but the test."""
        made = CapturedPunctuator(to_ms(interval), type, callback)
        self._punctuators.append(made)
        return made

    def commit(self) -> None:
        """Note that a commit was asked for."""
        self.committed = True

    def get_state_store(self, name: str) -> Any:
        """A store that was added.

        Raises:
            ProcessingError: no store has this name.
        """
        if name not in self._stores and any(builder.name == name for builder in self._builders):
            self._stores |= _made(self._builders)
        if name not in self._stores:
            has = ", ".join(map(repr, self._stores)) or "none"
            raise ProcessingError(f"there is no store {name!r}; its stores: {has}. Call add_state_store(...) first")
        return self._stores[name]

    # --- what the test sets and looks at -------------------------------------------------------------------------

    def set_record_metadata(self, topic: str, partition: int, offset: int) -> None:
        """Set where the next record comes from."""
        self.record_metadata = RecordMetadata(topic, partition, offset)

    def set_current_stream_time_ms(self, time: int) -> None:
        """Set the stream time."""
        self._stream_time = time

    def set_current_system_time_ms(self, time: int) -> None:
        """Set the wall clock."""
        self._system_time = time

    def add_state_store(self, store: Any) -> None:
        """Add a store before the processor asks for it.

        Args:
            store: a builder of ``Stores``, or any object with a ``name``, which the processor gets as it is.
        """
        if isinstance(store, StoreBuilder):
            self._builders.append(store)
        else:
            self._stores[store.name] = store

    def forwarded(self, child_name: str | None = None) -> list[CapturedForward]:
        """The records forwarded so far; with a name, those to that step or to all steps."""
        return [one for one in self._forwards if child_name is None or one.child_name in (None, child_name)]

    def reset_forwards(self) -> None:
        """Forget what was forwarded."""
        self._forwards.clear()

    def scheduled_punctuators(self) -> list[CapturedPunctuator]:
        """The punctuations that were scheduled so far."""
        return list(self._punctuators)

    def reset_commit(self) -> None:
        """Forget that a commit was asked for."""
        self.committed = False

    def recorded(self) -> dict[Metric, float]:
        """The figures of the processor's sensors."""
        return readable(labelled(self.task_id, self._figures))

    def _count(self, metric: Metric, by: int) -> None:
        figures = self._figures
        figures[metric] = combined(metric.name, figures[metric], by) if metric in figures else by


def _made(builders: list[StoreBuilder]) -> dict[str, Any]:
    """Return new stores in memory, by name."""
    topology = Topology().add_source("in", "in").add_processor("mock", lambda record, context: None, "in")
    for builder in builders:
        topology.add_state_store(builder, "mock")
    driver = TopologyTestDriver(topology)
    return {builder.name: driver.get_state_store(builder.name) for builder in builders}
