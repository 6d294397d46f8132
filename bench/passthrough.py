"""The pass-through limit: topic to topic through Spark, beside a bare Python process that does the same without it.

Both are far cheaper than the start of a JVM, so whole runs cannot tell them apart: each is measured within a process
that is warm. In turns they are given few and many records, newly appended to their input topics; the marginal cost is
the difference between the medians of the two. All processes of a session count, the JVM included.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench import data
from bench.helper import Helper, answer
from bench.measure import RunError, session_cpu
from bench.plan import Plan
from bench.report import Row, Section, at_most, median, spread
from bench.workloads import passthrough
from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog

LIMIT = 1.5
KINDS = {"bare": "bare Python process", "spark": "Penstock on Spark"}
TIMES = (1, 5)
"""How often the million records are appended in a small and in a large round."""
ROUNDS = 12


def measure(plan: Plan) -> Section:
    """The marginal cost of both, and their ratio."""
    million = plan.size(1_000_000)
    source = data.fill_once(plan.penstock.log, "events", million)
    costs: dict[tuple[str, int], list[float]] = {(kind, times): [] for times in TIMES for kind in KINDS}
    for _ in range(plan.runs):
        plan.penstock.clear(*(f"{end}-{kind}" for kind in KINDS for end in ("in", "out")))
        helpers = {kind: Helper([__name__, kind, str(plan.penstock.work), source]) for kind in KINDS}
        try:
            for turn in range(-2, ROUNDS):  # the first turns warm up
                for (kind, times), found in costs.items():
                    cost = helpers[kind].ask(times)
                    if turn >= 0:
                        found.append(cost)
        finally:
            for helper in helpers.values():
                helper.end()
        plan.say(f"pass-through: {ROUNDS} rounds of each")
    plan.penstock.clear(*(f"{end}-{kind}" for kind in KINDS for end in ("in", "out")))
    return _section(costs, million)


def _section(costs: dict[tuple[str, int], list[float]], million: int) -> Section:
    small, large = TIMES
    section = Section(
        "PASS: topic to topic",
        f"CPU seconds per million records of warm processes, from {len(costs['bare', small])} rounds of "
        f"{small * million:,} and as many of {large * million:,} records. Bare: maps the same segments and writes the "
        "same records in the same format, checksums and syncs to disk included. Penstock: the JVM and all processes.",
    )
    marginal = {}
    for kind, label in KINDS.items():
        base = median(costs[kind, small])
        every = [(cost - base) / (large - small) / million * 1e6 for cost in costs[kind, large]]
        marginal[kind] = median(every)
        section.rows.append(Row(label, f"{marginal[kind]:.3f} CPU s", spread(every, 3)))
    section.rows.append(at_most("Penstock / bare", marginal["spark"] / marginal["bare"], LIMIT))
    return section


def main(kind: str, work: Path, source: str) -> None:
    """Have the records of a topic passed through as often as asked; answers with the CPU seconds that it took."""
    log = FileLog(work / "log")
    topic, sink = f"in-{kind}", f"out-{kind}"
    segments = data.copies(log, source, topic)
    log.create_topic(TopicInfo(sink, log.topic(topic).partitions, "str", "json"))
    pass_on = (_bare if kind == "bare" else _spark)(log, topic, sink, work)

    def cost(times: int) -> float:
        session = os.getsid(0)
        time.sleep(0.2)  # what the round before left to do is not this one's
        began = session_cpu(session)
        log.append(topic, segments * times)
        pass_on()
        used = session_cpu(session) - began
        ends, written = log.end_offsets(topic), log.end_offsets(sink)
        if written != ends:
            raise RunError(f"records up to offsets {ends} were to be passed on, but {sink} ends at {written}")
        log.trim(sink, dict(enumerate(written)))
        return used

    answer(cost)


def _spark(log: FileLog, topic: str, sink: str, work: Path) -> Callable[[], None]:
    """Waits until a running application has passed everything on."""
    streams = passthrough(topic, sink).start(application_id="pass", log=log, state_dir=work / "state" / "pass")
    return lambda: streams.process_all_available()


def _bare(log: FileLog, topic: str, sink: str, work: Path) -> Callable[[], None]:
    """Copies what is new."""
    starts = log.end_offsets(topic)

    def pass_on() -> None:
        nonlocal starts
        segments = []
        ends = log.end_offsets(topic)
        for partition, (start, end) in enumerate(zip(starts, ends, strict=True)):
            with log.writer(sink, f"bare-{partition}-{end}") as writer:
                for records in log.read(topic, partition, start, end):
                    writer.write(partition, records.key, records.value, records.timestamp, placed=records.placed)
            segments += writer.segments()
        log.append(sink, segments)
        starts = ends

    return pass_on


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
