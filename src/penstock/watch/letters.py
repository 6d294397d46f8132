"""Dead letters as the page shows them: which record failed, in which step, with which error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.handlers import ERROR_HEADERS
from penstock.log.consume import headers_of
from penstock.log.records import Records
from penstock.query.plain import decoded
from penstock.serdes import BYTES, Serde, from_name
from penstock.values.masking import masked
from penstock.watch.topics import TopicLook

_MOST_STACK = 8_000
"""The number of characters of a stack trace that are returned: the last ones."""


class Letters:
    """Reads dead letters.

    Args:
        topics: looks at the topics.
    """

    def __init__(self, topics: TopicLook):
        self._topics = topics
        self._types: dict[str, tuple[Serde, Serde]] = {}

    def newest(self, topic: str, limit: int) -> dict[str, Any]:
        """The newest dead letters of a topic, the newest first: each with the place of its record, the step that
        failed, and the error without the secrets of URLs. Raises like :meth:`TopicLook.newest`."""
        rows = [row for records, at in self._topics.newest_of(topic, limit) for row in self._letters(records, at)]
        rows.sort(key=lambda row: (row["letter"]["timestamp"], row["letter"]["offset"]), reverse=True)
        return {"topic": topic, "records": self._topics.present(topic), "rows": rows[:limit]}

    def _letters(self, records: Records, partition: int) -> Iterator[dict[str, Any]]:
        places = records.offsets.tolist(), records.timestamp.tolist()
        columns = *places, headers_of(records), records.key.to_pylist(), records.value.to_pylist()
        for offset, timestamp, headers, key, value in zip(*columns, strict=True):
            said = {name: data.decode(errors="replace") for name, data in headers}
            origin = _either(said, "topic")
            types = self._types_of(origin)
            yield {
                "node": said.get("penstock.node", ""),
                "error": masked(said.get("penstock.error") or said.get(f"{ERROR_HEADERS}.message", "")),
                "exception": said.get(f"{ERROR_HEADERS}.exception", ""),
                "function": said.get("penstock.function", ""),
                "stack": masked(said.get(f"{ERROR_HEADERS}.stacktrace", ""))[-_MOST_STACK:],
                "topic": origin,
                "partition": _either(said, "partition"),
                "offset": _either(said, "offset"),
                "key": _value(types[0], key),
                "value": _value(types[1], value),
                "letter": {"partition": partition, "offset": offset, "timestamp": timestamp},
            }

    def _types_of(self, topic: str) -> tuple[Serde, Serde]:
        """The types of the topic that a letter came from; bytes if they are not known."""
        if topic not in self._types:
            self._types[topic] = BYTES, BYTES
            try:
                if self._topics.log is not None:
                    info = self._topics.log.topic(topic)
                    self._types[topic] = from_name(info.key), from_name(info.value)
            except (PenstockError, OSError):
                pass
        return self._types[topic]


def _either(said: dict[str, str], name: str) -> str:
    """A header of Penstock, or that of Kafka Streams."""
    return said.get(f"penstock.{name}") or said.get(f"{ERROR_HEADERS}.{name}", "")


def _value(serde: Serde, data: bytes | None) -> Any:
    return decoded(serde, pa.array([data], pa.binary()))[0]
