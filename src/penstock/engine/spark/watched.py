"""The news of a program for Spark: figures of a moment, and the JSON of the events that streaming queries send.

Spark makes an event from this JSON, so that listeners, event log and pages take the program for a streaming query.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from penstock.engine.commit.opening import Ends
from penstock.engine.shared.manifest import Manifest
from penstock.engine.shared.places import slot_of
from penstock.engine.shared.progress import Progress
from penstock.figures.metrics import STATE_BYTES, STATE_ROWS

_READ, _READ_BYTES = "topic:records-consumed-total", "topic:bytes-consumed-total"
_WRITTEN, _WRITTEN_BYTES = "topic:records-produced-total", "topic:bytes-produced-total"
_NANOSECONDS = "task:process-latency-sum"
_COUNTED = (_READ, _READ_BYTES, _WRITTEN, _WRITTEN_BYTES, _NANOSECONDS, STATE_ROWS, STATE_BYTES)


@dataclass
class SlotFigures:
    """The work of one slot's tasks since the application's first start."""

    records: int = 0
    """Records read, from topics of the log and from other tasks."""
    bytes: int = 0
    """Bytes read and written."""
    nanoseconds: int = 0
    """Time for processing them."""


@dataclass
class Figures:
    """The work of an application since its first start, as of a commit."""

    read: dict[str, int] = field(default_factory=dict)
    """Records by source topic."""
    written: dict[str, int] = field(default_factory=dict)
    """Records by output topic."""
    read_bytes: int = 0
    written_bytes: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    """Rows by store."""
    bytes: dict[str, int] = field(default_factory=dict)
    """Bytes by store."""
    slots: list[SlotFigures] = field(default_factory=list)


def figures_of(manifest: Manifest, sources: Sequence[str], internal: Collection[str], slots: int) -> Figures:
    """Return the figures of a commit.

    Args:
        sources: the topics that the application reads.
        internal: its repartition topics.
        slots: how many slots there are.
    """
    found = Figures(dict.fromkeys(sources, 0), slots=[SlotFigures() for _ in range(slots)])
    for label, figure in manifest.observed.items():
        if label.endswith(_COUNTED):
            task, node, reason, name = label.split("|")
            slot = found.slots[slot_of(task, slots)]
            if name == STATE_ROWS:
                found.rows[node] = found.rows.get(node, 0) + figure
            elif name == STATE_BYTES:
                found.bytes[node] = found.bytes.get(node, 0) + figure
            elif name == _NANOSECONDS:
                slot.nanoseconds += figure
            else:
                _count_topic(found, slot, name, reason, reason in internal, figure)
    return found


def _count_topic(found: Figures, slot: SlotFigures, name: str, topic: str, is_internal: bool, figure: int) -> None:
    """Count records or bytes that a slot has read from a topic or written into it."""
    if name == _READ:
        slot.records += figure
        if not is_internal:
            found.read[topic] = found.read.get(topic, 0) + figure
    elif name in (_READ_BYTES, _WRITTEN_BYTES):
        slot.bytes += figure
        if not is_internal and name == _READ_BYTES:
            found.read_bytes += figure
        elif not is_internal:
            found.written_bytes += figure
    elif name == _WRITTEN and not is_internal:
        found.written[topic] = found.written.get(topic, 0) + figure


@dataclass
class Moment:
    """An application after a commit.

    Args:
        at: the wall clock, in seconds since 1970.
        seconds: how long all commits since the start took.
    """

    progress: Progress
    figures: Figures
    offsets: Ends
    ends: Ends
    at: float
    seconds: float

    @property
    def gauges(self) -> dict[str, int]:
        """The figures by the names that they have in Spark's metrics, below the application."""
        figures, progress = self.figures, self.progress
        slots = {
            f"slot-{slot}.{name}": value
            for slot, one in enumerate(figures.slots)
            for name, value in (
                ("records", one.records),
                ("bytes", one.bytes),
                ("milliseconds", one.nanoseconds // 10**6),
            )
        }
        return {
            "commit": progress.commit,
            "records-read": sum(figures.read.values()),
            "bytes-read": figures.read_bytes,
            "records-written": sum(figures.written.values()),
            "bytes-written": figures.written_bytes,
            "lag-records": progress.lag,
            "lost-records": progress.lost,
            "state-rows": sum(figures.rows.values()),
            "state-bytes": sum(figures.bytes.values()),
            **slots,
        }


@dataclass(frozen=True)
class AsQuery:
    """A program in the form of a streaming query.

    Args:
        id: stays from start to start.
        run: of this start.
        name: the application's id.
    """

    id: str
    run: str
    name: str

    def started(self, at: float) -> str:
        """Return Spark's ``QueryStartedEvent``."""
        return json.dumps({**self._known(at), "jobTags": []})

    def terminated(self, error: str | None) -> str:
        """Return Spark's ``QueryTerminatedEvent``."""
        return json.dumps({"id": self.id, "runId": self.run, "exception": error})

    def progress(self, before: Moment, now: Moment) -> str:
        """Return Spark's ``StreamingQueryProgress`` of all commits between two moments."""
        seconds = now.seconds - before.seconds
        ms = round(seconds * 1000)
        written = _sum_since(before.figures.written, now.figures.written)
        return json.dumps(
            {
                **self._known(now.at),
                "batchId": now.progress.commit,
                "batchDuration": ms,
                "durationMs": {"triggerExecution": ms},
                "eventTime": {},
                "stateOperators": [_store(name, now.figures) for name in sorted(now.figures.rows)],
                "sources": [self._source(topic, before, now, seconds) for topic in now.figures.read],
                "sink": {
                    "description": "topics " + ", ".join(sorted(now.figures.written)),
                    "numOutputRows": written,
                    "metrics": {name: str(figure) for name, figure in now.gauges.items()},
                },
                "observedMetrics": {},
            }
        )

    def _known(self, at: float) -> dict[str, Any]:
        time = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {"id": self.id, "runId": self.run, "name": self.name, "timestamp": time}

    def _source(self, topic: str, before: Moment, now: Moment, seconds: float) -> dict[str, Any]:
        rows = now.figures.read[topic] - before.figures.read.get(topic, 0)
        at, ends = now.offsets.get(topic, []), now.ends.get(topic, [])
        lag = sum(max(end - offset, 0) for end, offset in zip(ends, at, strict=False))
        return {
            "description": f"topic {topic}",
            "startOffset": _offsets(topic, before.offsets),
            "endOffset": _offsets(topic, now.offsets),
            "latestOffset": _offsets(topic, now.ends),
            "numInputRows": rows,
            "inputRowsPerSecond": rows / max(now.at - before.at, 0.001),
            "processedRowsPerSecond": rows / max(seconds, 0.001),
            "metrics": {"lagRecords": str(lag)},
        }


def _offsets(topic: str, offsets: Ends) -> str:
    """Return the offsets of a topic, in the form of Spark's source for Kafka.

    >>> _offsets("t", {"t": [7, 5]})
    '{"t": {"0": 7, "1": 5}}'
    """
    return json.dumps({topic: {str(partition): offset for partition, offset in enumerate(offsets.get(topic, []))}})


def _store(name: str, figures: Figures) -> dict[str, Any]:
    nothing = ("numRowsUpdated", "numRowsRemoved", "allUpdatesTimeMs", "allRemovalsTimeMs", "commitTimeMs")
    return {
        "operatorName": name,
        "numRowsTotal": figures.rows[name],
        "memoryUsedBytes": figures.bytes.get(name, 0),
        **dict.fromkeys(nothing, 0),
        "numRowsDroppedByWatermark": 0,
        "numShufflePartitions": 0,
        "numStateStoreInstances": 0,
        "customMetrics": {},
    }


def _sum_since(before: Mapping[str, int], now: Mapping[str, int]) -> int:
    return sum(now.values()) - sum(before.values())
