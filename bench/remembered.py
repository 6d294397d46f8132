"""How much a deduplication holds after many intervals of data, beside the ids of one interval."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from bench import data
from bench.plan import Plan
from bench.report import Row, Section, at_most
from penstock import Deduplicated, StreamsBuilder, Topology
from penstock.engine.local import LocalApplication
from penstock.settings import Settings
from penstock.storage.base import LocalStorage

RECORDS = 2_000_000
INTERVALS = 20


def measure(plan: Plan) -> Section:
    """The entries in memory and on disk after a run, purged ones that are still there included."""
    records = plan.size(RECORDS)
    interval = records // INTERVALS
    source = data.fill_once(plan.penstock.log, "distinct", records)
    held = _held(plan, topology(source, "out", interval))
    plan.penstock.clear("out")
    plan.say(f"remembered: {held:,} entries")
    section = Section(
        "STORE: what a deduplication holds",
        f"Entries of the store, in memory or on disk, also those that nobody sees any more, after {records:,} records "
        f"that are all new: one each millisecond, with an interval of {interval:,} ms, so {INTERVALS} intervals.",
    )
    section.rows.append(Row("ids of one interval", f"{interval + 1:,}"))
    section.rows.append(Row(f"entries after {INTERVALS} intervals", f"{held:,}"))
    section.rows.append(at_most("entries / ids of one interval", held / (interval + 1), 1.3))
    return section


def topology(source: str, sink: str, interval: int) -> Topology:
    """Deduplication by key."""
    builder = StreamsBuilder()
    stream = builder.stream(source, key=str, value=bytes)
    stream.deduplicate_by_key(interval, Deduplicated(store_name="ids")).to(sink)
    return builder.build()


def _held(plan: Plan, topology: Topology) -> int:
    """The entries that all tasks hold when they have processed everything."""
    with TemporaryDirectory(dir=plan.penstock.work) as folder:
        storage = LocalStorage(Path(folder) / "checkpoint")
        settings = Settings.load(environment={}, commit_max_bytes=16 << 20)
        application = LocalApplication(topology, "bench", settings, plan.penstock.log, storage, Path(folder) / "state")
        application.run_until()
        stores = [task.state.stores["ids"] for task in application.host.tasks()]
        held = sum(1 for store in stores for piece in store.pieces() for _ in piece.scan())
        application.close()
    return held
