"""The names of metrics: those of Kafka Streams 4.4, with their groups and recording levels, and those that only the
KIPs or Penstock define.

Metrics of 4.4 have the names, groups and tags that it registers itself. Those that only the KIPs' texts define
(KIP-328, KIP-914, KIP-655) have the groups and tags of the texts.
"""

from __future__ import annotations

from collections.abc import Iterator

RECORDING_LEVELS = ("INFO", "DEBUG", "TRACE")
"""As in Kafka Streams: each includes the previous ones."""

GROUPS = {
    "client": "stream-metrics",
    "thread": "stream-thread-metrics",
    "task": "stream-task-metrics",
    "node": "stream-processor-node-metrics",
    "topic": "stream-topic-metrics",
    "state": "stream-state-metrics",
}
"""By the scope of a metric."""

OF_KAFKA: dict[str, dict[str, str]] = {
    "client": {"recording-level": "INFO"},
    "thread": {
        "commit-total": "INFO",
        "commit-rate": "INFO",
        "commit-latency-avg": "INFO",
        "commit-latency-max": "INFO",
        "process-total": "INFO",
        "process-rate": "INFO",
        "punctuate-total": "INFO",
        "punctuate-rate": "INFO",
    },
    "task": {
        "dropped-records-total": "INFO",
        "dropped-records-rate": "INFO",
        "process-total": "DEBUG",
        "process-rate": "DEBUG",
        "process-latency-avg": "DEBUG",
        "process-latency-max": "DEBUG",
        "punctuate-total": "DEBUG",
        "punctuate-rate": "DEBUG",
        "record-lateness-avg": "DEBUG",
        "record-lateness-max": "DEBUG",
    },
    "node": {
        "process-total": "DEBUG",
        "process-rate": "DEBUG",
        "record-e2e-latency-avg": "INFO",
        "record-e2e-latency-min": "INFO",
        "record-e2e-latency-max": "INFO",
        "suppression-emit-total": "DEBUG",
        "suppression-emit-rate": "DEBUG",
        "window-aggregate-final-emit-total": "DEBUG",
        "window-aggregate-final-emit-rate": "DEBUG",
    },
    "topic": {
        "bytes-consumed-total": "INFO",
        "bytes-produced-total": "INFO",
        "records-consumed-total": "INFO",
        "records-produced-total": "INFO",
    },
    "state": {
        "estimate-num-keys": "INFO",
        "suppression-buffer-count-avg": "DEBUG",
        "suppression-buffer-count-max": "DEBUG",
        "suppression-buffer-size-avg": "DEBUG",
        "suppression-buffer-size-max": "DEBUG",
        "record-e2e-latency-avg": "TRACE",
        "record-e2e-latency-min": "TRACE",
        "record-e2e-latency-max": "TRACE",
    },
}
"""The metrics of Kafka Streams 4.4 that exist here, by scope and name, with their recording levels."""

_COUNTED, _MEASURED, _NOW = ("-total", "-rate"), ("-avg", "-min", "-max"), ("-current",)

OF_THE_TEXTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "dropped-records": ("INFO", _COUNTED),
    "late-record-drop": ("INFO", _COUNTED),
    "expired-window-record-drop": ("INFO", _COUNTED),
    "skipped-records": ("INFO", _COUNTED),
    "dead-letter-records": ("INFO", _COUNTED),
    "duplicates-dropped": ("INFO", _COUNTED),
    "beyond-history-lookups": ("INFO", _COUNTED),
    "object-store-requests": ("INFO", _COUNTED),
    "object-store-read-bytes": ("INFO", _COUNTED),
    "object-store-written-bytes": ("INFO", _COUNTED),
    "record-lateness": ("DEBUG", _MEASURED),
    "suppression-buffer-count": ("DEBUG", _MEASURED + _NOW),
    "suppression-buffer-size": ("DEBUG", _MEASURED + _NOW),
    "intermediate-result-suppression-overtime": ("INFO", _MEASURED),
    "estimate-num-keys": ("INFO", _NOW),
    "state-bytes": ("INFO", _NOW),
}
"""Metrics that 4.4 does not have, or only in another group, by step, store or buffer: the names without their endings,
with the recording level and the existing endings.
"""

NOT_GIVEN: dict[str, str] = {
    "version, commit-id, application-id, process-id, topology-description, state": (
        "these are texts. `penstock status` and `penstock topology` show them"
    ),
    "client-state, alive-stream-threads, failed-stream-threads, thread-state, thread-start-time": (
        "these describe a process, but metrics describe commits. `/health` shows the state of the process"
    ),
    "poll-*, *-ratio, blocked-time-ns-total, active-buffer-count, enforced-processing-*": (
        "there is no poll loop: the driver tells each task what to read"
    ),
    "task-created-*, task-closed-*, restore-*, update-*": ("restore listeners report these events"),
    "put-*, get-*, fetch-*, all-*, range-*, prefix-scan-*, delete-*, remove-*, flush-*, *-iterator*": (
        "stores read and write a chunk of records at a time, so there is no call for a single record to measure"
    ),
    "idempotent-update-skip-*, window-aggregate-final-emit-latency-*, hit-ratio, cache-size-bytes-total": (
        "Penstock processes a chunk of records at once, so these moments do not occur"
    ),
    "num-keys, block-cache-*, *-mem-table*, *-sst-files-size, bytes-read-*, compaction-*, ...": (
        "these are RocksDB's own. `state-bytes` shows the size of a store in memory and on disk"
    ),
}
"""Further metrics of 4.4, and why they do not exist here."""

_ENDINGS = ("-total", "-rate", "-avg", "-max", "-min", "-current")


def stem(name: str) -> str:
    """Return a metric's name without the ending for the kind of measurement.

    >>> stem("record-lateness-max"), stem("recording-level")
    ('record-lateness', 'recording-level')
    """
    return next((name.removesuffix(ending) for ending in _ENDINGS if name.endswith(ending)), name)


def level_of(scope: str, name: str) -> str:
    """Return the recording level of a metric; one without a scope belongs to a node, or to the texts."""
    kafkas = OF_KAFKA[scope or "node"].get(name)
    return kafkas or OF_THE_TEXTS.get(stem(name), ("INFO",))[0]


def is_recorded_at(level: str, of_figure: str) -> bool:
    """Return whether metrics of a level are recorded at a setting's level.

    >>> is_recorded_at("DEBUG", "INFO"), is_recorded_at("INFO", "DEBUG")
    (True, False)
    """
    return RECORDING_LEVELS.index(of_figure) <= RECORDING_LEVELS.index(level)


def has_rate(scope: str, name: str) -> bool:
    """Return whether a total has a rate: in 4.4, or in the texts."""
    return name.replace("-total", "-rate") in OF_KAFKA[scope] if scope else True


def names() -> Iterator[tuple[str, str]]:
    """Yield all possible metrics: the scope, empty for those of steps and of the texts, and the name."""
    for scope, kafkas in OF_KAFKA.items():
        yield from ((scope if scope != "node" else "", name) for name in kafkas)
    for one, (_, endings) in OF_THE_TEXTS.items():
        yield from (("", f"{one}{ending}") for ending in endings)
