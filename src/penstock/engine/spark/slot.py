"""What runs inside a slot: one long-lived Python process on an executor that owns several tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from penstock.engine.host import TaskHost
from penstock.engine.layout import Layout
from penstock.engine.lock import SlotLock
from penstock.engine.restores import Channel
from penstock.engine.spark.shipping import loads
from penstock.engine.work import StageWork, TaskDone
from penstock.log.file.log import FileLog
from penstock.plan.topology import Topology
from penstock.settings import Settings
from penstock.storage import open_storage


class SlotOrder(msgspec.Struct, frozen=True):
    """What a slot is to do now; its tasks are those of the stage that are placed on it."""

    run: str
    """Tells this start of the application from any other."""
    stage: StageWork | None
    """None: close everything."""
    slots: int


class Program:
    """What a slot needs to know of the application; it travels to every slot once."""

    def __init__(
        self, topology: Topology, layout: Layout, settings: Settings, log_url: str, storage_url: str, folder: Path
    ):
        self.topology = topology
        self.layout = layout
        self.settings = settings
        self.log_url = log_url
        self.storage_url = storage_url
        self.folder = folder

    def lock(self, slot: int, run: str) -> SlotLock:
        return SlotLock(self.folder.parent / "slots", slot, run)

    def host(self, run: str) -> tuple[TaskHost, Channel]:
        """A host of tasks, and where it tells how their restores go on."""
        log, storage = FileLog(self.log_url), open_storage(self.storage_url)
        host, channel = (
            TaskHost(self.topology, self.layout, self.settings, log, storage, self.folder),
            Channel(storage, run),
        )
        host.on_restore = channel.tell
        return host, channel


_hosts: dict[str, tuple[SlotLock, TaskHost, Channel]] = {}
"""The host of the application that runs in this process, by the run it belongs to."""


def obey(slot: int, order_json: str, program: Any) -> bytes:
    """Carry out an order; what was done, as JSON.

    Args:
        slot: this slot's number.
        order_json: a ``SlotOrder``.
        program: a broadcast variable that holds the ``Program``, as ``shipping`` packs it.
    """
    order = msgspec.json.decode(order_json, type=SlotOrder)
    done: list[TaskDone] = []
    if order.stage is None:
        _close_hosts()
    else:
        if order.run not in _hosts:
            _close_hosts()
            _prepare_process()
            known: Program = loads(program.value)
            _hosts[order.run] = known.lock(slot, order.run), *known.host(order.run)
        own = [work for work in order.stage.tasks if slot_of(work.task, order.slots) == slot]
        if own:
            _, host, channel = _hosts[order.run]
            done = host.run(msgspec.structs.replace(order.stage, tasks=own))
            channel.flush()
    return msgspec.json.encode(done)


def slot_of(task: str, slots: int) -> int:
    """The slot on which a task is placed: tasks of the same partition are together."""
    return int(task.split("_")[1]) % slots


def _close_hosts() -> None:
    for lock, host, _ in _hosts.values():
        host.close()
        lock.release()
    _hosts.clear()


def _prepare_process() -> None:
    import pyarrow as pa

    pa.set_cpu_count(1)  # there are as many slots as cores
    pa.set_io_thread_count(1)
