"""A program that runs for long: whether memory, threads, open files and files on disk level off.

python -m bench.soak --minutes 60, or `make soak`
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import pyarrow as pa
from rich.console import Console

from bench import data, report, run
from bench.engines import Penstock
from bench.latency import VALUE
from bench.measure import Sampler
from bench.report import Row, Section, at_most
from bench.running import check, running
from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog

RATE, APPEND = 2_000, 20
KEYS = 50_000
RETENTION_MS = 120_000
EVERY_SECONDS = 10.0
LIMIT = 1.15
"""How much more the last quarter may have than the second: an hour's growth would show."""


class Look(NamedTuple):
    """What there was at one time, all processes together."""

    private: float
    """Memory without pages of files, in MB."""
    threads: float
    descriptors: float
    files: float
    """On disk, of topics and state."""
    disk: float
    """MB of them."""


_WORDS = ("private memory, MB", "threads", "open files", "files on disk", "MB on disk")


@click.command()
@click.option("--minutes", default=60.0, show_default=True)
@click.option("--work", type=click.Path(path_type=Path), default=run.FOLDER / "runs")
@click.option("--keep", is_flag=True, help="Keep the figures among the results.")
def main(minutes: float, work: Path, keep: bool) -> None:
    """Run W1 at 2,000 records a second, in appends of 20, and look at it every ten seconds."""
    if keep and report.changes():
        raise click.ClickException("the tree has changes, and results are kept by commit")
    looks = _looks(Penstock(work), minutes * 60)
    section = Section(
        f"SOAK: {minutes:g} minutes at {RATE:,} records a second",
        f"W1 (every update) in appends of {APPEND}, topics that keep {RETENTION_MS // 1000} s; means over the second "
        "and the last quarter of the time, all processes together.",
    )
    quarter = max(len(looks) // 4, 1)
    for name, values in zip(_WORDS, zip(*looks, strict=True), strict=True):
        early, late = float(np.mean(values[quarter : 2 * quarter])), float(np.mean(values[-quarter:]))
        section.rows.append(Row(f"{name}, second quarter", f"{early:,.0f}"))
        section.rows.append(Row(f"{name}, last quarter", f"{late:,.0f}"))
        section.rows.append(at_most(f"{name}, last / second", late / max(early, 1), LIMIT))
    Console(width=120).print(report.table([section]))
    if keep:
        run.keep(section, 1)


def _looks(penstock: Penstock, seconds: float) -> list[Look]:
    log = penstock.log
    penstock.clear("in", "out")
    for topic in ("in", "out"):
        log.create_topic(TopicInfo(topic, data.PARTITIONS, "str", "bytes", retention_ms=RETENTION_MS))
    found = []
    with running(penstock.job("W1", ["in"], ["--live"])) as process:
        began = next_ = time.monotonic()
        number = 0
        while time.monotonic() < began + seconds:
            time.sleep(max(began + number * APPEND / RATE - time.monotonic(), 0))
            _append(log)
            number += 1
            if time.monotonic() >= next_:
                next_ += EVERY_SECONDS
                check(process)
                found.append(_look(process.pid, penstock.work))
    penstock.clear("in", "out")
    return found


_random = random.Random(7)


def _append(log: FileLog) -> None:
    keys = [b"user-%06d" % int(KEYS * _random.random() ** 2) for _ in range(APPEND)]
    now = np.full(APPEND, time.time_ns() // 1_000_000, np.int64)
    data.produce(log, "in", (pa.array(keys, pa.binary()), pa.array([VALUE] * APPEND, pa.binary()), now))


def _look(session: int, work: Path) -> Look:
    sampler = Sampler(session)
    sampler.sample()
    processes = [Path(f"/proc/{pid}") for pid in sampler.processes]
    threads = sum(_entries(one / "task") for one in processes)
    descriptors = sum(_entries(one / "fd") for one in processes)
    sizes = list(_sizes(work))
    return Look(sampler.peak_private / 1e6, threads, descriptors, len(sizes), sum(sizes) / 1e6)


def _entries(folder: Path) -> int:
    try:
        return len(os.listdir(folder))
    except OSError:  # it has ended
        return 0


def _sizes(folder: Path) -> Iterator[int]:
    """Of all files in it; some go while they are looked at."""
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                yield os.stat(os.path.join(place, name)).st_size
            except OSError:
                pass


if __name__ == "__main__":
    main()
