"""The numbers of a table of Iceberg: of each partition the number of the last batch that the table's rows have.

A snapshot keeps the number of its batch in its summary. So a table that is rolled back has the number of the rows that
it has then. Snapshots expire, so each commit also keeps the number in a property of the table. That one counts if the
history ends before a snapshot with a number, and if it is older than what is left of the history.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.errors import SinkError
from penstock.sinks.protocol import SinkPartition


class Kept(NamedTuple):
    """The number that a table keeps of a partition, and the topic that it belongs to."""

    number: int
    topic_id: str

    @property
    def text(self) -> str:
        """How a summary keeps it."""
        return f"{self.number} {self.topic_id}"

    @classmethod
    def of(cls, text: str) -> Kept:
        """Return what a text means."""
        number, topic_id = text.split(" ", 1)
        return cls(int(number), topic_id)


def name_of(partition: SinkPartition) -> str:
    """Return the name in summaries and properties."""
    return f"penstock.{partition.id}"


def as_property(kept: Kept, metadata: Any) -> str:
    """Return how a property keeps it: behind the place of the present snapshot in the history."""
    return f"{_order(metadata.current_snapshot())} {kept.text}"


def kept_of(metadata: Any, partition: SinkPartition) -> Kept | None:
    """Return what a table keeps of a partition; None if it has none of its rows.

    Args:
        metadata: the table's.

    Raises:
        SinkError: the table was rolled back, and the number of its rows has expired.
    """
    name = name_of(partition)
    known = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    oldest = snapshot = metadata.current_snapshot()
    while snapshot is not None:
        if snapshot.summary is not None and (text := snapshot.summary.get(name)) is not None:
            return Kept.of(text)
        oldest = snapshot
        snapshot = known.get(snapshot.parent_snapshot_id)
    text = metadata.properties.get(name)
    if text is None or oldest is None:
        return None
    order, said = text.split(" ", 1)
    kept = Kept.of(said)
    if int(order) < _order(oldest):
        return kept
    if _order(oldest) == 1:  # the history is whole: the table was rolled back to where it had none of the rows
        return None
    raise SinkError(
        f"the table was rolled back to before number {kept.number:,} of {partition.id!r}, and the snapshot with the "
        "number of its rows has expired. Roll it back to a snapshot with rows of this sink. Or, if you know the number "
        f"of its rows, set the table's property {name!r} to '0 <number> {kept.topic_id}'"
    )


def _order(snapshot: Any) -> int:
    """Return a number that grows with each snapshot: tables of version 1 have times alone."""
    return int(snapshot.sequence_number or snapshot.timestamp_ms)
