"""Converts a chunk's records to arrays, runs the rules of sliding windows on them, and computes the aggregates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Binary, BoolArray, IntArray
from penstock.columns.batch import Batch
from penstock.columns.column import Column, NumberColumn
from penstock.columns.compiled import column, table
from penstock.figures.moving import moving
from penstock.ops.windows.sessions.fold import CountSessions, SessionFold
from penstock.ops.windows.sessions.named import NamedSessions
from penstock.ops.windows.sliding.named import NamedPuts
from penstock.ops.windows.sliding.rules import (
    BEGIN,
    COPY,
    PLACE,
    PUT,
    RECORD,
    STRETCH,
    UPDATE,
    Rules,
    Windows,
    keep,
    process,
    spread,
)
from penstock.serdes import INT
from penstock.state.columns.packed import Entries

_NEW_WINDOWS = 3
"""The most windows that a record may create: its own two, and the right window of the previous record."""
_FEWEST_PUTS = 256
"""The initial room for puts."""
_BLOCK = 4096
"""The number of puts that become columns together: few enough to stay in the CPU cache until then."""
_USUAL_PUTS = 32
"""The initial room for puts of each record when counting; unused room costs nothing."""


class Updates(NamedTuple):
    """Updates of windows, in order."""

    record: IntArray
    """The record of each update."""
    start: IntArray
    timestamp: IntArray
    is_there: BoolArray
    """True if the window existed before."""
    new: Column
    old: Callable[[], Column]
    """Returns the previous values, if a caller needs them."""


class SlidingOutcome(NamedTuple):
    """The results for records: all updates, and the resulting windows."""

    records: int
    """The number of processed records."""
    updates: Updates
    closed: IntArray
    """For each record, the number of its windows that were closed."""
    expired: int
    """The number of updates too old to be visible in the store."""
    removed: IntArray
    """The places of stored windows that are gone or have changed."""
    entries: Entries
    """The new and the changed windows."""
    stream_time: int
    """The stream time of the store."""


def records_of(owner: IntArray, time: IntArray, closed_at: IntArray) -> Any:
    """Build the records for ``process``, each with the number of its key and its close time."""
    records = table(len(owner), RECORD)
    records["owner"], records["time"], records["closed_at"] = owner, time, closed_at
    return records


def windows_of(stored: Entries, keys: int, records: Any, counts: IntArray, stream_time: int) -> Windows:
    """The stored windows, with room for those that records create.

    Args:
        stored: starts and timestamps, by key and start.
        keys: the number of keys.
        counts: the number of records in each window.
        stream_time: the stream time of the store.
    """
    have, size = np.bincount(stored.row, minlength=keys), len(stored)
    room = have + _NEW_WINDOWS * np.bincount(records["owner"], minlength=keys)
    stretches, places = table(keys, STRETCH), table(int(room.sum()), PLACE)
    stretches["first"], stretches["length"] = np.cumsum(room) - room, have
    place = np.arange(size) + (stretches["first"] - (np.cumsum(have) - have))[stored.row]
    known = table(size, PLACE)
    known["start"], known["latest"], known["count"], known["number"] = (
        stored.first,
        stored.second,
        counts,
        np.arange(size),
    )
    places[place] = known
    is_gone = np.zeros(size + _NEW_WINDOWS * len(records), np.bool_)
    return Windows(stretches, places, is_gone, np.array([stream_time]), np.array([size]), np.zeros(1, np.int64))


def process_records(
    rules: Rules, fold: SessionFold, records: Any, batch: Batch, stored: Entries, keys: int, stream_time: int, most: int
) -> tuple[SlidingOutcome, list[tuple[int, BaseException]]]:
    """Process records in order until there are about ``most`` puts, but at least one record.

    Args:
        records: the result of ``records_of``.
        batch: the same records.
        stored, keys, stream_time: as for ``windows_of``.

    Returns:
        The results, and the failures of a user function, each with the number of its record.
    """
    is_count = isinstance(fold, CountSessions)
    counts = fold.numbers(stored.data) if is_count else np.zeros(len(stored), np.int64)
    windows = windows_of(stored, keys, records, counts, stream_time)
    if is_count:
        done, updates = _count_all(rules, records, windows, most)
        return _outcome(done, records, windows, updates, _last_counts, stored), []
    puts, done, used = table(min(most, _FEWEST_PUTS * len(records) + _FEWEST_PUTS), PUT), 0, 0
    while True:
        done, used = process(rules, records, windows, puts, used, done, True)
        if done == len(records) or (done and len(puts) >= most):
            break
        puts = twice(puts)
    puts = puts[:used]
    named = _named(fold, puts, batch, stored.data, len(windows.is_gone))
    if named is not None:
        return _outcome(
            done, records, windows, Updates(*_columns(puts), named.new(), named.old), named.last, stored
        ), []
    users = _Users(fold, batch, stored.data, len(windows.is_gone))
    failed: list[tuple[int, BaseException]] = []
    if not users.add_all(puts):
        records["closed"] = 0
        windows = windows_of(stored, keys, records, counts, stream_time)
        users = _Users(fold, batch, stored.data, len(windows.is_gone))
        puts = _one_by_one(rules, records[:done], windows, users, failed)
    updates = Updates(*_columns(puts), fold.column(users.new), lambda: fold.column(users.old))
    return _outcome(done, records, windows, updates, users.last, stored), failed


def _named(fold: SessionFold, puts: Any, batch: Batch, stored: Binary, windows: int) -> NamedPuts | None:
    """Return the aggregates by name of puts; None if they go one by one."""
    if not isinstance(fold, NamedSessions) or not fold.columns.is_computed:
        return None
    try:
        return NamedPuts(fold, puts, batch, stored, windows)
    except KeyboardInterrupt:
        raise
    except BaseException:  # of a user's function, too: one by one shows which record fails
        return None


def twice(puts: Any) -> Any:
    """The puts, with as much room again after them."""
    more = table(2 * len(puts), PUT)
    more[: len(puts)] = puts
    return more


def _outcome(
    done: int,
    records: Any,
    windows: Windows,
    updates: Updates,
    last: Callable[[Any], Binary],
    stored: Entries,
) -> SlidingOutcome:
    stretches = windows.keys
    ends = np.cumsum(stretches["length"])
    owner = np.repeat(np.arange(len(stretches)), stretches["length"])
    place = np.arange(len(owner)) + (stretches["first"] - ends + stretches["length"])[owner]
    is_put = windows.places["is_put"][place] != 0
    now = windows.places[place[is_put]]
    numbers = np.concatenate([now["number"], np.flatnonzero(windows.is_gone)])
    return SlidingOutcome(
        done,
        updates,
        records["closed"][:done],
        int(windows.expired[0]),
        numbers[numbers < len(stored)],
        Entries(owner[is_put], column(now, "start"), column(now, "latest"), last(now)),
        int(windows.stream_time[0]),
    )


def _count_all(rules: Rules, records: Any, windows: Windows, most: int) -> tuple[int, Updates]:
    """Count records in order until there are about ``most`` puts. Return the number of processed records, and the
    updates."""
    puts, done, counted = table(_BLOCK, PUT), 0, _Counted(min(most, _USUAL_PUTS * len(records)) + _BLOCK)
    while done < len(records) and (counted.used < most or not done):
        stop, used = process(rules, records, windows, puts, 0, done, True)
        if stop == done:  # no room for even one record
            puts = twice(puts)
        counted.add(puts, used)
        done = stop
    return done, counted.updates()


class _Counted:
    """The columns of puts when records are counted.

    Args:
        room: the initial room, in puts.
    """

    def __init__(self, room: int):
        self.used = 0
        kinds = [np.int64] * 4 + [np.bool_] * 2
        self._columns: list[Any] = [np.empty(room, kind) for kind in kinds]

    def add(self, puts: Any, used: int) -> None:
        """Add the first ``used`` puts."""
        if self.used + used > len(self._columns[0]):
            self._columns = [_grown(one, 2 * (self.used + used)) for one in self._columns]
        spread(puts, used, self.used, *self._columns)
        self.used += used

    def updates(self) -> Updates:
        record, start, latest, count, is_there, has_old = (one[: self.used] for one in self._columns)

        def old() -> Column:
            return NumberColumn(np.where(has_old, count - 1, 0), INT, has_old)

        return Updates(record, start, latest, is_there, NumberColumn(count, INT), old)


def _grown(array: NDArray[Any], room: int) -> NDArray[Any]:
    grown = np.empty(room, array.dtype)
    grown[: len(array)] = array
    return grown


def _columns(puts: Any) -> tuple[IntArray, IntArray, IntArray, BoolArray]:
    """The record, start and timestamp of puts, and whether their windows existed."""
    return column(puts, "record"), column(puts, "start"), column(puts, "latest"), puts["is_there"] != 0


def _last_counts(windows: Any) -> Binary:
    return NumberColumn(column(windows, "count"), INT).encoded()


class _Users:
    """Calls a user's functions for puts, and keeps the results.

    Args:
        records: the records to process.
        stored: the aggregates of the stored windows.
        most: the largest number of windows.
    """

    def __init__(self, fold: SessionFold, records: Batch, stored: Binary, most: int):
        self._fold = fold
        self._keys, self._values = fold.keys(records), fold.values(records)
        before = fold.load(stored)
        self._current = before + [None] * (most - len(before) + 1)
        """The aggregate of each window; the last place is for windows that the store does not take."""
        self.new: list[Any] = []
        self.old: list[Any] = []

    def add_all(self, puts: Any) -> bool:
        """Call the function for puts in order; return False as soon as it fails or returns None."""
        current, new, old = self._current, self.new, self.old
        for record, window, kind, source in _listed(puts, "record", "window", "kind", "source"):
            try:
                was, result = self._called(record, window if kind == UPDATE else source, kind)
            except KeyboardInterrupt:
                raise
            except BaseException:
                return False
            if result is None:
                return False
            current[window] = result
            old.append(was)
            new.append(result)
        return True

    def add_record(self, puts: Any) -> None:
        """Call the function for the puts of one record, and mark the windows that it deletes.

        Raises:
            BaseException: the function failed; nothing was changed.
        """
        before = len(moving.through(self.new))
        try:
            for record, window, kind, source in _listed(puts, "record", "window", "kind", "source"):
                was, result = self._called(record, window if kind == UPDATE else source, kind)
                self.old.append(was)
                self.new.append(result)
        except BaseException:
            del self.old[before:], self.new[before:]
            raise
        puts["is_gone"] = [result is None for result in self.new[before:]]

    def keep(self, puts: Any) -> None:
        """Store the results of the last puts in their windows."""
        for (window,), result in zip(_listed(puts, "window"), self.new[len(self.new) - len(puts) :], strict=True):
            self._current[window] = result

    def _called(self, record: int, window: int, kind: int) -> tuple[Any, Any]:
        """Return the aggregates before and after a put."""
        if kind == COPY:  # of a window as it was before the record, which may have been added to it already
            return None, self.old[window] if window >= 0 else self._current[-1 - window]
        was = self._fold.initial() if kind == BEGIN else self._current[window]
        return was, self._fold.add(self._keys[record], self._values[record], was)

    def last(self, windows: Any) -> Binary:
        """The current aggregates of windows."""
        return self._fold.column([self._current[number] for number in windows["number"].tolist()]).encoded()


def _listed(puts: Any, *names: str) -> Any:
    return zip(*(puts[name].tolist() for name in names), strict=True)


def _one_by_one(
    rules: Rules, records: Any, windows: Windows, users: _Users, failed: list[tuple[int, BaseException]]
) -> Any:
    """Process records one by one if the function fails or deletes aggregates, which affects the records that follow."""
    puts, used = table(_FEWEST_PUTS, PUT), 0
    for i in range(len(records)):
        while (found := process(rules, records, windows, puts, used, i, False))[0] == i:
            puts = twice(puts)
        stop = found[1]
        try:
            users.add_record(puts[used:stop])
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failed.append((i, error))
            records["closed"][i] = 0
            continue
        keep(rules, records, windows, puts, used, stop)
        users.keep(puts[used:stop])
        used = stop
    return puts[:used]
