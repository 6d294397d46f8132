"""Metrics of users' own: what processors record, by Kafka Streams' ``StreamsMetrics`` and ``Sensor``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from penstock.errors import ProcessingError
from penstock.figures.metric_names import RECORDING_LEVELS
from penstock.figures.metrics import OWN, Metric
from penstock.messages import show
from penstock.usage.java_names import KafkaNames

Count = Callable[[Metric, int], None]
"""Adds a figure to those of the running commit."""

_ENDINGS = {
    "sum": ("/-all",),
    "rate": ("/-total",),
    "count": ("/-all",),
    "count rate": ("/-total",),
    "avg": ("/-sum", "/-recordings"),
    "min": ("/-min",),
    "max": ("/-max",),
    "value": ("/-current",),
}
"""How a figure is stored, by its statistic: the ending says how the engine combines recordings."""

_OF_RECORDINGS = ("count", "count rate")

_NAME = re.compile(r"[A-Za-z0-9._ -]+")


class Sensor(KafkaNames, telling=False):
    """Records values for metrics of your own; see :class:`StreamsMetrics`.

    A recorded value counts once, even after a kill, because the metrics are saved with the commit of the record.

    >>> from penstock.testing import MockProcessorContext
    >>> context = MockProcessorContext()
    >>> sold = context.metrics.add_sensor("sold").add("cents-total").add("cents-max", "max")
    >>> for cents in (350, 420):
    ...     sold.record(cents)
    >>> {metric.name: figure for metric, figure in context.recorded().items()}
    {'cents-total': 770, 'cents-max': 420}
    """

    def __init__(self, name: str, level: str, count: Count, parents: tuple[Sensor, ...] = ()):
        self.name = name
        self.level = level
        self._count = count
        self._parents = parents
        self._stored: list[tuple[Metric, bool]] = []
        """The figures; True for those that count recordings and not values."""
        self.is_removed = False

    def add(
        self, name: str, stat: str = "sum", group: str = "application", tags: Mapping[str, str] | None = None
    ) -> Sensor:
        """Give a figure of the recorded values.

        Args:
            name: the figure's name.
            stat: ``"sum"``, ``"count"`` of the recordings, ``"rate"`` or ``"count rate"`` (of these, per second),
                ``"avg"``, ``"min"``, ``"max"``, or ``"value"`` for the newest one.
            group: the figure's group.
            tags: further tags; the task and the thread are always there.

        Returns:
            The sensor again, to chain.

        Raises:
            ProcessingError: there is no such statistic, or a name has other characters than letters, digits, ``._-``
                and blanks.
        """
        if stat not in _ENDINGS:
            raise ProcessingError(
                f"the sensor {self.name!r} has no statistic {show(stat)}; there are {', '.join(_ENDINGS)}"
            )
        labels = tags or {}
        for one in (name, group, *labels, *labels.values()):
            _check_name(one, self.name)
        text = ",".join(f"{tag}={value}" for tag, value in labels.items())
        scope = f"{OWN}{self.level}/{group}"
        for ending in _ENDINGS[stat]:
            counts = stat in _OF_RECORDINGS or ending == "/-recordings"
            self._stored.append((Metric(f"{name}{ending}", reason=text, scope=scope), counts))
        return self

    def record(self, value: int = 1) -> None:
        """Record a value.

        Args:
            value: a whole number, since figures add up from commit to commit without rounding. Record milliseconds or
                cents in place of fractions.

        Raises:
            ProcessingError: it is no whole number of 64 bits.
        """
        if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
            raise ProcessingError(
                f"the sensor {self.name!r} records whole numbers of 64 bits, such as milliseconds; got {show(value)} "
                f"of type {type(value).__name__}"
            )
        if self.is_removed:
            return
        for metric, counts in self._stored:
            self._count(metric, 1 if counts else value)
        for parent in self._parents:
            parent.record(value)


class StreamsMetrics(KafkaNames):
    """Your own metrics, through ``context.metrics`` of a processor.

    They appear beside Penstock's metrics: in ``Streams.metrics()``, Prometheus and OpenTelemetry.

    >>> from penstock import Processor, StreamsBuilder
    >>> from penstock.testing import TopologyTestDriver
    >>> class Sold(Processor[str, int]):
    ...     def init(self, context):
    ...         self.cents = context.metrics.add_sensor("cents").add("cents-sold-total").add("cents-sold-max", "max")
    ...     def process(self, record):
    ...         self.cents.record(record.value)
    >>> builder = StreamsBuilder()
    >>> _ = builder.stream("sales", value=int).process(Sold)
    >>> driver = TopologyTestDriver(builder.build())
    >>> driver.pipe_record_list("sales", [("tea", 350), ("jam", 420)])
    >>> {metric.name: figure for metric, figure in driver.metrics().items() if metric.group == "application"}
    {'cents-sold-total': 770, 'cents-sold-max': 420}
    """

    def __init__(self, count: Count):
        self._count = count
        self._sensors: dict[str, Sensor] = {}

    def add_sensor(self, name: str, recording_level: str = "INFO", *parents: Sensor) -> Sensor:
        """Add a sensor, or return the one of this name.

        Args:
            name: the sensor's name.
            recording_level: ``"INFO"``, ``"DEBUG"`` or ``"TRACE"``: the setting ``metrics_recording_level`` hides the
                figures of later ones.
            parents: sensors that record the same values.

        Raises:
            ProcessingError: there is no such level.
        """
        if recording_level not in RECORDING_LEVELS:
            raise ProcessingError(
                f"the recording level of the sensor {name!r} must be one of {', '.join(RECORDING_LEVELS)}; "
                f"got {show(recording_level)}"
            )
        return self._sensors.setdefault(name, Sensor(name, recording_level, self._count, parents))

    def add_rate_total_sensor(
        self,
        scope: str,
        entity: str,
        operation: str,
        recording_level: str = "INFO",
        tags: Mapping[str, str] | None = None,
    ) -> Sensor:
        """Add a sensor with the figures ``<operation>-rate`` and ``<operation>-total``, which count its recordings.

        Args:
            scope: the group is ``stream-<scope>-metrics``, and a tag ``<scope>-id``.
            entity: the value of that tag.
            operation: the name of the counted operation.
            recording_level: as for ``add_sensor``.
            tags: further tags.
        """
        group, labels = f"stream-{scope}-metrics", {f"{scope}-id": entity, **(tags or {})}
        name = f"{scope}.{entity}.{operation}"
        if name in self._sensors:
            return self._sensors[name]
        sensor = self.add_sensor(name, recording_level)
        sensor.add(f"{operation}-total", "count", group, labels)
        return sensor.add(f"{operation}-rate", "count rate", group, labels)

    def add_latency_rate_total_sensor(
        self,
        scope: str,
        entity: str,
        operation: str,
        recording_level: str = "INFO",
        tags: Mapping[str, str] | None = None,
    ) -> Sensor:
        """Add a sensor as ``add_rate_total_sensor`` does, with ``<operation>-latency-avg`` and ``-max``, too."""
        if f"{scope}.{entity}.{operation}" in self._sensors:
            return self._sensors[f"{scope}.{entity}.{operation}"]
        group, labels = f"stream-{scope}-metrics", {f"{scope}-id": entity, **(tags or {})}
        sensor = self.add_rate_total_sensor(scope, entity, operation, recording_level, tags)
        sensor.add(f"{operation}-latency-avg", "avg", group, labels)
        return sensor.add(f"{operation}-latency-max", "max", group, labels)

    def remove_sensor(self, sensor: Sensor) -> None:
        """Stop a sensor; its metrics keep their values."""
        sensor.is_removed = True
        self._sensors.pop(sensor.name, None)


def _check_name(name: str, sensor: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ProcessingError(
            f"the sensor {sensor!r}: names, groups and tags of figures have letters, digits, '.', '_', '-' and blanks; "
            f"got {show(name)}"
        )
