"""How long starts and stops take: cold, in a session that is there, and many records by one program."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from bench import data
from bench.measure import Cost, Sampler, run
from bench.plan import Plan
from bench.report import Row, Section, at_most, median, spread
from bench.running import running, wait_for

RECORDS = 100
WHOLE_RECORDS = 20_000_000
_NO_CACHE = {"XDG_CACHE_HOME": "/dev/null"}
"""Where nothing can be kept, so neither the archive of Spark's classes."""


class _Figure(NamedTuple):
    what: str
    unit: str
    limit: float | None
    values: list[float]

    def row(self) -> Row:
        measured, shown = median(self.values), spread(self.values)
        if self.limit is None:
            return Row(self.what, f"{measured:.2f} {self.unit}", shown)
        return replace(at_most(self.what, measured, self.limit, self.unit), spread=shown)


def measure(plan: Plan) -> Section:
    """Starts with and without the archive of Spark's classes, and in a session that is there."""
    source = data.fill_once(plan.penstock.log, "events", RECORDS)
    figures = (
        _Figure("W1, windowed counts", "s", 4.5, []),
        _Figure("W1, all processes until then", "CPU s", 7, []),
        _Figure("W1, without the class archive", "s", 6, []),
        _Figure("W3, sessions, whose rules are compiled code", "s", None, []),
        _Figure("W1, the next program of a session", "s", 1, []),
        _Figure("stop", "s", 0.5, []),
        _Figure("end of the process after that", "s", 0.5, []),
    )
    for _ in range(plan.runs):
        seconds, cpu = _first_output(plan, "W1", source)
        without, _ = _first_output(plan, "W1", source, _NO_CACHE)
        compiled, _ = _first_output(plan, "W3", source)
        again, stop, end = _in_a_session(plan, source)
        for figure, value in zip(figures, (seconds, cpu, without, compiled, again, stop, end), strict=True):
            figure.values.append(value)
        plan.say(f"cold start: {seconds:.2f} s, {cpu:.1f} CPU s; in a session {again:.2f} s; stop {stop:.2f} s")
    about = (
        "Seconds from the start of a process, which has no state, until its first output can be read; "
        f"{RECORDS} records wait for it. The JVM, Spark and the slots start in them. In a session of the user's, "
        "programs start and stop one after the other."
    )
    return Section("START: cold start", about, [figure.row() for figure in figures])


def measure_connect(plan: Plan) -> Section:
    """Starts in a session of Spark Connect beside those in a classic one, and a slot that is killed in each."""
    source = data.fill_once(plan.penstock.log, "events", RECORDS)
    kinds = ("classic", "connect")
    said: dict[str, list[Mapping[str, float]]] = {kind: [] for kind in kinds}
    for _ in range(plan.runs):
        for kind in kinds:
            said[kind].append(_session(plan, source, kind).said)
            plan.say(f"{kind}: {said[kind][-1]}")

    def more(name: str) -> list[float]:
        return [there[name] - here[name] for here, there in zip(*said.values(), strict=True)]

    rows = [
        _Figure(f"{kind}, {what}", "s", limit, [one[name] for one in said[kind]]).row()
        for name, what, limit in (
            ("first", "the first program of a session", None),
            ("start", "the next program of a session", None),
            ("killed", "a slot is killed, until the next commit", 5),
        )
        for kind in kinds
    ]
    rows += [
        _Figure("Connect - classic, the first program", "s", 1, more("first")).row(),
        _Figure("Connect - classic, the next program", "s", 1, more("start")).row(),
    ]
    about = (
        "Seconds from the start of a program to its first output, in a session that is there, and from the kill of one "
        f"of two slots to the next output; {RECORDS} records wait each time."
    )
    return Section("CONNECT: sessions of Spark Connect and classic ones", about, rows)


def measure_whole(plan: Plan) -> Section:
    """Many records by one program, from its start to its end."""
    count = plan.size(WHOLE_RECORDS)
    source = data.fill_once(plan.penstock.log, "events", count)
    seconds = []
    for _ in range(plan.runs):
        plan.penstock.clear("out")
        seconds.append(run(plan.penstock.job("W1", [source])).seconds)
        plan.say(f"{count:,} records: {seconds[-1]:.2f} s")
    plan.penstock.clear("out")
    about = f"Seconds that one program takes for {count:,} records of W1 (every update), start and end included."
    return Section("WHOLE: W1 from start to end", about, [_Figure("the program", "s", 9, seconds).row()])


def _first_output(
    plan: Plan, name: str, source: str, environment: Mapping[str, str] = MappingProxyType({})
) -> tuple[float, float]:
    """Seconds until then, and CPU seconds."""
    plan.penstock.clear("out")
    began = time.monotonic()
    with running(plan.penstock.job(name, [source], ["--live"]), environment) as process:
        sampler = Sampler(process.pid)
        sampler.start()
        wait_for(process, plan.penstock.log, "out", 1)
        seconds = time.monotonic() - began
        sampler.stop()
    plan.penstock.clear("out")
    return seconds, sampler.cpu


def _in_a_session(plan: Plan, source: str) -> Sequence[float]:
    """Seconds of the start and the stop of a program that is not its session's first, and of the process's end."""
    cost = _session(plan, source, "classic")
    return cost.said["start"], cost.said["stop"], time.monotonic() - cost.said["ended"]


def _session(plan: Plan, source: str, kind: str) -> Cost:
    return run([sys.executable, "-m", "bench.in_session", source, str(plan.penstock.work), kind])
