"""The code inside a Spark task of a micro-batch: it opens tasks where the last commit left them, runs them, and closes
them.

Their databases stay on the machine's disk, in the folder that slots use, too. So a task that comes back to the machine
reads only what the commits since then have changed; on another machine it is restored from the checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import msgspec

from penstock.engine.micro_batches.cycle import CycleRun
from penstock.engine.micro_batches.orders import Answer, Order
from penstock.engine.shared.garbage import set_apart
from penstock.engine.shared.work import TaskDone, TaskWork
from penstock.engine.shipping.shipping import loads
from penstock.engine.slots.slot import Program
from penstock.engine.task.host import TaskHost
from penstock.errors import ConfigError, PenstockError, StoreError
from penstock.faults import crash_point
from penstock.files import temporary
from penstock.settings import Settings
from penstock.state.folder_lock import lockable, takes
from penstock.state.restoring import RestoreStep
from penstock.storage.base import cannot_write
from penstock.values.decoding import from_json

SNAPSHOT_COMMITS = 500
"""At the latest after so many commits a task's state is published. The time since the last one, which decides in slots,
is not known here.
"""

_known: dict[str, Program] = {}
"""At most one: the newest program that this process has run."""


def serve(packed: Callable[[], bytes], key: str, order: bytes) -> bytes:
    """Carry out an order.

    Args:
        packed: fetches the program, packed by ``shipping``.
        key: distinguishes it from any other.
    """
    given = from_json(order, Order)
    attempt, is_new = f"{given.stage.attempt}x{os.urandom(4).hex()}", key not in _known
    program, restores = _program(packed, key), list[RestoreStep]()
    works, done = list[TaskWork](), list[TaskDone]()
    try:
        with ExitStack() as stack:
            host = _host(program, given, stack)
            host.on_restore = restores.append
            stage = msgspec.structs.replace(given.stage, attempt=attempt)
            if given.cycle is None:
                done = host.run(stage)
            else:
                works, done = CycleRun(program, host, stage, given.cycle).run()
            crash_point("before-answer")
    except (ConfigError, StoreError) as error:  # the next attempt would fail the same way
        works, done = given.tasks, _failed(given, error)
    if is_new:
        set_apart()
    crash_point("after-answer")
    return msgspec.json.encode(Answer(attempt, done, works, restores))


def _program(packed: Callable[[], bytes], key: str) -> Program:
    if key not in _known:
        _known.clear()
        _known[key] = loads(packed()).on_executor()
    return _known[key]


def _host(program: Program, order: Order, stack: ExitStack) -> TaskHost:
    """Return a host for the tasks, with their databases in a folder that no other process uses."""
    folder = _folder(program.folder, order, stack)
    layout, topology = program.layout, program.topology
    own = Program(topology, layout, for_batches(program.settings), program.log_place, program.storage_url, folder)
    return stack.enter_context(closing(own.host(order.stage.application)))


def for_batches(settings: Settings) -> Settings:
    """Return the settings of tasks that are closed after each commit."""
    most = min(settings.snapshot_commits, SNAPSHOT_COMMITS)
    return replace(settings, snapshot_commits=most, flush_commits=min(settings.flush_commits, most))


def _folder(own: Path, order: Order, stack: ExitStack) -> Path:
    """Return the folder of this machine's databases; a temporary one while another process has some of them open, such
    as another copy of the same Spark task.
    """
    if all(map(_is_free, (own / f"{work.task}.lock" for work in order.tasks))):
        return own
    return stack.enter_context(temporary.within("micro-batch"))


def _is_free(lock: Path) -> bool:
    try:
        if not lock.exists():
            return True
        with lockable(lock) as file:
            return takes(file)
    except OSError as error:
        raise cannot_write(lock, error) from error


def _failed(order: Order, error: PenstockError) -> list[TaskDone]:
    says, kind = str(error), type(error).__name__
    return [TaskDone(work.task, error=says, error_type=kind) for work in order.tasks]
