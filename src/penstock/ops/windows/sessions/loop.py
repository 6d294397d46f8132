"""Sessions record by record: where a user's function merges them."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.arrays import IntArray
from penstock.batch import Batch
from penstock.ops.core.groups import Groups
from penstock.ops.windows.sessions.fold import SessionFold
from penstock.ops.windows.sessions.outcome import Outcome
from penstock.ops.windows.sessions.runs import Bounds
from penstock.state.columns.packed import Entries
from penstock.state.kinds.packed import Loaded

Session = list[Any]
"""A session while its key is processed: end, start, aggregate, and its place among those that were loaded, or -1."""


@dataclass(slots=True)
class Updates:
    """What came of a chunk's records, in the order of processing."""

    with_replaced: bool
    """Whether a session that is replaced at its very bounds is told as the old value; Kafka Streams does so only out of
    its cache."""
    row: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    new: list[Any] = field(default_factory=list)
    old: list[Any] = field(default_factory=list)
    gone: list[tuple[int, Session]] = field(default_factory=list)
    """Sessions that went away, and the rows at which they did."""
    fresh: list[int] = field(default_factory=list)
    """Rows of records that began a session."""
    late: list[int] = field(default_factory=list)
    """Rows of records for closed sessions."""
    not_stored: list[int] = field(default_factory=list)
    """Rows of records whose sessions are too old for the store."""
    failed: list[tuple[int, BaseException]] = field(default_factory=list)

    def add(self, row: int, start: int, end: int, new: Any, old: Any) -> None:
        self.row.append(row)
        self.start.append(start)
        self.end.append(end)
        self.new.append(new)
        self.old.append(old)


def live_sessions(fold: SessionFold, loaded: Loaded, numbers: IntArray) -> dict[int, list[Session]]:
    """The sessions that keys of these numbers have in the store."""
    live: dict[int, list[Session]] = {number: [] for number in numbers.tolist()}
    chosen = np.zeros(len(loaded.keys), np.bool_)
    chosen[numbers] = True
    places = np.flatnonzero(chosen[loaded.entries.row])
    entries = loaded.entries.take(places)
    ends, starts = entries.first.tolist(), entries.second.tolist()
    columns = (entries.row.tolist(), ends, starts, fold.load(entries.data), places.tolist())
    for owner, *session in zip(*columns, strict=True):
        live[owner].append(session)
    return live


def of_updates(fold: SessionFold, updates: Updates, live: dict[int, list[Session]]) -> Outcome:
    """The outcome of records that were processed one by one."""
    new = [(number, *session[:3]) for number, sessions in live.items() for session in sessions if session[3] < 0]
    owner, new_end, new_start, aggregates = zip(*new, strict=True) if new else ((), (), (), ())
    gone = [session for _, session in updates.gone]
    return Outcome(
        _ints(updates.row),
        _ints(updates.start),
        _ints(updates.end),
        fold.column(updates.new),
        fold.column(updates.old),
        _ints(updates.fresh),
        _ints([row for row, _ in updates.gone]),
        _ints([session[1] for session in gone]),
        _ints([session[0] for session in gone]),
        fold.column([session[2] for session in gone]),
        _ints([session[3] for session in gone if session[3] >= 0]),
        Entries(_ints(owner), _ints(new_end), _ints(new_start), fold.column(list(aggregates)).encoded()),
        _ints(updates.late),
        _ints(updates.not_stored),
    )


def process(
    fold: SessionFold,
    gap: int,
    groups: Groups,
    places: IntArray,
    live_of: dict[int, list[Session]],
    batch: Batch,
    bounds: Bounds,
    updates: Updates,
) -> None:
    """Process records, by key and in order, and bring the keys' sessions up to date.

    Args:
        places: which records, as places in the order of the groups.
    """
    if not len(places):
        return
    times, closed_at, visible_from = bounds.timestamps.tolist(), bounds.closed_at.tolist(), bounds.visible_from.tolist()
    keys, values = fold.keys(batch), fold.values(batch)
    for row, number in zip(groups.order[places].tolist(), groups.group[places].tolist(), strict=True):
        time = start = end = times[row]
        live = live_of[number]
        low, high = max(time - gap, visible_from[row]), time + gap
        found = [session for session in live if session[0] >= low and session[1] <= high]
        for session in found:
            start, end = min(start, session[1]), max(end, session[0])
        if end < closed_at[row]:
            updates.late.append(row)
            continue
        try:
            aggregate = fold.fold(keys[row], values[row], [session[2] for session in found])
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            updates.failed.append((row, error))
            continue
        old = None
        for session in found:
            live.remove(session)
            updates.gone.append((row, session))
            if start == end:  # a session of this very time: it is replaced
                old = session[2] if updates.with_replaced else None
            else:
                updates.add(row, session[1], session[0], None, session[2])
        updates.add(row, start, end, aggregate, old)
        if not found:
            updates.fresh.append(row)
        if end < bounds.counted_from[row]:
            updates.not_stored.append(row)
        if end >= bounds.stored_from[row] and aggregate is not None:
            for session in live:
                if session[0] == end and session[1] == start:  # it was not visible any more, and is replaced
                    live.remove(session)
                    updates.gone.append((row, session))
                    break
            insort(live, [end, start, aggregate, -1], key=_bounds_of)


def _bounds_of(session: Session) -> tuple[int, int]:
    return session[0], session[1]


def _ints(numbers: Any) -> IntArray:
    return np.array(numbers, np.int64)
