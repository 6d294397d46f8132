"""Memory: of a large run at its peak, and of slots whose state has few or many entries."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from bench import data
from bench.measure import Cost, run
from bench.plan import Plan
from bench.report import Row, Section, at_most
from penstock.settings import MIB, Settings

BASE, LARGE = 100_000, 5_000_000
FEW, MANY = 10_000, 5_000_000
TIGHT: Mapping[str, Any] = {
    "hot_max_bytes": 16 * MIB,
    "statestore_uncommitted_max_bytes": 16 * MIB,
    "commit_max_bytes": 32 * MIB,
}
WRITE_BUFFERS = 16 * MIB
"""What a task's database may keep in its write buffers."""


def measure(plan: Plan) -> Section:
    """What slots and all processes together take, beside what the settings allow."""
    large, few, many = plan.size(LARGE), plan.size(FEW), plan.size(MANY)
    section = Section(
        "MEMORY: slots and all processes",
        "Peak private memory (without pages of files) of the larger slot while W1 (every update) reads "
        f"{large:,} events, and W9 as many distinct keys, in one available-now run. The bound: what W1 takes for "
        f"{BASE:,} events, and for each task of the slot hot_max_bytes, statestore_uncommitted_max_bytes, "
        "commit_max_bytes, block_cache_bytes and the database's write buffers. Tight settings: "
        f"{', '.join(f'{name} {value // MIB} MiB' for name, value in TIGHT.items())}. Then resident memory of the "
        "larger slot when W9 goes on from few or many state entries; the bound is hot_max_bytes and block_cache_bytes.",
    )
    base, _ = _of_w1(plan, BASE, {})
    section.rows.append(Row(f"slot, W1, {BASE:,} events", f"{base / MIB:.0f} MiB"))
    for values, label in (({}, "default settings"), (TIGHT, "tight settings")):
        slot, everything = _of_w1(plan, large, values)
        bound = base + _working(Settings.load(**values))
        section.rows.append(at_most(f"slot, W1, {large:,} events, {label}", slot / MIB, bound / MIB, "MiB"))
        section.rows.append(Row("driver, JVM and slots together", f"{everything / MIB:.0f} MiB"))
    settings = Settings.load()
    _, without = _of_w9(plan, few)
    filling, full = _of_w9(plan, many)
    bound = base + _working(settings)
    section.rows.append(at_most(f"slot, W9, {many:,} distinct keys", filling / MIB, bound / MIB, "MiB"))
    section.rows.append(Row(f"slot, resident, {few:,} state entries", f"{without / MIB:.0f} MiB"))
    section.rows.append(Row(f"slot, resident, {many:,} state entries", f"{full / MIB:.0f} MiB"))
    limit = _caches(settings)
    section.rows.append(at_most("slot, resident, many less few", (full - without) / MIB, limit / MIB, "MiB"))
    return section


def _of_w1(plan: Plan, records: int, settings: Mapping[str, Any]) -> tuple[int, int]:
    """Peak private bytes of the larger slot, and of everything."""
    source = data.fill_once(plan.penstock.log, "events", records)
    plan.penstock.clear("out")
    options = [option for name, value in settings.items() for option in ("--set", f"{name}={value}")]
    cost = _run(plan, plan.penstock.job("W1", [source], options))
    plan.penstock.clear("out")
    return max(slot.peak_private for slot in cost.slots), cost.peak_private


def _of_w9(plan: Plan, entries: int) -> tuple[int, int]:
    """Of the larger slot: peak private bytes while so many entries are made, and resident bytes when it goes on."""
    log = plan.penstock.log
    plan.penstock.clear("in", "out")
    data.fill(log, "in", data.distinct(entries))
    job = plan.penstock.job("W9", ["in"])
    filling = _run(plan, job)
    data.produce(log, "in", data.events(BASE))
    going_on = _run(plan, job)
    plan.penstock.clear("in", "out")
    return max(slot.peak_private for slot in filling.slots), max(slot.peak_rss for slot in going_on.slots)


def _run(plan: Plan, job: list[str]) -> Cost:
    cost = run(job)
    plan.say(f"memory: {' '.join(job[3:])}: {[slot.peak_private // MIB for slot in cost.slots]} MiB")
    return cost


def _caches(settings: Settings) -> int:
    """What the tasks of a slot may keep of their state; there is a task for each partition."""
    return _tasks() * (settings.hot_max_bytes + settings.block_cache_bytes)


def _working(settings: Settings) -> int:
    """What the tasks of a slot may take while they work."""
    commit = settings.commit_max_bytes + settings.statestore_uncommitted_max_bytes
    return _caches(settings) + _tasks() * (commit + WRITE_BUFFERS)


def _tasks() -> int:
    """How many tasks a slot has."""
    return -(-data.PARTITIONS // min(data.PARTITIONS, os.cpu_count() or 1))
