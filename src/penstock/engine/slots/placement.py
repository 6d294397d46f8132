"""Placement of slots on executors: where a slot's state is, otherwise where the fewest slots are.

A slot's tasks always stay together, so a slot's place is also theirs. While executors do not change, nothing moves.
When an executor is gone, its slots go to where their state is: to the executor they came from last, or to another one
on the same machine, whose disk has it. Without such an executor they go to the one with the fewest slots. When
executors come, slots move to them until loads differ by at most one, but only so many at a time.

While some slots have no room yet, nothing is evened out: Spark starts them on executors that come.

With copies, each slot has another slot on another machine that follows it, and whose disk is as good as its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

_REMEMBERED = 4
"""How many machines that a slot ran on are remembered as having its state; older state is of little use."""


_FOLLOWED = 2
"""Most slots that one slot follows because its disk has copies already."""


class Executor(NamedTuple):
    """One of Spark's processes on some machine."""

    id: str
    host: str


class Placement:
    """The places of slots, from change to change. Knows neither Spark nor a clock.

    >>> one, two = Executor("1", "here"), Executor("2", "there")
    >>> placement = Placement(4)
    >>> placement.settle([one])
    >>> placement.fits([one]), placement.fits([one, two])
    (True, False)
    >>> placement.settle([one, two])
    >>> [home.id for home in placement.homes.values()]
    ['1', '1', '1', '2']
    >>> placement.settle([one, two])
    >>> [home.id for home in placement.homes.values()]
    ['1', '1', '2', '2']
    >>> placement.settle([two])
    >>> placement.settle([one, two])
    >>> placement.settle([one, two])
    >>> [home.id for home in placement.homes.values()]  # back to where they were
    ['1', '1', '2', '2']

    Args:
        slots: how many slots there are.
        moves: how many slots move at a time to balance loads; a quarter by default.
        copies: whether each slot has another one on another machine that follows it.
    """

    def __init__(self, slots: int, moves: int | None = None, copies: bool = False):
        self.slots = slots
        self.copies = copies
        self.followers: dict[int, int] = {}
        """For each slot, the slot on another machine that follows it; empty with a single machine."""
        self.moves = max(slots // 4, 1) if moves is None else moves
        self._homes: dict[int, Executor] = {}
        self._lived: dict[int, dict[str, float]] = {slot: {} for slot in range(slots)}
        """For each slot, the machines whose disks have its state, because it ran there or has a copy, and as of
        when.
        """
        self._settled = 0

    @property
    def homes(self) -> dict[int, Executor]:
        """The executor of each slot; empty before the first executors, and without slots that wait for room."""
        return self._homes

    def fits(self, live: Sequence[Executor]) -> bool:
        """Return whether every slot may stay where it is, with these executors."""
        if 0 < len(self._homes) < self.slots:
            return set(self._homes.values()) <= set(live)
        return self._after(live) == self._homes

    def settle(self, live: Sequence[Executor]) -> None:
        """Place all slots on these executors. At most a few slots that could stay are moved; without executors none is
        placed.
        """
        self.found(self._after(live))

    def found(self, homes: dict[int, Executor]) -> None:
        """Record where slots are. The others wait for room."""
        self._homes = dict(sorted(homes.items()))
        self._settled += 1
        for slot, home in self._homes.items():
            self._remember(slot, home.host, self._settled)
        self.followers = self._chosen_followers() if self.copies else {}

    def copied(self, slot: int) -> None:
        """Record that the slot's follower has caught up: the state on its disk is as good as new."""
        if slot in self.followers:
            self._remember(slot, self._homes[self.followers[slot]].host, self._settled - 0.5)

    def _remember(self, slot: int, host: str, when: float) -> None:
        lived = self._lived[slot]
        lived[host] = when
        if len(lived) > _REMEMBERED:
            del lived[min(lived, key=lambda one: lived[one])]

    def _chosen_followers(self) -> dict[int, int]:
        """Return a slot on another machine for each slot: one that has a copy already, else the one that follows the
        fewest.
        """
        follows: Counter[int] = Counter()
        found = {}
        for slot, home in self._homes.items():
            others = [other for other, there in self._homes.items() if there.host != home.host]
            free = [other for other in others if follows[other] < _FOLLOWED] or others
            if free:
                lived = self._lived[slot]
                found[slot] = best = min(
                    free, key=lambda other: (-lived.get(self._homes[other].host, 0), follows[other], other)
                )
                follows[best] += 1
        return found

    def _after(self, live: Sequence[Executor]) -> dict[int, Executor]:
        if not live:
            return {}
        there = set(live)
        homes = {slot: home for slot, home in self._homes.items() if home in there}
        loads = Counter(dict.fromkeys(sorted(live), 0))
        loads.update(homes.values())
        for slot in range(self.slots):
            if slot not in homes:
                homes[slot] = self._best(slot, loads)
                loads[homes[slot]] += 1
        self._even_out(homes, loads)
        return homes

    def _best(self, slot: int, loads: Mapping[Executor, int]) -> Executor:
        """Return the executor for a slot without a home: the one with the newest state on disk, else with the fewest
        slots.
        """
        lived = self._lived[slot]
        known = {executor.host for executor in loads} & lived.keys()
        if not known:
            return _emptiest(loads, loads)
        newest = max(known, key=lambda host: lived[host])
        return _emptiest((executor for executor in loads if executor.host == newest), loads)

    def _even_out(self, homes: dict[int, Executor], loads: Counter[Executor]) -> None:
        for _ in range(self.moves):
            empty, full = _emptiest(loads, loads), max(loads, key=lambda one: (loads[one], one))
            if loads[full] - loads[empty] < 2:
                return
            slot = self._to_move([slot for slot, home in homes.items() if home == full], empty)
            homes[slot] = empty
            loads.update({empty: 1, full: -1})

    def _to_move(self, slots: list[int], to: Executor) -> int:
        """Return the slot of an executor to move: preferably one whose newest state is at the destination."""
        return max(slots, key=lambda slot: (self._lived[slot].get(to.host, 0), slot))


def _emptiest(some: Iterable[Executor], loads: Mapping[Executor, int]) -> Executor:
    return min(some, key=lambda one: (loads[one], one))
