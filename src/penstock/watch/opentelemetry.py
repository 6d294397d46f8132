"""All figures of an application for OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from penstock.errors import ConfigError, PenstockError
from penstock.figures.metric_names import names
from penstock.log.open import open_log
from penstock.query.application import ApplicationStores, open_stores
from penstock.watch.figures import Application


def observe(application: str | Path | ApplicationStores, log: Path | str | None = None, meter: Any = None) -> None:
    """Have OpenTelemetry collect the figures of an application, as of its newest commit, whenever it collects.

    The names are Kafka Streams' with ``penstock.`` in front, then ``thread.``, ``task.``, ``topic.`` or ``state.`` for
    what is not of a step, and dots for dashes; ``application``, ``task``, ``node`` and ``reason`` are attributes, of
    topics and stores ``topic``, ``store`` and ``type``. Where the application runs does not matter: what it has
    committed is what is read.

    Args:
        application: its id, its checkpoint, or ``streams.stores()`` of a running one.
        log: the folder of its topics, for how far behind it is; by default the setting ``log_dir``.
        meter: by default the one of the global provider.

    Raises:
        ConfigError: OpenTelemetry is not installed, or there is no such application.
    """
    try:
        from opentelemetry.metrics import Observation, get_meter
    except ImportError:
        raise ConfigError("this needs OpenTelemetry: pip install 'penstock-streams[opentelemetry]'") from None
    stores = application if isinstance(application, ApplicationStores) else open_stores(application)
    seen, meter = Application(stores, open_log(log)), meter or get_meter("penstock")
    for scope, name in names():
        create = meter.create_observable_counter if name.endswith("-total") else meter.create_observable_gauge
        create(_named(name, scope), callbacks=[_of_metric(seen, scope, name, Observation)])
    meter.create_observable_gauge("penstock.recorded", callbacks=[_of_users(seen, Observation)])
    meter.create_observable_gauge("penstock.commit", callbacks=[_commit(seen, Observation)])
    meter.create_observable_gauge("penstock.lag.records", callbacks=[_lag(seen, Observation)])


def _named(metric: str, scope: str) -> str:
    words = metric.removesuffix("-current").removesuffix("-total").replace("-", ".")
    return ".".join(filter(None, ("penstock", scope, words)))


def _of_metric(seen: Application, scope: str, name: str, make: Any) -> Callable[[Any], Iterable[Any]]:
    node, reason = {"topic": ("node", "topic"), "state": ("store", "type")}.get(scope, ("node", "reason"))

    def observed(options: Any) -> Iterable[Any]:
        figures = _safely(seen.metrics, {})
        for metric, figure in figures.items():
            if (metric.scope, metric.name) == (scope, name):
                where = {"task": metric.task, node: metric.node, reason: metric.reason}
                yield make(figure, {"application": metric.client} | {key: text for key, text in where.items() if text})

    return observed


def _of_users(seen: Application, make: Any) -> Callable[[Any], Iterable[Any]]:
    """The figures that processors of the program record, by the attributes ``group`` and ``metric``."""

    def observed(options: Any) -> Iterable[Any]:
        for metric, figure in _safely(seen.metrics, {}).items():
            if metric.is_own:
                what = {"application": metric.client, "group": metric.group, "metric": metric.name}
                yield make(figure, what | metric.tags)

    return observed


def _commit(seen: Application, make: Any) -> Callable[[Any], Iterable[Any]]:
    def observed(options: Any) -> Iterable[Any]:
        for name, commit in _safely(seen.commit, {}).items():
            yield make(commit, {"application": name})

    return observed


def _lag(seen: Application, make: Any) -> Callable[[Any], Iterable[Any]]:
    def observed(options: Any) -> Iterable[Any]:
        figures = _safely(seen.figures, {})
        for topic, one in figures.get("topics", {}).items():
            for partition, records in enumerate(one.get("lag", ())):
                yield make(records, {"application": figures["application"], "topic": topic, "partition": partition})

    return observed


def _safely(ask: Callable[[], dict[Any, Any]], nothing: dict[Any, Any]) -> dict[Any, Any]:
    """The result of a request; ``nothing`` while it cannot be read, since the collector must not fail for that."""
    try:
        return ask()
    except (PenstockError, OSError):
        return nothing
