"""Parts of Spark that die while an application runs on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import harness
import pytest

from penstock import consume, produce
from penstock.dsl.builder import StreamsBuilder
from penstock.testing.chaos.processes import kill_all_with
from support import disks
from support.living import hosts_of, living
from support.machines import Machines, why_not
from support.standalone import StandaloneCluster

pytestmark = [pytest.mark.slow, pytest.mark.kip("892-13")]


def test_executors_that_die_are_replaced_and_nothing_differs(tmp_path: Path):
    """A cluster of two executors, of which one is killed three times."""
    base = harness.prepared(tmp_path / "base", 20_000)
    calm, killed = harness.copy_of(base, tmp_path / "calm"), harness.copy_of(base, tmp_path / "killed")
    assert harness.Program(calm, "--local").wait()
    script = Path(__file__).with_name("executors.py")
    ran = subprocess.run([sys.executable, str(script), str(killed), "3"], capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("killed executor") == 3
    assert harness.outcome(killed) == harness.outcome(calm)


def test_on_a_standalone_cluster_a_machine_and_an_executor_die_and_nothing_differs(tmp_path: Path):
    """The tasks of the machine that dies go on from their copies on the other one."""
    base = harness.prepared(tmp_path / "base", 20_000)
    calm, killed = harness.copy_of(base, tmp_path / "calm"), harness.copy_of(base, tmp_path / "killed")
    assert harness.Program(calm, "--local").wait()
    script = Path(__file__).with_name("executors.py")
    with StandaloneCluster(tmp_path / "cluster", cores=2) as cluster:
        command = [sys.executable, str(script), str(killed), "2", cluster.url, "1"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.count("killed executor") == 2
        assert "and its machine" in ran.stdout
        of_machine = ran.stdout.partition("and its machine")[2].partition("killed executor")[0]
        began = [int(line.split()[-1]) for line in of_machine.splitlines() if line.startswith("restores ")]
        assert began, "nothing was restored"
        assert -1 not in began, "from nothing, though there is a copy"
        databases = [sorted(cluster.state_of(number).glob("*/tasks/*/CURRENT")) for number in (0, 1)]
    assert all(databases), "each machine has state on its own disk"
    assert not (killed / "state" / "tasks").exists(), "and the driver's has none"
    assert harness.outcome(killed) == harness.outcome(calm)


def test_a_machine_that_cannot_be_reached_is_given_up_and_nothing_it_still_does_counts(tmp_path: Path):
    """Its processes live on, and it can be reached again before the program ends."""
    if reason := why_not():
        pytest.skip(f"machines of one's own are left out: {reason}")
    base = harness.prepared(tmp_path / "base", 8_000)
    calm, cut = harness.copy_of(base, tmp_path / "calm"), harness.copy_of(base, tmp_path / "cut")
    assert harness.Program(calm, "--local").wait()
    with Machines(2) as machines, StandaloneCluster(tmp_path / "cluster", cores=2, machines=machines) as cluster:
        running = living(cut, cluster.url, cluster.host)
        lived = []
        for hosts in hosts_of(running):
            lived.append(hosts)
            if len(lived) == 3:
                machines.cut_off(0)
            if len(lived) == 8:
                machines.connect(0)
        errors = running.communicate()[1]
        assert running.returncode == 0, errors
    both = {machines.address(0), machines.address(1)}
    assert lived[:3] == [both] * 3
    assert lived[7] == {machines.address(1)}
    assert harness.outcome(cut) == harness.outcome(calm)


def test_a_machine_whose_disk_is_full_is_left_and_comes_back_when_there_is_room(tmp_path: Path):
    if reason := disks.why_not():
        pytest.skip(f"disks of one's own are left out: {reason}")
    base = harness.prepared(tmp_path / "base", 20_000)
    calm, full = harness.copy_of(base, tmp_path / "calm"), harness.copy_of(base, tmp_path / "full")
    assert harness.Program(calm, "--local").wait()
    cluster = StandaloneCluster(tmp_path / "cluster", cores=2)
    with disks.Disk(cluster.state_of(0), 64) as disk, cluster:
        running = living(full, cluster.url, cluster.host, "--pause=0.2", "--full=8")
        lived: list[set[str]] = []
        for hosts in hosts_of(running):
            lived.append(hosts)
            if len(lived) == 3:
                disk.fill()
            if lived[3:].count({"127.0.0.3"}) == 3:
                disk.make_room()
        assert running.wait() == 0, running.stderr and running.stderr.read()
    both = {"127.0.0.2", "127.0.0.3"}
    assert lived[:3] == [both] * 3
    alone = lived.index({"127.0.0.3"})
    assert both in lived[alone:]
    assert all(hosts in (both, {"127.0.0.3"}) for hosts in lived)
    assert harness.outcome(full) == harness.outcome(calm)


def test_a_machine_with_a_slow_disk_keeps_its_slots_though_it_stands_still_for_longer_than_the_time_out(
    tmp_path: Path,
):
    if reason := disks.why_not():
        pytest.skip(f"disks of one's own are left out: {reason}")
    base = harness.prepared(tmp_path / "base", 8_000)
    calm, slow = harness.copy_of(base, tmp_path / "calm"), harness.copy_of(base, tmp_path / "slow")
    assert harness.Program(calm, "--local").wait()
    cluster = StandaloneCluster(tmp_path / "cluster", cores=2)
    with disks.Disk(cluster.state_of(0), 64) as disk, cluster:
        running = living(slow, cluster.url, cluster.host)
        lived: list[set[str]] = []
        for hosts in hosts_of(running):
            lived.append(hosts)
            if len(lived) == 2:
                disk.be_slow(stands=6, works=0.2)
            if len(lived) == 5:
                disk.be_as_ever()
                disk.be_slow(stands=0.3, works=0.1)
        assert running.wait() == 0, running.stderr and running.stderr.read()
    assert lived == [{"127.0.0.2", "127.0.0.3"}] * len(lived)
    assert len(lived) > 10
    assert harness.outcome(slow) == harness.outcome(calm)


def test_a_lost_jvm_is_one_clear_error_and_the_next_start_goes_on(tmp_path: Path):
    base = harness.prepared(tmp_path / "base", 5_000)
    calm, killed = harness.copy_of(base, tmp_path / "calm"), harness.copy_of(base, tmp_path / "killed")
    assert harness.Program(calm, "--local").wait()
    program = harness.Program(killed, "--spark")
    program.wait_for_commits(1)
    [jvm] = program.processes("jvm")
    os.kill(jvm, signal.SIGKILL)
    assert not program.wait()
    errors = program.errors()
    assert "SparkLostError" in errors
    assert "Everything committed is safe; start again" in errors.splitlines()[-1]
    assert harness.Program(killed, "--spark").wait()
    assert harness.outcome(killed) == harness.outcome(calm)


@pytest.mark.parametrize("processes", ["PENSTOCK_SLOT=slot-0", "pyspark.daemon"], ids=["the slot", "its daemon too"])
def test_a_slot_that_is_killed_while_there_is_nothing_to_do_is_replaced(spark: Any, tmp_path: Path, processes: str):
    builder = StreamsBuilder()
    builder.stream("in", value=str).group_by_key().count().to_stream().to("out")
    log = tmp_path / "log"
    produce([("a", "x", 0)], "in", value=str, log=log)
    given = {"slots": 1, "statestore_cache_max_bytes": 0}
    with builder.build().start(
        application_id="app", log=log, state_dir=tmp_path / "state", spark=spark, **given
    ) as streams:
        streams.process_all_available()
        for _ in range(2):
            assert kill_all_with(processes)
            produce([("a", "x", 0)], "in", value=str, log=log)
            streams.process_all_available()
        assert streams.exception() is None
        assert streams.is_active
    assert [record.value for record in consume("out", log=log)] == [1, 2, 3]
