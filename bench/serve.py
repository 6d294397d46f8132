"""State over HTTP while W1 runs: how long an answer takes at an even rate, and what it costs the program.

python -m bench.serve ask URL    ask for keys at random, until the input ends
"""

from __future__ import annotations

import http.client
import json
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

import numpy as np

from bench import data
from bench.measure import RunError, kill_session, start
from bench.plan import Plan
from bench.report import Row, Section, at_most, median, spread
from bench.running import PATIENCE, check, running
from penstock.engine.shared.manifest import Manifest, Manifests
from penstock.log.contract.writer import Segment
from penstock.log.file.log import FileLog
from penstock.storage.base import LocalStorage

RECORDS, FIRST = 5_000_000, 50_000
RATE, CLIENTS = 200, 4
AT_MOST_MS, AT_MOST_SLOWER = 10.0, 1.1
KEYS = 50_000
WARM_UP_SECONDS = 3.0
_LOOK_SECONDS = 0.01
_SERVED = re.compile(r"http://\S+?:\d+")


def measure(plan: Plan) -> Section:
    """Answers' times, and W1's with questions and without."""
    found: list[tuple[float, float, tuple[float, ...]]] = []
    for _ in range(plan.runs):
        without, _ = _asked_w1(plan, asked=False)
        with_, answers = _asked_w1(plan, asked=True)
        found.append((without, with_, answers))
        plan.say(f"serve: {with_ / without:.2f} times as long with questions, p99 {answers[1]:.1f} ms")
    alone, asked = [one[0] for one in found], [one[1] for one in found]
    p50, p99, rate = (median([one[2][number] for one in found]) for number in range(3))
    section = Section(
        "SERVE: state over HTTP while W1 runs",
        f"penstock serve beside W1 (every update), which has {plan.size(RECORDS):,} records waiting; {CLIENTS} clients "
        f"ask for windows of keys at random, {RATE} a second together at an even rate. The times of answers count from "
        "when a question was due. W1's seconds: from the append of the records until the last count is there.",
    )
    section.rows.append(Row("answers a second", f"{rate:.0f}"))
    section.rows.append(Row("answer, p50", f"{p50:.2f} ms"))
    section.rows.append(at_most("answer, p99", p99, AT_MOST_MS, "ms"))
    section.rows.append(Row("W1 alone", f"{median(alone):.2f} s", spread(alone)))
    section.rows.append(Row("W1 with questions", f"{median(asked):.2f} s", spread(asked)))
    ratios = [with_ / without for without, with_, _ in found]
    section.rows.append(at_most("W1 with questions / alone", median(ratios), AT_MOST_SLOWER))
    return section


def _asked_w1(plan: Plan, asked: bool) -> tuple[float, tuple[float, ...]]:
    """How long W1 takes; and the median and the 99th percentile of answers in milliseconds, and how many a second."""
    answers: list[float] = []
    with waiting_w1(plan) as w1, _asking(plan, answers) if asked else nullcontext():
        took = w1.read()
    return took, tuple(answers)


@dataclass(frozen=True)
class WaitingW1:
    """W1 (every update) that runs, and all its records, which it has not seen yet."""

    plan: Plan
    process: subprocess.Popen[str]
    segments: list[Segment]

    def read(self) -> float:
        """Append the records; the seconds until all of them are in a commit."""
        began = time.monotonic()
        self.plan.penstock.log.append("in", self.segments)
        _wait_until_read(self.plan, self.process)
        return time.monotonic() - began


@contextmanager
def waiting_w1(plan: Plan, records: int = RECORDS) -> Iterator[WaitingW1]:
    """Start W1, and let it read a few records first; so many wait."""
    plan.penstock.clear("in", "out")
    log = plan.penstock.log
    first, waiting = (data.fill_once(log, "events", plan.size(count)) for count in (FIRST, records))
    try:
        log.append("in", data.copies(log, first, "in"))
        segments = _written(log, waiting)
        with running(plan.penstock.job("W1", ["in"], ["--live"])) as process:
            _wait_until_read(plan, process)
            yield WaitingW1(plan, process, segments)
    finally:
        plan.penstock.clear("in", "out")


def _written(log: FileLog, source: str) -> list[Segment]:
    """The records of a topic as segments of ``in``, for one append."""
    with log.writer("in", "bench-in-again") as writer:
        for partition, end in enumerate(log.end_offsets(source)):
            for records in log.read(source, partition, 0, end):
                writer.write(partition, records.key, records.value, records.timestamp, placed=records.placed)
    return writer.segments()


def _wait_until_read(plan: Plan, process: subprocess.Popen[str]) -> None:
    """Wait until all records of ``in`` are in a commit."""
    manifests, size = Manifests(LocalStorage(_state(plan) / "checkpoint")), plan.penstock.log.size("in")
    until = time.monotonic() + PATIENCE
    while (newest := manifests.newest()) is None or _read(newest) < size:
        check(process)
        if time.monotonic() > until:
            raise RunError(f"the job did not read all records in {PATIENCE:g} s")
        time.sleep(_LOOK_SECONDS)


def _read(manifest: Manifest) -> int:
    return sum(task.offsets.get("in", 0) for task in manifest.tasks.values())


def _state(plan: Plan) -> Path:
    return plan.penstock.work / "state"


@contextmanager
def serving(plan: Plan, command: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``penstock serve`` or ``penstock ui`` beside the program, and its address."""
    given = [command, str(_state(plan)), "--port", "0", "--log", str(plan.penstock.log.root)]
    with running([sys.executable, "-m", "penstock", *given]) as server:
        assert server.stderr is not None
        url = next((found[0] for line in server.stderr if (found := _SERVED.search(line))), None)
        if url is None:
            raise RunError(f"penstock {command} ended before it said where")
        yield server, url


@contextmanager
def _asking(plan: Plan, answers: list[float]) -> Iterator[None]:
    """Serve the state and ask for it, after a warm-up; in the end ``answers`` has what the clients told."""
    with serving(plan, "serve") as (_, url):
        clients = start([sys.executable, "-m", __name__, "ask", url], with_input=True)
        try:
            assert clients.stdout is not None
            clients.stdout.readline()  # they are warm
            yield
            out, errors = clients.communicate("", timeout=PATIENCE)
        finally:
            kill_session(clients.pid)
    if clients.returncode:
        raise RunError(f"the clients failed:\n{errors[-3000:]}")
    answers += json.loads(out.splitlines()[-1])


def ask(url: str, ended: threading.Event, warm_up: float = WARM_UP_SECONDS) -> list[float]:
    """Ask at an even rate; the median and the 99th percentile in milliseconds, and how many answers came a second."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    connection.request("GET", "/stores")
    store = json.load(connection.getresponse())["stores"][0]["store"]
    connection.close()
    took: list[list[float]] = [[] for _ in range(CLIENTS)]
    began = time.perf_counter() + warm_up
    clients = [
        threading.Thread(target=_client, args=(url, store, number, began, ended, some))
        for number, some in enumerate(took)
    ]
    for client in clients:
        client.start()
    time.sleep(max(0.0, began - time.perf_counter()))
    print("warm", flush=True)
    for client in clients:
        client.join()
    every = [time for some in took for time in some]
    p50, p99 = np.percentile(every, [50, 99]) * 1_000
    return [float(p50), float(p99), len(every) / (time.perf_counter() - began)]


def _client(url: str, store: str, number: int, began: float, ended: threading.Event, took: list[float]) -> None:
    """One connection, which asks when its time comes; what was asked before ``began`` does not count."""
    chosen, connection = random.Random(number), http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)
    due = time.perf_counter() + number / RATE
    while not ended.is_set():
        time.sleep(max(0.0, due - time.perf_counter()))
        connection.request("GET", f"/stores/{quote(store)}/user-{chosen.randrange(KEYS):06d}")
        answer = connection.getresponse()
        answer.read()
        if answer.status not in (200, 404):  # a key may have no window yet
            raise RunError(f"an answer of status {answer.status}")
        if due >= began:
            took.append(time.perf_counter() - due)
        due += CLIENTS / RATE
    connection.close()


def _until_the_input_ends(url: str) -> list[float]:
    ended = threading.Event()
    threading.Thread(target=lambda: ended.set() if not sys.stdin.read() else None, daemon=True).start()
    return ask(url, ended)


if __name__ == "__main__":
    print(json.dumps(_until_the_input_ends(sys.argv[2])))
