"""Puts what many records made at once into the order of one record after the other, as queues before topics give it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import repeat
from operator import itemgetter
from typing import NamedTuple

from penstock.columns.batch import Batch
from penstock.record import Record
from penstock.testing.queues import TopicQueues
from penstock.testing.records import places, records_of


class Passed(NamedTuple):
    """A record that goes into an internal topic."""

    timestamp: int


Made = list[list[tuple[str, Record | Passed]]]
"""The records that each record of a topic made, in order, with the topics that they go into."""


class OtherOrderError(Exception):
    """A record without a time goes before others in its queue, so a topic has another order than its records had."""


def made_of(count: int, outputs: list[tuple[str, Batch]], internal: frozenset[str]) -> Made:
    """Return what each of so many records made, of the outputs of a sub-topology and their topics."""
    rows: list[tuple[tuple[int, ...], str, Record | Passed]] = []
    for topic, batch in outputs:
        records: Iterable[Record | Passed] = (
            map(Passed, batch.timestamp.tolist()) if topic in internal else records_of(batch)
        )
        rows += zip(places(batch), repeat(topic), records)
    if len(outputs) > 1:
        rows.sort(key=itemgetter(0))
    made: Made = [[] for _ in range(count)]
    for place, topic, record in rows:
        made[place[0]].append((topic, record))
    return made


def in_turn(topic: str, made: Mapping[str, Made]) -> list[tuple[str, Record]]:
    """Return the outputs of a topic's records, each of which goes all its ways before the next one is taken.

    Args:
        made: the records that were made of each topic's records: of this topic's, and of the internal ones behind it.

    >>> one, two = Record("k", 1, 7), Record("k", 2, 7)
    >>> ways = {"in": [[("a", Passed(7)), ("b", Passed(5))]], "a": [[("out", one)]], "b": [[("out", two)]]}
    >>> [record.value for _, record in in_turn("in", ways)]
    [2, 1]

    Raises:
        OtherOrderError: an internal topic has a record without a time.
    """
    queues, taken = TopicQueues[str](), Counter[str]()
    found: list[tuple[str, Record]] = []
    for first in made[topic]:
        found += _outputs_of(first, queues)
        while (head := queues.next()) is not None:
            at = head[0]
            found += _outputs_of(made[at][taken[at]], queues)
            taken[at] += 1
    return found


def _outputs_of(one: list[tuple[str, Record | Passed]], queues: TopicQueues[str]) -> Iterable[tuple[str, Record]]:
    """Put the records for internal topics into their queues. Return the others."""
    for to, record in one:
        if isinstance(record, Record):
            yield to, record
        elif record.timestamp < 0:
            raise OtherOrderError(to)
        else:
            queues.add(to, record)
