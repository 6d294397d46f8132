"""The messages between driver and tasks in one attempt at a commit. They travel as JSON."""

from __future__ import annotations

import sys

import msgspec

from penstock.engine.shared.exchange import EARLIEST, LATEST, ExchangeRef
from penstock.engine.shared.last_read import LastRead
from penstock.engine.shared.manifest import TaskEntry
from penstock.engine.shared.stretch import Stretch
from penstock.log.contract.writer import Segment
from penstock.state.snapshot import TaskBase
from penstock.state.task_state import Numbers
from penstock.storage.base import FileRef


class Lap(msgspec.Struct, frozen=True, omit_defaults=True):
    """The work of a cycle's task until it waits for the others."""

    number: int | None = None
    """The lap up to which steps have their turn; None if records go around one by one."""
    stretch: Stretch | None = None
    """The round that this is part of."""
    takes: bool = False
    """Whether to take records that enter the cycle: those that the last lap prepared."""
    comes_back: dict[str, list[ExchangeRef]] = {}
    """The records that have come around, by topic."""
    looks: int = 1
    """How many records to prepare for the next round, at most."""
    may_pass: bool = False
    """Whether stores may hold more uncommitted writes than their limits say, because fewer records cannot enter."""
    roots: int = 0
    """In a round behind its first lap, how many records entered the cycle in it."""
    ends: bool = False
    """Whether the task is done for this commit."""


class LapDone(msgspec.Struct, frozen=True, omit_defaults=True):
    """The progress of a cycle's task."""

    head: int | None = None
    """The clock of the next record that it may take from outside the cycle; None if it has none."""
    until: int | None = None
    """The clock up to which the prepared records reach, if more may follow them."""
    is_full: bool = False
    """Whether it has taken as much as it may in one commit."""
    taken: int = 0
    """How many records it took from outside the cycle."""
    room: int = 1
    """How many records may enter the cycle in the next round, for the stores of this task."""


class TaskWork(msgspec.Struct, frozen=True, omit_defaults=True):
    """The work of one task in one attempt at a commit."""

    task: str
    entry: TaskEntry
    """The task's position."""
    ends: dict[str, int] = {}
    """For each topic of the log, the offset up to which to read."""
    exchange: dict[str, list[ExchangeRef]] = {}
    """For each repartition topic, the records to read."""
    bounds: dict[str, tuple[int, str]] = {}
    """For each repartition topic that may receive more: the lowest clock of later records, and the task that sends
    them. Also for a topic of the log that has more records which must not be read: its clock, without a task.
    """
    until: int = LATEST
    """The time up to which to read."""
    awaited: list[str] = []
    """Topics that may still receive earlier records: when one of them is read to its end, the task stops."""
    advances: dict[str, int] = {}
    """The nodes whose time advances without records, and by how many milliseconds."""
    more_is_waiting: bool = False
    """Whether records that belong before the end are still on their way from other tasks."""
    lap: Lap | None = None
    """For a task of a cycle, the next lap. All other fields are sent with the first lap only."""
    begins: bool = True
    """Whether this is its first work in the attempt."""
    part: int = 0
    """The number of the part of an attempt that works between commits."""
    goes_on: bool = False
    """Whether the task has worked in an earlier part, so that its state holds writes of this attempt."""
    stays_open: bool = False
    """Whether another part follows: what is held back until the commit stays where it is."""
    most: int = sys.maxsize
    """How many records it may take in the attempt, if its stores had no room for the writes of more. 0: as few as
    possible, and these may pass limits."""


class StageWork(msgspec.Struct, frozen=True, omit_defaults=True):
    """The work of a stage in one attempt at a commit."""

    application: str
    commit: int
    attempt: str
    tasks: list[TaskWork]
    now: int = 0
    """The driver's wall clock in ms, where it decides that something is due. Slots count theirs as no earlier."""
    only_settles: bool = False
    """Whether tasks only apply what is committed."""


class TaskDone(msgspec.Struct, frozen=True, omit_defaults=True):
    """The results of one task, invisible until the manifest is made."""

    task: str
    offsets: dict[str, int] = {}
    clock: int = EARLIEST
    """The clock up to which its input is read, see ``TaskEntry``."""
    last: dict[str, LastRead] = {}
    """For each topic of the log, the last record that was read."""
    left: dict[str, list[ExchangeRef]] = {}
    """The records of repartition topics that it did not take, because it had to commit first."""
    sinks: dict[str, list[Segment]] = {}
    exchange: dict[str, list[ExchangeRef]] = {}
    delta: FileRef | None = None
    numbers: Numbers = {}
    snapshot: int = -1
    base: TaskBase | None = None
    """All of its state, if it is published as a whole and not as ``delta``."""
    metrics: dict[str, int] = {}
    observed: dict[str, int] = {}
    """Metrics that depend on commit boundaries, see ``Manifest``."""
    records: int = 0
    read: int = 0
    """How many of the records came from topics of the log."""
    is_full: bool = False
    """After a part that another one follows, whether the task wants the commit soon."""
    lap: LapDone | None = None
    """The result of a lap, except the last one."""
    is_lost: bool = False
    """Whether the attempt has to be repeated."""
    most: int = -1
    """How many records the task may take when the attempt is repeated, because more of them made more uncommitted
    writes than its stores may hold; -1 if they did not."""
    error: str = ""
    """Why the program has to stop; then nothing of the commit counts."""
    error_type: str = ""
    is_disk_full: bool = False
    """Whether the error is a full disk on this machine, so that the task can continue on another."""
