"""How soon the next commit begins, so that a program with little to do does not keep a core busy with commits.

A commit of ten records costs nearly as much as one of a thousand. A program that commits again as soon as there is a
record takes most of a core at a thousand records a second. So it pauses after a commit, until its commits take no more
than a share of one core. Records gather meanwhile, and the next commit takes them all:

    commits  |##|......|##|......|##|    share 0.25: after 10 ms of CPU the next commit begins 40 ms after this one

A record that comes to an idle program waits for nothing, and neither does a program that is behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable

MOST_SECONDS = 0.1
"""The next commit begins after so many seconds at the latest, whatever the last one has cost."""

_FORGETS = 1.1
"""By how much more than the cheapest commit so far each further one may cost, so that one cheap commit does not count
forever.
"""


class Pace:
    """Says when the next commit begins.

    Args:
        share: the share of one core that commits may take; 0 for no pauses.
        of_slots: the CPU seconds that slots have used so far.

    >>> used = iter([0.0, 0.01, 0.02])
    >>> pace = Pace(0.25, of_slots=lambda: next(used), of_driver=lambda: 0.0)
    >>> pace.seconds(), pace.seconds()
    (0.04, 0.04)
    """

    def __init__(self, share: float, of_slots: Callable[[], float], of_driver: Callable[[], float] = time.process_time):
        self._share = share
        self._of_slots, self._of_driver = of_slots, of_driver
        self._used = self._now() if share else 0.0
        self._cheapest = MOST_SECONDS

    def seconds(self) -> float:
        """Return the seconds from the beginning of the commit that was just made to that of the next one."""
        if not self._share:
            return 0.0
        used, self._used = self._used, self._now()
        self._cheapest = min(self._used - used, self._cheapest * _FORGETS)
        return min(self._cheapest / self._share, MOST_SECONDS)

    def _now(self) -> float:
        return self._of_slots() + self._of_driver()
