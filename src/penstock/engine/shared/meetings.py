"""Meetings: sub-topologies that receive results of one input record through several repartition topics.

There the clock of the cause does not suffice. Of two records with one time, or of a late record and an earlier one, all
results of the first come before those of the second, whichever topics they take. So records in such topics carry, in
addition to the clock, the place of the input record that caused them: the *cause*.
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
    """The parts of a topology that need causes."""

    subs: frozenset[int] = frozenset()
    """The sub-topologies in which results of one record meet, and those on the way there."""
    topics: frozenset[str] = frozenset()
    """The repartition topics through which they go."""
    sources: tuple[str, ...] = ()
    """The topics of the log, in the order in which records of equal times are processed."""

    def first_cause(self, topic: str, partition: int) -> int:
        """Return the number of the first record of a partition; later ones count up from it."""
        number = self.sources.index(topic) if topic in self.sources else len(self.sources)
        return ((number << _PARTITION_BITS) + partition) << _OFFSET_BITS


NO_MEETINGS = Meetings()


def in_order(clock: IntArray, cause: IntArray) -> IntArray:
    """Return causes that do not decrease at equal clocks: a record sent later than its time takes the place it is
    sent at.
    """
    if not ((clock[1:] == clock[:-1]) & (cause[1:] < cause[:-1])).any():
        return cause
    by_time = np.lexsort((cause, clock))
    place = np.empty(len(cause), np.int64)
    place[by_time] = np.arange(len(cause))
    found: IntArray = cause[by_time[np.maximum.accumulate(place)]]
    return found


def meetings_of(subs: tuple[SubTopology, ...], internal: frozenset[str], around: frozenset[str]) -> Meetings:
    """Return where the results of one record meet.

    Args:
        internal: the repartition topics.
        around: the topics that lead around cycles, which have an order of their own (``stretch.py``).
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
