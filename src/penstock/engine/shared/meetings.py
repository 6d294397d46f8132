"""Where what one record causes comes to a sub-topology through several repartition topics.

There the clock of the cause does not tell enough: of two records of one time, or of a late one and what was before it,
all that the first one causes comes before what the second one does, whichever topics it takes. So what goes through
such topics bears the place of the record in the log that caused it all, its *cause*, besides its clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from penstock.arrays import IntArray
from penstock.engine.shared.reach import subs_above
from penstock.plan.physical import SubTopology

_PARTITION_BITS, _OFFSET_BITS = 14, 40


class Meetings(NamedTuple):
    """What of a topology has to do with causes."""

    subs: frozenset[int] = frozenset()
    """The sub-topologies in which what one record causes meets, and those on the way there."""
    topics: frozenset[str] = frozenset()
    """The repartition topics through which it goes."""
    sources: tuple[str, ...] = ()
    """The topics of the log, in the order in which records of equal times go."""

    def first_cause(self, topic: str, partition: int) -> int:
        """The number of the first record of a partition; the next ones have the next numbers."""
        number = self.sources.index(topic) if topic in self.sources else len(self.sources)
        return ((number << _PARTITION_BITS) + partition) << _OFFSET_BITS


NO_MEETINGS = Meetings()


def in_order(clock: IntArray, cause: IntArray) -> IntArray:
    """Causes that do not decrease while the clock stands still: what was held back, and is sent on behind other things,
    has its place there."""
    if not ((clock[1:] == clock[:-1]) & (cause[1:] < cause[:-1])).any():
        return cause
    by_time = np.lexsort((cause, clock))
    place = np.empty(len(cause), np.int64)
    place[by_time] = np.arange(len(cause))
    found: IntArray = cause[by_time[np.maximum.accumulate(place)]]
    return found


def meetings_of(subs: tuple[SubTopology, ...], internal: frozenset[str], around: frozenset[str]) -> Meetings:
    """Where records meet.

    Args:
        internal: the repartition topics.
        around: those that lead around circles, which have an order of their own (``stretch.py``).
    """
    above = {sub.id: subs_above(sub, subs, internal) for sub in subs}
    writers = {topic: [sub for sub in subs if topic in sub.sink_topics] for topic in internal}
    reading = {sub.id for sub in subs if not internal.issuperset(sub.source_topics)}
    meeting: set[int] = set()
    for sub in subs:
        topics = [topic for topic in sub.source_topics if topic in internal - around]
        from_where = [{id_ for one in writers[topic] for id_ in above[one.id]} & reading for topic in topics]
        if any(one & other for one, other in combinations(from_where, 2)):
            meeting.add(sub.id)
    leading = {topic for sub in subs if sub.id in meeting for topic in _internal_above(sub, subs, above, internal)}
    readers = frozenset(sub.id for sub in subs if not leading.isdisjoint(sub.source_topics))
    sources = {topic for sub in subs for topic in sub.source_topics if topic not in internal}
    return Meetings(readers, frozenset(leading), tuple(sorted(sources)))


def _internal_above(
    sub: SubTopology, subs: Iterable[SubTopology], above: dict[int, set[int]], internal: frozenset[str]
) -> Iterator[str]:
    for one in subs:
        if one.id in above[sub.id]:
            yield from internal.intersection(one.source_topics)
