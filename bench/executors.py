"""The same work on one executor and on four, and with a checkpoint in an object store instead of a folder.

The executors are processes of Spark on this machine; what is compared is what a record costs the driver and the slots
together. The virtual machines are left out: no record goes through them, and the start of five takes more CPU time than
millions of records, and now more and now less.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from bench import data
from bench.engines import Engine, Penstock, Run
from bench.marginal import Measured, cost_rows, ratio
from bench.measure import RunError, run
from bench.plan import Plan
from bench.report import Section, at_most
from bench.workloads import WORKLOADS, Inputs, Workload

PARTITIONS = 4
ONE, FOUR = "local-cluster[1,4,1024]", "local-cluster[4,1,1024]"
AT_MOST, AT_MOST_STORED = 1.15, 1.3
NAMES = ("W1", "W3", "W7")
_S3_SERVER = Path(__file__).resolve().parents[1] / "tests" / "support" / "s3_server.py"
_KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "us-east-1"}
_BUCKET = "bench"


@dataclass
class OnExecutors(Engine):
    """Penstock on executors of Spark that are processes of their own, with as many tasks as there are cores.

    Args:
        master: where Spark runs.
        environment: how an object store is found that has the checkpoint; nothing for the folder of the state.
    """

    name: str
    penstock: Penstock
    master: str
    environment: Mapping[str, str] = field(default_factory=dict)
    scale: int = Penstock.scale
    _runs: int = 0

    def expected(self, workload: Workload) -> str:
        return f"{workload.name}-{PARTITIONS}"

    def fill(self, inputs: Inputs) -> list[str]:
        """The topics with these inputs, which are made where they are not there yet."""
        return [data.fill_once(self.penstock.log, name, count, PARTITIONS) for name, count in inputs.items()]

    def run(self, workload: Workload, inputs: Inputs) -> Run:
        log, sources = self.penstock.log, self.fill(inputs)
        self.penstock.clear("out")
        self._runs += 1
        options = ["--master", self.master, "--slots", str(PARTITIONS)]
        if self.environment:
            options += ["--checkpoint", f"s3://{_BUCKET}/{workload.name}-{self._runs}"]
        started = log.root / "@applications" / "bench.json"  # it says where the checkpoint was: another one is refused
        started.unlink(missing_ok=True)
        try:
            cost = run(self.penstock.job(workload.name, sources, options), environment=self.environment)
        finally:
            started.unlink(missing_ok=True)
        return self.penstock.without_jvm(workload, cost)


def measured() -> Iterator[Workload]:
    """What is run on executors."""
    return (workload for workload in WORKLOADS if workload.name in NAMES and not workload.cache)


def measure(plan: Plan, workload: Workload) -> Section:
    """What a record costs on one executor, on four, and on four with an object store."""
    section = Section(
        f"EXECUTORS-{workload.title}, on one executor, four, and with an object store",
        f"Marginal CPU seconds per million records, of the driver and all slots, of topics of {PARTITIONS} partitions; "
        "one executor of four cores, four executors of one core each, and four with the checkpoint on an S3 "
        "server, whose own work does not count.",
    )
    with _object_store() as store:
        _compare(plan, section, workload, store)
    return section


def _compare(plan: Plan, section: Section, workload: Workload, store: Mapping[str, str]) -> None:
    engines = (
        OnExecutors(f"{workload.name}, one executor", plan.penstock, ONE),
        OnExecutors(f"{workload.name}, four executors", plan.penstock, FOUR),
        OnExecutors(f"{workload.name}, four and S3", plan.penstock, FOUR, store),
    )
    turns = [Measured.of(plan, engine, workload) for engine in engines]
    for inputs in (turns[0].total, turns[0].few, turns[0].many):
        engines[0].fill(inputs)
    os.sync()  # or whoever runs first pays for what is still written
    for _ in range(plan.runs):
        for each in turns:
            each.take_turn(plan)
    one, four, stored = (cost_rows(section, each) for each in turns)
    section.rows.append(ratio(f"{workload.name}, four executors / one", four, one, at_most, AT_MOST))
    section.rows.append(ratio(f"{workload.name}, S3 / folder", stored, four, at_most, AT_MOST_STORED))
    _check_equal(turns)


def _check_equal(turns: list[Measured]) -> None:
    """Raise ``RunError`` unless all of them put out the same."""
    found = [{size: runs[0].digest for size, runs in one.runs.items()} for one in turns]
    if any(one != found[0] for one in found):
        raise RunError(f"executors put out different results: {found}")


@contextmanager
def _object_store() -> Iterator[dict[str, str]]:
    """A server of S3 with one bucket; how it is found."""
    server = subprocess.Popen([sys.executable, str(_S3_SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        endpoint = server.stdout.readline().decode().strip()
        connection = http.client.HTTPConnection(urlsplit(endpoint).netloc)
        connection.request("PUT", f"/{_BUCKET}")
        if connection.getresponse().status != 200:
            raise RunError("the S3 server makes no bucket")
        connection.close()
        yield {**_KEYS, "AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true"}
    finally:
        server.kill()
        server.communicate()
