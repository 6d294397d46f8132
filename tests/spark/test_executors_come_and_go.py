"""Executors that come while a program runs, and that Spark takes away."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import harness
import pytest

from support.living import hosts_of, living
from support.standalone import DECOMMISSIONING, StandaloneCluster

pytestmark = [pytest.mark.slow, pytest.mark.kip("892-13")]


ONE, BOTH, OTHER = {"127.0.0.2"}, {"127.0.0.2", "127.0.0.3"}, {"127.0.0.3"}


def changes(lived: list[set[str]]) -> list[set[str]]:
    """Where slots lived, without commits in which that was as before."""
    return [hosts for hosts, _ in groupby(lived)]


@pytest.mark.parametrize("cores", [2, 1], ids=["room for all", "room for half of the slots on a machine"])
def test_slots_spread_to_a_machine_that_comes_and_leave_one_that_is_decommissioned(tmp_path: Path, cores: int):
    base = harness.prepared(tmp_path / "base", 20_000)
    calm, moved = harness.copy_of(base, tmp_path / "calm"), harness.copy_of(base, tmp_path / "moved")
    assert harness.Program(calm, "--local").wait()
    lived: list[set[str]] = []
    with StandaloneCluster(tmp_path / "cluster", workers=1, cores=cores) as cluster:
        running = living(moved, cluster.url, cluster.host, "--pause=0.2", DECOMMISSIONING)
        for hosts in hosts_of(running):
            lived.append(hosts)
            if len(lived) == 3:
                cluster.add_worker(1)
            if hosts == BOTH and lived.count(BOTH) == 3:
                cluster.decommission(0)
        assert running.wait() == 0, running.stderr and running.stderr.read()
    assert changes(lived) == [ONE, BOTH, OTHER]
    assert harness.outcome(moved) == harness.outcome(calm)


def test_with_dynamic_allocation_spark_gives_a_program_executors_for_its_slots_and_takes_none_from_them(
    tmp_path: Path,
):
    """It has none at the start, and Spark would take away one that is idle for a second."""
    base = harness.prepared(tmp_path / "base", 8_000)
    calm, given = harness.copy_of(base, tmp_path / "calm"), harness.copy_of(base, tmp_path / "given")
    assert harness.Program(calm, "--local").wait()
    settings = {"enabled": "true", "shuffleTracking.enabled": "true", "executorIdleTimeout": "1s", "minExecutors": "0"}
    dynamic = [f"spark.dynamicAllocation.{name}={value}" for name, value in settings.items()]
    with StandaloneCluster(tmp_path / "cluster", workers=2, cores=1) as cluster:
        running = living(given, cluster.url, cluster.host, "--pause=0.1", "spark.executor.cores=1", *dynamic)
        lived = list(hosts_of(running))
        assert running.wait() == 0, running.stderr and running.stderr.read()
    assert changes(lived)[-1] == BOTH
    assert changes(lived)[:-1] in ([], [ONE], [OTHER]), "work begins with the first one that is given"
    assert harness.outcome(given) == harness.outcome(calm)
