"""kill -9 of drivers, JVMs and slots, on Spark and without: outputs and state equal an undisturbed run's (KIP-892)."""

from __future__ import annotations

import os
import random
import signal
import socket
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import harness
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.kip("892-13")]


@pytest.mark.parametrize(
    ("mode", "seed", "kinds", "kills"),
    [
        ("--spark", 1, ["driver", "jvm"], 4),
        ("--spark", 2, ["slot"], 12),
        ("--spark", 3, ["driver", "jvm", "slot"], 6),
        ("--slots", 4, ["driver"], 10),
        ("--slots", 5, ["slot"], 20),
        ("--slots", 6, ["driver", "slot"], 20),
        ("--micro", 7, ["driver", "jvm"], 4),
    ],
)
def test_kills_of_driver_jvm_and_slots_change_nothing(
    mode: str,
    seed: int,
    kinds: list[str],
    kills: int,
    small_base: Path,
    small_undisturbed: dict[str, Any],
    tmp_path: Path,
) -> None:
    folder = harness.copy_of(small_base, tmp_path)
    assert harness.run_to_the_end(folder, mode, kinds, kills, seed) >= min(kills, 3)
    assert harness.outcome(folder) == small_undisturbed


def test_kills_of_the_processes_that_run_micro_batches_change_nothing(
    small_base: Path, small_undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    """Those that work at a job, and the daemon that Spark forks them from, at any moment of a commit."""
    folder = harness.copy_of(small_base, tmp_path)
    program, rng, killed = harness.Program(folder, "--micro"), random.Random(8), 0
    for commits in (1, 2, 4, 6, 8, 10):
        program.wait_for_commits(commits)
        time.sleep(rng.uniform(0, 0.6))
        daemons = program.processes("daemon")
        workers = [pid for pid in program.processes("slot") if pid not in daemons]
        for pid in daemons if commits == 4 else workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
    assert program.wait(), program.errors()
    assert killed >= 3
    assert harness.outcome(folder) == small_undisturbed


def test_kills_of_executors_of_a_cluster_change_nothing_in_micro_batches(
    small_base: Path, small_undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    """Spark runs the lost tasks again, beside what is left of the first runs."""
    folder = harness.copy_of(small_base, tmp_path)
    program = harness.Program(folder, "--micro", SPARK_MASTER="local-cluster[2,1,1024]")
    rng, killed = random.Random(9), 0
    for commits in (2, 5, 8):
        program.wait_for_commits(commits)
        time.sleep(rng.uniform(0, 0.6))
        killed += program.kill("executor", rng)
    assert program.wait(), program.errors()
    assert killed == 3
    assert harness.outcome(folder) == small_undisturbed


def test_a_driver_a_jvm_and_slots_that_sleep_longer_than_the_time_out_change_nothing(
    small_base: Path, small_undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    """Whoever slept goes on as if nothing had happened, or has been replaced and does nothing that counts."""
    folder = harness.copy_of(small_base, tmp_path)
    program = harness.Program(folder, "--spark", PENSTOCK_SLOT_TIMEOUT="1500 ms", PENSTOCK_COMMIT_INTERVAL="200 ms")
    for commits, kind in ((1, "driver"), (3, "slot"), (5, "jvm"), (7, "slot")):
        program.wait_for_commits(commits)
        for pid in program.processes(kind)[:1]:
            with suppress(ProcessLookupError):  # it may just have been replaced
                os.kill(pid, signal.SIGSTOP)
                time.sleep(3)
                os.kill(pid, signal.SIGCONT)
    assert program.wait(), program.errors()
    assert harness.outcome(folder) == small_undisturbed


def test_slots_are_killed_and_replaced_while_strangers_sit_at_the_drivers_port_and_drip_bytes(
    small_base: Path, small_undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    """More of them than may be at once in handshakes; who is sent away comes back at once."""
    folder = harness.copy_of(small_base, tmp_path)
    program = harness.Program(folder, "--spark")
    program.wait_for_commits(1)
    with Strangers(listening(program.processes("driver")[0]), 70) as strangers:
        for commits in (2, 4):
            program.wait_for_commits(commits)
            [slot, *_] = program.processes("slot")
            strangers.wait()
            os.kill(slot, signal.SIGKILL)
            killed = time.monotonic()
            program.wait_for_commits(commits + 2)
            assert time.monotonic() - killed < 60
        assert program.wait(), program.errors()
        assert strangers.bytes > 70
    assert harness.outcome(folder) == small_undisturbed


class Strangers:
    """Each announces a long answer at the ports of a driver, and sends a byte now and then, again and again."""

    def __init__(self, ports: list[int], count: int):
        self.bytes = 0
        self._ends = threading.Event()
        self._came = threading.Semaphore(0)
        self._threads = [threading.Thread(target=self._drip, args=(p,)) for p in ports for _ in range(count)]

    def __enter__(self) -> Strangers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def wait(self) -> None:
        """Until so many have come as have handshakes at once."""
        for _ in range(64):
            assert self._came.acquire(timeout=30)

    def _drip(self, port: int) -> None:
        while not self._ends.is_set():
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                connection.sendall(struct.pack("!i", 256))
                self._came.release()
                while not self._ends.wait(0.5):
                    connection.sendall(b"x")
                    self.bytes += 1
            self._ends.wait(0.1)


def listening(pid: int) -> list[int]:
    """The ports at which a process listens."""
    own: set[str] = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            own.add(os.readlink(path))
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    heard = [line[1] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in own]
    found = [int(address.rpartition(":")[2], 16) for address in heard]
    assert found
    return found
