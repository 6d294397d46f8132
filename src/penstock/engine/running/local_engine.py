"""The engine without Spark: the slots are processes of this machine."""

from __future__ import annotations

import os
from typing import Any

from penstock.engine.commit.opening import Opened
from penstock.engine.running.engine import Job, SlotEngine
from penstock.engine.running.reports import Reports
from penstock.engine.slots.processes import ProcessHost, SlotProcesses
from penstock.errors import ConfigError

_MOST_SLOTS = 256


class LocalEngine(SlotEngine):
    """Runs slots as processes of this machine.

    Args:
        slots: how many there are, if the user says it.
    """

    name = "local"
    is_own = False

    def __init__(self, application_id: str, slots: int | None):
        if slots is not None and slots > _MOST_SLOTS:
            raise ConfigError(
                f"start: slots is a number of processes, and this machine gets at most {_MOST_SLOTS}; got {slots:,}. "
                f"It has {cores()} cores, and more slots than that make a program no faster"
            )
        self._application_id = application_id
        self._processes = SlotProcesses()
        self._is_open = False

    def begin(self) -> None:
        self._processes.begin()

    def open(self) -> None:
        self._is_open = True

    def default_slots(self, widest: int) -> int:
        return min(cores(), widest)

    def host(self, job: Job, about: str) -> ProcessHost:
        return ProcessHost(self._processes, job.program, job.slots, job.imports)

    def reports(self, job: Job, opened: Opened) -> Reports:
        return Reports()

    def session(self) -> Any:
        raise ConfigError(
            f"spark: application {self._application_id!r} runs without Spark, so it has no session; start it with "
            "engine='spark', or with spark=session"
        )

    def expect_end(self) -> None:
        pass

    def close(self) -> None:
        self._processes.close()

    def give_up(self) -> None:
        if not self._is_open:
            self._processes.close()


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1
