"""The pass-through limit: topic to topic through Spark, beside a bare Python process that does the same without it.

Both are far cheaper than the start of a JVM, so whole runs cannot tell them apart. Each is therefore measured within a
process that is warm. In turns they are given few and many records, newly appended to their input topics; the marginal
cost is the difference between the medians of the two. All processes of a session count, the JVM included.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from pathlib import Path

import click

from bench import data
from bench.bare import copy_records
from bench.measure import RunError, kill_session, session_cpu, start
from bench.plan import Plan
from bench.report import Row, Section, at_most, median, spread
from bench.workloads import passthrough
from penstock.log.base import Segment, TopicInfo
from penstock.log.file.log import FileLog

LIMIT = 1.5
KINDS = ("bare", "spark")
PATIENCE = 300.0


def measure(plan: Plan) -> Section:
    """The marginal cost of both, and their ratio."""
    few, many, rounds = plan.sizes.rounds
    source = data.fill_once(plan.penstock.log, "events", few)
    costs: dict[tuple[str, int], list[float]] = {(kind, size): [] for kind in KINDS for size in (few, many)}
    for number in range(plan.runs):
        processes = {kind: _Process(plan, kind, source) for kind in KINDS}
        try:
            for turn in range(-1, rounds):
                for (kind, size), found in costs.items():
                    cost = processes[kind].ask(size // few)
                    if turn >= 0:  # the first turn warms up
                        found.append(cost)
        finally:
            for process in processes.values():
                process.end()
        plan.say(f"{number + 1}/{plan.runs} pass-through, {rounds} rounds of each")
    return _section(plan, costs)


def _section(plan: Plan, costs: dict[tuple[str, int], list[float]]) -> Section:
    few, many, rounds = plan.sizes.rounds
    section = Section(
        "Pass-through",
        f"CPU seconds per million records within warm processes, from {plan.runs * rounds} rounds of {few:,} and as "
        f"many of {many:,} records, in turns. Bare: one Python process that maps the same segments and writes the same "
        "records into the same format, checksums and syncs to disk included. Penstock: all its processes and the JVM.",
    )
    marginal = {}
    for kind, label in zip(KINDS, ("bare Python process", "Penstock on Spark"), strict=True):
        small, large = median(costs[kind, few]), median(costs[kind, many])
        marginal[kind] = (large - small) / (many - few)
        own = max(small - marginal[kind] * few, 0.0)
        every = [(cost - small) / (many - few) * 1e6 for cost in costs[kind, many]]
        section.rows.append(Row(label, f"{marginal[kind] * 1e6:.3f} CPU s", spread(every, 3)))
        section.rows.append(Row(f"{label}: a round of any size, not in the above", f"{own:.3f} CPU s"))
    section.rows.append(at_most("Penstock / bare", marginal["spark"] / max(marginal["bare"], 1e-12), LIMIT))
    return section


class _Process:
    """A process that passes records through whenever it is asked to."""

    def __init__(self, plan: Plan, kind: str, source: str):
        self._penstock = plan.penstock
        self._kind = kind
        self._remove()
        command = [sys.executable, "-m", "bench.passthrough", kind, str(plan.penstock.work), source]
        self._process = start(command, with_input=True)

    def ask(self, times: int) -> float:
        """Have the records passed through once more, so many times over; CPU seconds that it took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{times}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure("ended") from None
        if not select.select([self._process.stdout], [], [], PATIENCE)[0]:
            raise self._failure(f"gave no answer in {PATIENCE:g} s")
        answer = self._process.stdout.readline()
        if not answer:
            raise self._failure("ended")
        return float(json.loads(answer)["cpu"])

    def end(self) -> None:
        kill_session(self._process.pid)
        self._process.communicate()
        self._remove()

    def _failure(self, what: str) -> RunError:
        kill_session(self._process.pid)
        return RunError(f"pass-through, {self._kind}: the process {what}:\n{self._process.communicate()[1][-3000:]}")

    def _remove(self) -> None:
        self._penstock.remove(f"pass-{self._kind}", f"state-pass-{self._kind}")
        self._penstock.remove(f"out-{self._kind}")


@click.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("work", type=click.Path(path_type=Path))
@click.argument("source")
def main(kind: str, work: Path, source: str) -> None:
    """Pass SOURCE through as many times as the next line of the input says; answers with the CPU seconds of each."""
    log = FileLog(work.resolve() / "log")
    topic, sink = f"pass-{kind}", f"out-{kind}"
    segments = data.write_again(log, source, topic)
    log.create_topic(TopicInfo(sink, log.topic(topic).partitions, "str", "json"))
    engine = _Bare(log, topic, sink) if kind == "bare" else _Spark(log, topic, sink, work.resolve())
    for line in sys.stdin:
        cost = _cost(log, topic, sink, segments * int(line), engine)
        print(json.dumps({"cpu": cost}), flush=True)


class _Bare:
    """Copies what is new by itself."""

    def __init__(self, log: FileLog, topic: str, sink: str):
        self._log, self._topic, self._sink = log, topic, sink
        self._ends = log.end_offsets(topic)

    def wait(self) -> None:
        starts, self._ends = self._ends, self._log.end_offsets(self._topic)
        copy_records(self._log, self._topic, self._sink, starts, self._ends)


class _Spark:
    """Waits until a running application has passed everything on."""

    def __init__(self, log: FileLog, topic: str, sink: str, work: Path):
        self._streams = passthrough(topic, sink).start(
            application_id="pass", log=log, state_dir=work / "state-pass-spark", trigger="100 ms"
        )

    def wait(self) -> None:
        self._streams.process_all_available()


def _cost(log: FileLog, topic: str, sink: str, segments: list[Segment], engine: _Bare | _Spark) -> float:
    """CPU seconds of the whole session from the moment when segments are appended until they are passed on."""
    session = os.getsid(0)
    time.sleep(0.2)  # what the round before left to do is not this one's
    began = session_cpu(session)
    log.append(topic, segments)
    engine.wait()
    cost = session_cpu(session) - began
    ends, written = log.end_offsets(topic), log.end_offsets(sink)
    if written != ends:
        raise RunError(f"records up to offsets {ends} were to be passed on, but {sink} ends at {written}")
    log.trim(sink, dict(enumerate(written)))
    return cost


if __name__ == "__main__":
    main()
