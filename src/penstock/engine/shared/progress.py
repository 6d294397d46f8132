"""How far a running application is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from msgspec.structs import asdict

from penstock.engine.shared.children import Child
from penstock.figures.losses import Loss


@dataclass(frozen=True)
class Progress:
    """The progress of an application after a commit.

    >>> progress = Progress("app", commit=7, records=100, total_records=900, lag=0, seconds=0.25)
    >>> progress.lost
    0
    """

    application_id: str
    commit: int
    records: int
    """Records read in this commit."""
    total_records: int
    """Records read since this start."""
    lag: int
    """Records that were there when the commit began and are still to be read."""
    seconds: float
    """How long the commit took."""
    losses: tuple[Loss, ...] = ()
    """Records that did not go on since this start: dropped as late, expired or without a key, skipped, dead letters."""

    executors: Mapping[str, int] = field(default_factory=dict)
    """How many tasks each executor has."""
    moved: int = 0
    """Tasks that came to another machine before this commit."""
    total_moved: int = 0
    """Tasks that have come to another machine since this start."""

    children: tuple[Child, ...] = ()
    """How data gets in and out: the queries of Spark for DataFrames and tables, the sources, and the sinks. Each has
    its state and its rows."""

    @property
    def lost(self) -> int:
        """How many records were left out since this start. If several steps left out a record, it counts several
        times."""
        return sum(loss.records for loss in self.losses)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        plain = {"losses": [loss.to_dict() for loss in self.losses], "executors": dict(self.executors)}
        plain["children"] = [asdict(child) for child in self.children]
        return {one.name: getattr(self, one.name) for one in fields(self)} | plain
