"""What a measurement is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.engines import Engine, Penstock


@dataclass(frozen=True)
class Plan:
    """How much is measured, and with what.

    Attributes:
        penstock: where workloads run.
        peers: other engines that are measured in the same way, in the same rounds.
        runs: how often everything is measured; medians count.
        is_quick: a tenth of the records: to see that everything works.
        say: tells the user how far it is.
    """

    penstock: Penstock
    peers: Sequence[Engine]
    runs: int
    is_quick: bool
    say: Callable[[str], None]

    def size(self, records: int) -> int:
        """How many records to take for so many."""
        return records // 10 if self.is_quick else records
