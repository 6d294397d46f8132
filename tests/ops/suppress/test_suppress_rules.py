"""The rules of suppressions one by one, called directly: what updates let go of, and what is held then."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from penstock.columns.compiled import table
from penstock.ops.suppress.rules import (
    BUFFER_KEY,
    COUNTS,
    ENTRY,
    EVICTION,
    FOREVER,
    NONE,
    RECORDING,
    UPDATE,
    Buffer,
    Limits,
    process,
)

WAIT = 6
KEYS = "abcdefg"
NEVER = 10**9


class Ran(NamedTuple):
    """What a suppression did: (update, key, the update that is sent on, the time of the entry) for what went."""

    gone: list[tuple[int, str, int, int]]
    held: dict[str, tuple[int, int]]
    """For each key that is held the time of its entry and its size."""
    recorded: list[tuple[int, int]]
    """How many records and bytes, whenever that is recorded."""
    done: int
    prior: list[int]
    stored: list[bool]
    """Whether what went was there before, updated or not."""


def ran(
    *updates: tuple[str, int] | tuple[str, int, int, int, int],
    wait: int = WAIT,
    stored: dict[str, int] | None = None,
    known_until: int = FOREVER,
    others: int = 0,
    **limits: Any,
) -> Ran:
    """Process updates, each a key and a time, and perhaps its size, the number of its old value and the size of that.

    Args:
        stored: keys that are held before, with their times, at 10 bytes each.
        others: how many entries that are not known are held as well.
    """
    rows, entries = table(len(updates), UPDATE), table(len(KEYS), ENTRY)
    for row, given in enumerate(updates):
        key, time, nbytes, old, old_bytes = (*given, 10, NONE, 0)[:5] if len(given) == 2 else given
        rows[row : row + 1]["key"], rows[row : row + 1]["time"], rows[row : row + 1]["nbytes"] = (
            KEYS.index(key),
            time,
            nbytes,
        )
        rows[row : row + 1]["old"], rows[row : row + 1]["old_bytes"] = old, old_bytes
    rows["expiry"] = np.maximum.accumulate(rows["time"]) - wait
    entries["rank"], entries["update"], entries["prior"] = np.arange(len(KEYS)), NONE, NONE
    line, counts = table(len(KEYS), BUFFER_KEY), table(1, COUNTS)
    for place, (key, time) in enumerate(sorted((stored or {}).items(), key=lambda one: one[1])):
        entry, first = entries[KEYS.index(key) : KEYS.index(key) + 1], line[place : place + 1]
        entry["time"], entry["nbytes"], entry["is_held"], entry["is_stored"] = time, 10, True, True
        first["time"], first["rank"], first["key"] = time, KEYS.index(key), KEYS.index(key)
    known = len(stored or {})
    counts["known"], counts["known_until"] = known, known_until
    counts["records"], counts["nbytes"] = known + others, 10 * (known + others)
    evictions, recordings = table(known + len(updates), EVICTION), table(3 * len(updates), RECORDING)
    done, gone, recorded = process(Limits(**limits), rows, Buffer(entries, line, counts), evictions, recordings)
    return Ran(
        [(int(e["at"]), KEYS[e["key"]], int(e["update"]), int(e["time"])) for e in evictions[:gone]],
        {KEYS[at]: (int(e["time"]), int(e["nbytes"])) for at, e in enumerate(entries) if e["is_held"]},
        [(int(r["records"]), int(r["nbytes"])) for r in recordings[:recorded]],
        int(done),
        rows["prior"].tolist(),
        [bool(e["is_stored"]) for e in evictions[:gone]],
    )


def test_rule_1_an_update_takes_the_place_of_the_one_before_whose_time_stays():
    assert ran(("a", 2, 10, NONE, 0), ("a", 5, 30, NONE, 0)).held == {"a": (2, 30)}
    assert ran(("a", 2), ("a", 7), ("b", 8)).gone == [(2, "a", 1, 2)]  # the later update, at the time of the first
    assert ran(("a", 5), stored={"a": 2}).held == {"a": (2, 10)}


def test_rule_1_the_size_of_an_update_takes_the_place_of_that_of_the_one_before():
    assert ran(("a", 2, 10, NONE, 0), ("b", 2), ("a", 5, 30, NONE, 0)).recorded == [(1, 10), (2, 20), (2, 40)]


def test_rule_1_the_prior_value_stays_that_before_the_entry():
    assert ran(("a", 2, 10, 4, 1), ("a", 3, 10, 5, 1)).prior == [4, 4]


def test_rule_2_an_update_of_a_key_that_is_not_held_makes_an_entry_with_its_old_value_as_the_prior_one():
    done = ran(("a", 2), ("b", 8), ("a", 9, 10, 7, 1))
    assert (done.gone, done.held, done.prior) == ([(1, "a", 0, 2)], {"a": (9, 10), "b": (8, 10)}, [NONE, NONE, 7])


def test_rule_2_an_entry_that_was_there_before_is_another_one_than_what_its_key_has_afterwards():
    done = ran(("a", 7), ("a", 8), ("b", 20), stored={"a": 1})
    assert (done.gone, done.stored) == ([(0, "a", 0, 1), (2, "a", 1, 8)], [True, False])


def test_rule_3_a_prior_value_counts_unless_it_is_the_old_one_as_well():
    assert ran(("a", 2, 10, 4, 3)).held == {"a": (2, 10)}
    assert ran(("a", 2, 10, 4, 3), ("a", 3, 10, 5, 1)).held == {"a": (2, 13)}
    assert ran(("a", 2, 10, 4, 3), ("a", 3, 10, 5, 1), ("a", 4, 10, 4, 3)).held == {"a": (2, 10)}


def test_rule_4_just_as_much_as_the_limits_say_is_not_too_much():
    assert ran(("a", 1), ("b", 1), wait=NEVER, records=2, nbytes=20).gone == []
    assert ran(("a", 1), ("b", 1), wait=NEVER, records=1).gone == [(1, "a", 0, 1)]
    assert ran(("a", 1), ("b", 1), wait=NEVER, nbytes=19).gone == [(1, "a", 0, 1)]


def test_rule_5_what_is_due_goes_the_oldest_first_and_at_just_that_time():
    assert ran(("b", 2), ("a", 3), ("c", 7)).gone == []
    assert ran(("b", 2), ("a", 3), ("c", 9)).gone == [(2, "b", 0, 2), (2, "a", 1, 3)]
    assert ran(("c", 9), stored={"a": 3, "b": 2}).gone == [(0, "b", NONE, 2), (0, "a", NONE, 3)]


def test_rule_5_a_late_update_that_is_due_goes_at_once():
    assert ran(("a", 9), ("b", 3)).gone == [(1, "b", 1, 3)]


def test_rule_6_a_suppression_that_shuts_down_stops_at_what_is_too_much_behind_what_is_due():
    stopped = ran(("a", 2), ("b", 3), ("c", 4), ("d", 5), wait=NEVER, records=2, shuts_down=True)
    assert (stopped.done, stopped.gone, stopped.recorded[-1]) == (2, [], (3, 30))
    assert ran(("a", 2), ("b", 3), ("c", 8), records=2, shuts_down=True).done == 3  # a has gone


def test_rule_7_the_oldest_go_until_it_fits_whatever_came_last():
    assert ran(("a", 5), ("b", 3), ("c", 4), wait=NEVER, records=1).gone == [(1, "b", 1, 3), (2, "c", 2, 4)]
    large = ran(("a", 1), ("b", 2), ("c", 3), ("d", 4, 25, NONE, 0), wait=NEVER, nbytes=40)
    assert (large.gone, large.held) == ([(3, "a", 0, 1), (3, "b", 1, 2)], {"c": (3, 10), "d": (4, 25)})


def test_rule_7_an_update_that_does_not_fit_at_all_goes_behind_all_others():
    assert ran(("a", 1), ("b", 2, 50, NONE, 0), wait=NEVER, nbytes=40).gone == [(1, "a", 0, 1), (1, "b", 1, 2)]


def test_entries_of_one_time_go_in_the_order_of_their_keys_bytes():
    assert [key for _, key, _, _ in ran(("c", 1), ("a", 1), ("b", 1), ("d", 7)).gone] == ["a", "b", "c"]


def test_a_key_that_has_gone_may_come_and_go_again():
    assert ran(("a", 1), ("a", 9), ("a", 20), ("b", 30)).gone == [
        *((1, "a", 1, 1), (3, "a", 2, 20))  # the update at 9 takes the place of the first one, and both are due
    ]


def test_what_is_held_is_recorded_at_each_update_and_behind_what_goes_by_time_and_by_limits():
    both = ran(("a", 1), ("b", 8), ("c", 9), ("d", 9), records=2)
    assert both.recorded == [(1, 10), (2, 20), (1, 10), (2, 20), (3, 30), (2, 20)]
    assert ran(("c", 9), stored={"a": 1, "b": 8, "d": 8}, records=2).recorded == [(4, 40), (3, 30), (2, 20)]


@pytest.mark.parametrize(("known_until", "done"), [(3, 0), (4, 1)])
def test_nothing_goes_early_that_entries_which_are_not_known_may_come_before(known_until: int, done: int):
    stopped = ran(("c", 9), wait=NEVER, stored={"a": 3, "b": 4}, known_until=known_until, others=1, records=2)
    assert (stopped.done, stopped.gone[:1]) == (done, [(0, "a", NONE, 3)])


def test_a_long_line_goes_in_order_whatever_the_order_in_which_it_came():
    times = [number * 37 % 100 for number in range(1, 100)]
    for count in range(1, 100):
        rows, entries = table(count, UPDATE), table(count, ENTRY)
        rows["time"], rows["key"], rows["nbytes"] = times[:count], np.arange(count), 1
        rows["expiry"] = [*[-1] * (count - 1), 1000]
        entries["rank"] = np.arange(count)
        buffer = Buffer(entries, table(count, BUFFER_KEY), table(1, COUNTS))
        evictions = table(count, EVICTION)
        _, gone, _ = process(Limits(), rows, buffer, evictions, table(3 * count, RECORDING))
        assert evictions["time"][:gone].tolist() == sorted(times[:count])
