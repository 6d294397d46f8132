"""Which executor has which slots and how many tasks, as each commit's manifest says it; how many tasks have moved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

NOWHERE = "driver"
"""The executor of slots that are wherever Spark has put them: on the driver's machine, or where executors come late."""


class SlotPlace(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a slot lives.

    >>> SlotPlace("1", "worker-a", tasks=4).name
    '1@worker-a'
    """

    executor: str
    """Spark's number of it; ``driver`` where there is no other, or slots have no place yet."""
    host: str
    tasks: int = 0
    copy: str = ""
    """The machine on which a copy of its state follows; empty where none has caught up."""

    @property
    def name(self) -> str:
        """The executor and its machine in one."""
        return f"{self.executor}@{self.host}"


class Places(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where all slots live, by their numbers."""

    slots: list[SlotPlace] = []
    moved: int = 0
    """How many tasks came to another machine before this commit."""
    moved_total: int = 0
    """How many have since the start."""

    @property
    def tasks(self) -> dict[str, int]:
        """How many tasks each executor has."""
        found: dict[str, int] = {}
        for slot in self.slots:
            found[slot.name] = found.get(slot.name, 0) + slot.tasks
        return found


def places_after(before: Places | None, slots: Sequence[SlotPlace], partitions: Iterable[int]) -> Places:
    """Where slots live now.

    Args:
        before: where they were in the commit before; None behind a start, which moves nothing.
        partitions: how many tasks each sub-topology has.

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
