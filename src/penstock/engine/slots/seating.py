"""Numbers for slots that come without one: each gets the slot whose state is on its machine's disk, where there is one.

All machines tell when they had which slot; the newest state counts. Clocks of machines may differ: then some state is
restored that was on another disk, and nothing else happens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def seated(guests: Sequence[Mapping[int, float]]) -> list[int]:
    """Return the slot of each guest, given when its machine last had which slots.

    >>> seated([{}, {0: 5.0, 1: 7.0}, {0: 9.0}])
    [2, 1, 0]
    >>> seated([{0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}])  # two processes of one machine
    [1, 0]
    """
    free = set(range(len(guests)))
    found: dict[int, int] = {}
    known = ((when, slot, guest) for guest, had in enumerate(guests) for slot, when in had.items())
    for _, slot, guest in sorted(known, key=lambda one: (-one[0], one[2])):
        if slot in free and guest not in found:
            found[guest] = slot
            free.remove(slot)
    rest = iter(sorted(free))
    return [found[guest] if guest in found else next(rest) for guest in range(len(guests))]
