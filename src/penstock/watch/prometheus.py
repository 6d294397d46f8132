"""All figures in Prometheus' format."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

from penstock.errors import ConfigError
from penstock.figures.metrics import Metric
from penstock.watch.figures import Application

_EVERY = ("application", "task", "node", "reason")
_LABELS_OF = {
    "": _EVERY,
    "client": ("application",),
    "thread": ("application",),
    "task": ("application", "task"),
    "topic": ("application", "task", "node", "topic"),
    "state": ("application", "task", "store", "type"),
}
"""The labels of a figure, by its scope."""
_IS = {label: label for label in _EVERY} | {"topic": "reason", "store": "node", "type": "reason"}
"""The field of a figure that each label shows."""
_HELP = {
    "process-total": "Records that reached a step.",
    "dropped-records-total": "Records that a step left out by Kafka's rules.",
    "estimate-num-keys-current": "Rows of a state store, about.",
    "state-bytes-current": "Bytes of a state store in memory and on disk, about.",
}


def exposition(application: Application) -> tuple[bytes, str]:
    """The figures of an application in Prometheus' text form, and the type of that text.

    Raises:
        ConfigError: prometheus-client is not installed, or there is no commit.
    """
    try:
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
    except ImportError:
        raise ConfigError(
            "/metrics needs the client of Prometheus: pip install 'penstock-streams[prometheus]'"
        ) from None
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(application))
    return generate_latest(registry), CONTENT_TYPE_LATEST


def prometheus_name(metric: str, scope: str = "") -> str:
    """The Prometheus name of a figure; it includes the scope, unless that is a step.

    >>> prometheus_name("late-record-drop-total"), prometheus_name("suppression-buffer-count-current")
    ('penstock_late_record_drop_total', 'penstock_suppression_buffer_count')
    >>> prometheus_name("process-total", "task")
    'penstock_task_process_total'
    """
    return "_".join(filter(None, ("penstock", scope, metric.removesuffix("-current").replace("-", "_"))))


class _Collector:
    """Returns all figures on request."""

    def __init__(self, application: Application):
        self._application = application

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        by_name: dict[tuple[str, str], list[tuple[Metric, float]]] = {}
        own: dict[str, list[tuple[Metric, float]]] = {}
        for metric, figure in self._application.metrics().items():
            if metric.is_own:
                own.setdefault(_name_of_own(metric), []).append((metric, figure))
            else:
                by_name.setdefault((metric.scope, metric.name), []).append((metric, figure))
        for (scope, name), found in sorted(by_name.items()):
            kind = CounterMetricFamily if name.endswith("-total") else GaugeMetricFamily
            text = _HELP.get(name, f"Kafka Streams' {name}, of {scope or 'a step or a store'}.")
            labels = _LABELS_OF[scope]
            family = kind(prometheus_name(name, scope), text, labels=labels)
            for metric, figure in found:
                of_metric = dict(zip(_EVERY, (metric.client, metric.task, metric.node, metric.reason), strict=True))
                family.add_metric([of_metric[_IS[label]] for label in labels], figure)
            yield family
        for name, found in sorted(own.items()):
            yield _of_users(GaugeMetricFamily, name, found)
        yield from self._of_the_application(GaugeMetricFamily)

    def _of_the_application(self, gauge: Any) -> Iterator[Any]:
        """Figures of the application as a whole."""
        figures = self._application.figures()
        name = figures["application"]
        commit = gauge("penstock_commit", "The newest commit.", labels=["application"])
        commit.add_metric([name], figures["commit"])
        age = gauge("penstock_commit_age_seconds", "Time since the newest commit.", labels=["application"])
        age.add_metric([name], max(time.time() - figures["at"] / 1000, 0.0))
        help_ = "For how long records have waited and nothing moved; 0 if neither."
        stalled = gauge("penstock_lag_stalled_seconds", help_, labels=["application"])
        stalled.add_metric([name], self._application.stalled_seconds())
        lag = gauge("penstock_lag_records", "Records not read yet.", labels=["application", "topic", "partition"])
        late = gauge("penstock_lag_seconds", "Time between what is read next and the newest record.",
                     labels=["application", "topic"])  # fmt: skip
        for topic, one in figures["topics"].items():
            for partition, records in enumerate(one.get("lag", ())):
                lag.add_metric([name, topic, str(partition)], records)
            late.add_metric([name, topic], one.get("lag_ms", 0) / 1000)
        stream = gauge("penstock_stream_time_seconds", "The earliest stream time of a step's tasks, since 1970.",
                       labels=["application", "node"])  # fmt: skip
        for node, of_node in figures["nodes"].items():
            if "stream_time" in of_node:
                stream.add_metric([name, node], of_node["stream_time"][0] / 1000)
        yield from (commit, age, stalled, lag, late, stream, *self._of_slots(gauge, name, figures["places"]))

    def _of_slots(self, gauge: Any, name: str, places: dict[str, Any]) -> Iterator[Any]:
        """The places of slots."""
        labels = ["application", "slot", "executor", "host"]
        tasks = gauge("penstock_slot_tasks", "How many tasks a slot has.", labels=labels)
        there = gauge("penstock_slot_come", "Whether a slot has come; else another one has its tasks.", labels=labels)
        copied = gauge("penstock_slot_copied", "Whether a copy of its state follows on another machine.", labels=labels)
        for number, slot in enumerate(places["slots"]):
            where = [name, str(number), slot["executor"], slot["host"]]
            tasks.add_metric(where, slot.get("tasks", 0))
            there.add_metric(where, int("shared_by" not in slot))
            copied.add_metric(where, int(bool(slot.get("copy"))))
        help_ = "Tasks that have come to another machine since the start."
        moved = gauge("penstock_moved_tasks", help_, labels=["application"])
        if places["slots"]:
            moved.add_metric([name], places["moved_total"])
        yield from (tasks, there, copied, moved)


def _name_of_own(metric: Metric) -> str:
    """The Prometheus name of a figure that a processor records."""
    return re.sub(r"\W", "_", f"penstock_{metric.group}_{metric.name}")


def _of_users(family: Any, name: str, found: list[tuple[Metric, float]]) -> Any:
    """The figures of one name that processors record; it has the labels of all their tags."""
    tags = [{"application": metric.client, **metric.tags} for metric, _ in found]
    labels = sorted({tag for one in tags for tag in one})
    made = family(name, "Recorded by a processor of the program.", labels=[re.sub(r"\W", "_", tag) for tag in labels])
    for one, (_, figure) in zip(tags, found, strict=True):
        made.add_metric([one.get(tag, "") for tag in labels], figure)
    return made
