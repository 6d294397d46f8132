"""The bare process: a program that copies records from topic to topic, and nothing else.

It reads mapped segments and writes segments of the same format, and so shows what the format itself costs.
"""

from __future__ import annotations

from penstock.log.file.log import FileLog


def copy_records(log: FileLog, source: str, sink: str, starts: list[int], ends: list[int]) -> None:
    """Copy the records between two offsets of each partition, and make them visible at once."""
    segments = []
    for partition, (start, end) in enumerate(zip(starts, ends, strict=True)):
        with log.writer(sink, f"bare-{partition}-{end}") as writer:
            for records in log.read(source, partition, start, end):
                writer.write(partition, records.key, records.value, records.timestamp, placed=records.placed)
        segments += writer.segments()
    log.append(sink, segments)
