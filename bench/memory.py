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
SMALLER: Mapping[str, Any] = {"hot_max_bytes": 16 * MIB, "statestore_uncommitted_max_bytes": 16 * MIB}
WRITE_BUFFERS = 16 * MIB
"""What a task's database may keep in its write buffers."""


def measure(plan: Plan) -> Section:
    """What slots and all processes together take, beside what the settings allow."""
    large, few, many = plan.size(LARGE), plan.size(FEW), plan.size(MANY)
    section = Section(
        "MEMORY: slots and all processes",
        f"Peak private memory (without pages of files) of the larger slot while W1 (every update) reads {large:,} "
        f"events in one available-now run. Its bound: what it is for {BASE:,} events, and for each task of the slot "
        "hot_max_bytes, statestore_uncommitted_max_bytes, block_cache_bytes and the database's write buffers. Then "
        "resident memory of the larger slot when W9 goes on from few or from many state entries. Its bound: "
        "hot_max_bytes and block_cache_bytes of the slot's tasks.",
    )
    base, _ = _private(plan, BASE, {})
    section.rows.append(Row(f"slot, {BASE:,} events", f"{base / MIB:.0f} MiB"))
    for settings, label in (({}, "default settings"), (SMALLER, "16 MiB for rows, for writes")):
        slot, everything = _private(plan, large, settings)
        bound = base + _allowed(Settings.load(**settings), writes=True)
        section.rows.append(at_most(f"slot, {large:,} events, {label}", slot / MIB, bound / MIB, "MiB"))
        section.rows.append(Row("driver, JVM and slots together", f"{everything / MIB:.0f} MiB"))
    without, full = _resident(plan, few), _resident(plan, many)
    section.rows.append(Row(f"slot, {few:,} state entries", f"{without / MIB:.0f} MiB"))
    section.rows.append(Row(f"slot, {many:,} state entries", f"{full / MIB:.0f} MiB"))
    limit = _allowed(Settings.load(), writes=False)
    section.rows.append(at_most("slot, many less few entries", (full - without) / MIB, limit / MIB, "MiB"))
    return section


def _private(plan: Plan, records: int, settings: Mapping[str, Any]) -> tuple[int, int]:
    """Peak private bytes of the larger slot, and of everything, in a run of W1."""
    source = data.fill_once(plan.penstock.log, "events", records)
    plan.penstock.clear("out")
    options = [option for name, value in settings.items() for option in ("--set", f"{name}={value}")]
    cost = _run(plan, plan.penstock.job("W1", [source], options))
    plan.penstock.clear("out")
    return max(slot.peak_private for slot in cost.slots), cost.peak_private


def _resident(plan: Plan, entries: int) -> int:
    """Peak resident bytes of the larger slot in a run that begins with so many state entries."""
    log = plan.penstock.log
    plan.penstock.clear("in", "out")
    data.fill(log, "in", data.distinct(entries))
    job = plan.penstock.job("W9", ["in"])
    _run(plan, job)
    data.produce(log, "in", data.events(BASE))
    cost = _run(plan, job)
    plan.penstock.clear("in", "out")
    return max(slot.peak_rss for slot in cost.slots)


def _run(plan: Plan, job: list[str]) -> Cost:
    cost = run(job)
    plan.say(f"memory: {' '.join(job[3:])}: {[slot.peak_private // MIB for slot in cost.slots]} MiB")
    return cost


def _allowed(settings: Settings, writes: bool) -> int:
    """What the settings allow the tasks of a slot; there is a task for each partition."""
    tasks = -(-data.PARTITIONS // min(data.PARTITIONS, os.cpu_count() or 1))
    caches = settings.hot_max_bytes + settings.block_cache_bytes
    return tasks * (caches + (settings.statestore_uncommitted_max_bytes + WRITE_BUFFERS if writes else 0))
