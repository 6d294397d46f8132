"""What is asked of a task in one attempt at a commit, and what it answers. All of it travels as JSON."""

from __future__ import annotations

import msgspec

from penstock.engine.shared.exchange import EARLIEST, LATEST, ExchangeRef
from penstock.engine.shared.manifest import TaskEntry
from penstock.engine.shared.stretch import Stretch
from penstock.log.contract.writer import Segment
from penstock.state.snapshot import Base
from penstock.state.task_state import Numbers
from penstock.storage import FileRef


class Lap(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a task of a circle is to do until it waits for the others."""

    number: int | None = None
    """Up to which lap steps have their turn; None where what comes goes through all of them."""
    stretch: Stretch | None = None
    """The round that this is part of."""
    takes: bool = False
    """Whether to take of what comes into the circle: what was found at hand when it looked last."""
    comes_back: dict[str, list[ExchangeRef]] = {}
    """What has come around, by topic."""
    looks: int = 1
    """How many records to have at hand for the next round, at most."""
    ends: bool = False
    """Whether the task has done all that it does for this commit."""


class LapDone(msgspec.Struct, frozen=True, omit_defaults=True):
    """How it goes on for a task of a circle."""

    head: int | None = None
    """The clock of the next record that it may take of what comes into the circle; None where there is none."""
    until: int | None = None
    """To which clock that goes which is at hand, where there is or may come more behind it."""
    is_full: bool = False
    """Whether it has taken as much as it may in one commit."""


class TaskWork(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one task is to read in one attempt at a commit."""

    task: str
    entry: TaskEntry
    """Where the task is."""
    ends: dict[str, int] = {}
    """For each topic of the log up to which offset to read."""
    exchange: dict[str, list[ExchangeRef]] = {}
    """For each repartition topic what to read."""
    bounds: dict[str, tuple[int, str]] = {}
    """For each repartition topic into which more may be sent: which clock that has at least, and of which task. For
    a topic of the log of which nothing is to be read though there is more: the same, and no task."""
    until: int = LATEST
    """Up to which time to read."""
    awaited: list[str] = []
    """The topics of which more may come in time: when one of them is read to its end, the task stops."""
    advances: dict[str, int] = {}
    """The nodes whose time moves on without records, and by how many milliseconds."""
    more_is_waiting: bool = False
    """Whether something that was read before this ends is still on its way from other tasks."""
    lap: Lap | None = None
    """Where the task is part of a circle: what it is to do until the next one. All else is told with the first."""
    begins: bool = True
    """Whether this is its first work in the attempt."""


class StageWork(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a stage is to do in one attempt at a commit."""

    application: str
    commit: int
    attempt: str
    tasks: list[TaskWork]
    now: int = 0
    """The driver's wall clock, in ms, where it says that something is due: those of slots count as no earlier."""
    only_settles: bool = False
    """Whether tasks just take up what is committed."""


class TaskDone(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one task did; nobody sees any of it before the manifest."""

    task: str
    offsets: dict[str, int] = {}
    clock: int = EARLIEST
    """How far in time its input is read, see ``TaskEntry``."""
    left: dict[str, list[ExchangeRef]] = {}
    """What it did not take of repartition topics, because it had to commit first."""
    sinks: dict[str, list[Segment]] = {}
    exchange: dict[str, list[ExchangeRef]] = {}
    delta: FileRef | None = None
    numbers: Numbers = {}
    snapshot: int = -1
    base: Base | None = None
    """All of its state, where it is published as a whole and not as ``delta``."""
    metrics: dict[str, int] = {}
    observed: dict[str, int] = {}
    """Figures that depend on where commits are, see ``Manifest``."""
    records: int = 0
    read: int = 0
    """Those of them that came from topics of the log."""
    lap: LapDone | None = None
    """What there is to tell of a lap, but for the last one."""
    is_lost: bool = False
    """Whether the attempt is to be made again."""
    error: str = ""
    """Why the program has to stop; nothing of the commit counts then."""
    error_type: str = ""
    is_disk_full: bool = False
    """Whether the error is that of this machine's own disk, so that the task can go on elsewhere."""
