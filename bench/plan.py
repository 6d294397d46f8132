"""How much is measured, and with what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bench.engines import Engine, Penstock


@dataclass(frozen=True)
class Sizes:
    """How many records the measurements take.

    Attributes:
        events: the small and the large run over events; the marginal cost is that of the difference.
        accounts: the same over updates of accounts.
        rounds: the small and the large round within a pass-through process, and how many of each.
        triggers: how many micro-batches of 100 records.
        memory: records, and state entries, of the memory measurement; and the records of a slot at rest.
        restart: the few and the many state entries at a restart.
        expected: events and accounts of the runs whose outputs are compared.
    """

    events: tuple[int, int] = (1_000_000, 5_000_000)
    accounts: tuple[int, int] = (500_000, 2_500_000)
    rounds: tuple[int, int, int] = (1_000_000, 5_000_000, 12)
    triggers: int = 60
    memory: tuple[int, int] = (5_000_000, 1_000)
    restart: tuple[int, int] = (10_000, 1_000_000)
    expected: tuple[int, int] = (1_000_000, 500_000)


QUICK = Sizes(
    (20_000, 100_000), (20_000, 100_000), (20_000, 100_000, 3), 10, (100_000, 1_000), (10_000, 50_000), (20_000, 20_000)
)


@dataclass
class Plan:
    """What a measurement is given.

    Attributes:
        penstock: where workloads run.
        peers: other engines that are measured in the same way, in the same rounds.
        runs: how often everything is measured.
        say: tells the user how far it is.
    """

    penstock: Penstock
    sizes: Sizes
    runs: int
    say: Callable[[str], None]
    peers: list[Engine] = field(default_factory=list)
