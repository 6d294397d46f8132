"""Where slots run: the executor and number of tasks of each slot, kept in each manifest, and how many tasks moved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

NOWHERE = "driver"
"""The executor of slots without a fixed place: on the driver's machine, or while executors are still missing."""


class SlotPlace(msgspec.Struct, frozen=True, omit_defaults=True):
    """The place of a slot.

    >>> SlotPlace("1", "worker-a", tasks=4).name
    '1@worker-a'
    """

    executor: str
    """Spark's executor number; ``driver`` if there are no executors, or slots have no place yet."""
    host: str
    tasks: int = 0
    copy: str = ""
    """The machine with a follower copy of its state; empty if none has caught up."""
    shared_by: int | None = None
    """The slot that has its tasks while it has not come; None when it is there."""

    @property
    def name(self) -> str:
        """The executor and its machine in one name."""
        return f"{self.executor}@{self.host}"


class KeyQueryMetadata(NamedTuple):
    """The place of the rows of a key, as of the last commit (``KafkaStreams.queryMetadataForKey``).

    You need not send a query to this place, because every process can read every store of an application.

    >>> KeyQueryMetadata(2, SlotPlace("1", "worker-a", tasks=4), ("worker-b",)).active_host.host
    'worker-a'
    """

    partition: int
    """The partition of the key; -1 for the store of a global table, which every slot has."""
    active_host: SlotPlace | None
    """The slot that processes the partition; None before the first commit, and for a global table."""
    standby_hosts: tuple[str, ...] = ()
    """The machines with a copy of the slot's state."""


class Places(msgspec.Struct, frozen=True, omit_defaults=True):
    """The places of all slots, by slot number."""

    slots: list[SlotPlace] = []
    moved: int = 0
    """How many tasks moved to another machine before this commit."""
    moved_total: int = 0
    """How many have moved since the start."""

    @property
    def come(self) -> int:
        """How many slots are there.

        >>> here = SlotPlace("driver", "here")
        >>> Places([here, here, SlotPlace("driver", "here", shared_by=0)]).come
        2
        """
        return sum(slot.shared_by is None for slot in self.slots)

    @property
    def tasks(self) -> dict[str, int]:
        """The number of tasks of each executor."""
        found: dict[str, int] = {}
        for slot in self.slots:
            found[slot.name] = found.get(slot.name, 0) + slot.tasks
        return found


def places_after(before: Places | None, slots: Sequence[SlotPlace], partitions: Iterable[int]) -> Places:
    """Return the current places of slots.

    Args:
        before: the places at the previous commit; None after a start, which moves nothing.
        partitions: the number of tasks of each sub-topology.

    >>> here, there = SlotPlace("1", "here"), SlotPlace("2", "there")
    >>> places = places_after(None, [here, here], [3, 1])
    >>> places.tasks, places.moved
    ({'1@here': 4}, 0)
    >>> places = places_after(places, [here, there], [3, 1])
    >>> places.tasks, places.moved, places_after(places, [here, there], [3, 1]).moved_total
    ({'1@here': 3, '2@there': 1}, 1, 1)
    """
    tasks = [sum((count - slot + len(slots) - 1) // len(slots) for count in partitions if count > slot)
             for slot in range(len(slots))]  # fmt: skip
    now = [msgspec.structs.replace(place, tasks=count) for place, count in zip(slots, tasks, strict=True)]
    if before is None:
        return Places(now)
    pairs = zip(now, before.slots, strict=False)
    moved = sum(one.tasks for one, was in pairs if one.host != was.host and was.executor != NOWHERE)
    return Places(now, moved, before.moved_total + moved)


def slot_of(task: str, slots: int) -> int:
    """Return the slot of a task: tasks of the same partition are together."""
    return int(task.split("_")[1]) % slots
