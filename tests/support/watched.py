"""An application to look at."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from penstock import BufferConfig, StreamsBuilder, Suppressed, TimeWindows, Topology, produce
from penstock.engine.local import LocalApplication
from penstock.log.file.log import FileLog
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from support.folders import MEMORY

MINUTE = 60_000
SOLD = [
    ("ann", 5.0, 1_000),
    ("gus", 7.0, 2_000),
    ("ann", 1.0, 2 * MINUTE),
    ("gus", 2.0, 3_000),
    ("ann", 9.0, 1_000),  # its minute is over
]
"""Of two partitions."""

Order = tuple[str, float, int]


def shop_topology() -> Topology:
    """Counts orders by minute, and sends on each minute once it is over."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=str, value=float, name="orders")
    windows = TimeWindows.of_size_and_grace("1 minute", "10 seconds")
    counts = orders.group_by_key().windowed_by(windows).count("minutes", name="by-minute")
    final = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("final"))
    final.to_stream().to("finals")
    return builder.build()


class Shop:
    """Runs a topology over orders, in a folder."""

    def __init__(
        self,
        folder: Path,
        topology: Topology,
        partitions: int = 2,
        *,
        log: Path | None = None,
        name: str = "shop",
        on_error: str = "fail",
        **settings: Any,
    ):
        self.folder = folder
        self.log = FileLog(log or folder / "log")
        produce([], "orders", str, float, self.log, partitions=partitions)
        loaded = Settings.load(environment={}, on_error=on_error, **settings)
        storage = LocalStorage(folder / "checkpoint")
        self.running = LocalApplication(topology, name, loaded, self.log, storage, folder / "state")

    def log_only(self, *orders: Order) -> None:
        """Have orders come that nobody processes."""
        produce(orders, "orders", str, float, self.log)

    def sell(self, *orders: Order) -> None:
        """Have orders come, and process them."""
        self.log_only(*orders)
        self.running.run_until()


S = TypeVar("S", bound=Shop)


@contextmanager
def open_shop(kind: type[S] = Shop) -> Iterator[S]:
    """A shop that has sold ``SOLD``, for the tests of a module."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        shop = kind(Path(folder), shop_topology())
        shop.sell(*SOLD)
        yield shop
