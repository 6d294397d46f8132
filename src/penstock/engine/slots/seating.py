"""Numbers for slots that come without one: each gets the slot whose state is on its machine's disk, where there is one.

All machines tell when they had which slot; the newest state counts. Clocks of machines may differ: then some state is
restored that was on another disk, and nothing else happens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence


def seated(guests: Sequence[Mapping[int, float]], free_slots: Collection[int]) -> list[int]:
    """Return the slot of each guest, given when its machine last had which slots. There are at least as many slots.

    >>> seated([{}, {0: 5.0, 1: 7.0}, {0: 9.0}], range(3))
    [2, 1, 0]
    >>> seated([{0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}], range(2))  # two processes of one machine
    [1, 0]
    >>> seated([{0: 1.0, 3: 2.0}], [1, 2, 3])  # fewer than there may be
    [3]
    """
    free = set(free_slots)
    found: dict[int, int] = {}
    known = ((when, slot, guest) for guest, had in enumerate(guests) for slot, when in had.items())
    for _, slot, guest in sorted(known, key=lambda one: (-one[0], one[2])):
        if slot in free and guest not in found:
            found[guest] = slot
            free.remove(slot)
    rest = iter(sorted(free))
    return [found[guest] if guest in found else next(rest) for guest in range(len(guests))]


def shared_out(slots: int, there: Collection[int]) -> list[int]:
    """Return for each slot the one that has its tasks: itself, or, while it has not come, another slot that has.

    >>> shared_out(4, {0, 1, 2, 3})
    [0, 1, 2, 3]
    >>> shared_out(5, {1, 3})
    [1, 1, 3, 3, 1]
    """
    shares = Counter(dict.fromkeys(sorted(there), 1))
    found = []
    for slot in range(slots):
        if slot not in shares:
            slot = min(shares, key=lambda one: shares[one])
            shares[slot] += 1
        found.append(slot)
    return found
