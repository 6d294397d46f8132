"""``join``, ``left_join`` and ``outer_join`` of streams."""

import pytest

from penstock import JoinWindows, StreamJoined, StreamsBuilder
from penstock.errors import ConfigError, TopologyError
from penstock.testing import TopologyTestDriver
from support.flows import Run

NEAR = JoinWindows.of_time_difference_with_no_grace(5)


def joined(method, windows=NEAR, **options):
    """A join of the streams ``L`` and ``R`` into ``out``."""
    builder = StreamsBuilder()
    left, right = builder.stream("L", value=str), builder.stream("R", value=str)
    getattr(left, method)(right, lambda one, other: f"{one} {other}", windows, value=str, **options).to("out")
    return builder


def test_a_join_has_all_pairs_of_a_key_that_are_near_in_time(run: Run):
    rows = [
        ("L", "k", "l0", 0),
        ("R", "k", "r5", 5),
        ("R", "k", "r6", 6),  # too late for l0
        ("R", "other", "r5", 5),
        ("L", "k", "l10", 10),
        ("L", "k", "l1", 1),  # late, and joined all the same
    ]
    assert run(joined("join"), rows).output() == [
        ("k", "l0 r5", 5),
        ("k", "l10 r5", 10),
        ("k", "l10 r6", 10),
        ("k", "l1 r5", 5),
        ("k", "l1 r6", 6),
    ]


def test_records_at_the_same_time_are_all_kept_in_the_order_of_their_arrival(run: Run):
    rows = [("L", "k", "a", 3), ("L", "k", "b", 3), ("L", "k", "a", 3), ("R", "k", "r", 3)]
    assert run(joined("join"), rows).output() == [("k", "a r", 3), ("k", "b r", 3), ("k", "a r", 3)]


def test_a_left_join_waits_until_no_partner_can_come(run: Run):
    windows = JoinWindows.of_time_difference_and_grace(5, 10)
    rows = [
        ("L", "k", "l0", 0),
        ("L", "k", "l1", 1),
        ("R", "k", "r6", 6),  # joins l1
        ("R", "x", "go", 15),  # stream time is 15: l0 may still be joined
        ("R", "x", "go", 16),  # 0 + 5 + 10 is over
        ("R", "x", "go", 50),
    ]
    assert run(joined("left_join", windows), rows).output() == [
        ("k", "l1 r6", 6),
        ("k", "l0 None", 0),
    ]


def test_an_outer_join_waits_on_both_sides_and_lets_go_in_the_order_of_time_right_side_first(run: Run):
    rows = [
        ("L", "b", "l", 1),
        ("L", "a", "l", 1),
        ("R", "z", "r", 1),
        ("R", "y", "r", 0),
        ("L", "x", "now", 7),
    ]
    assert run(joined("outer_join"), rows).output() == [
        ("y", "None r", 0),
        ("z", "None r", 1),
        ("a", "l None", 1),
        ("b", "l None", 1),
    ]


def test_the_last_record_that_was_looked_at_decides_when_an_outer_join_looks_again(run: Run):
    rows = [
        ("L", "z", "l0", 0),
        ("R", "a", "r3", 3),
        ("L", "b", "l4", 4),
        ("L", "c", "l5", 5),
        ("L", "x", "looks", 6),  # z goes; a and b wait on, one of each side, so c is the last one that is looked at
        ("R", "c", "r10", 10),  # a is due, but 5 + 5 is not over
        ("L", "x", "looks", 11),
    ]
    gone, pair = [("a", "None r3", 3), ("b", "l4 None", 4)], ("c", "l5 r10", 10)
    assert run(joined("outer_join"), rows).output() == [("z", "l0 None", 0), pair, *gone]


def test_of_two_records_of_one_key_and_time_the_second_is_the_last_one_that_is_looked_at(run: Run):
    rows = [
        ("L", "z", "l0", 0),
        ("R", "a", "r3", 3),
        ("L", "b", "l4", 4),
        ("L", "b", "again", 4),
        ("L", "c", "l5", 5),
        ("L", "x", "looks", 6),  # z goes; a and b wait on, and the second record of b is the last one that is looked at
        ("R", "c", "r10", 10),  # 4 + 5 is over
    ]
    gone = [("a", "None r3", 3), ("b", "l4 None", 4), ("b", "again None", 4)]
    assert run(joined("outer_join"), rows).output() == [("z", "l0 None", 0), *gone, ("c", "l5 r10", 10)]


def test_a_record_whose_window_has_passed_does_not_wait_and_may_still_find_a_partner(run: Run):
    windows = JoinWindows.of_time_difference_and_grace(5, 10)
    rows = [
        ("R", "x", "now", 10),
        ("L", "k", "late", 4),
        ("R", "k", "r", 5),
    ]
    assert run(joined("left_join", windows), rows).output() == [("k", "late None", 4), ("k", "late r", 5)]


def test_before_and_after_are_seen_from_the_left(run: Run):
    after = JoinWindows.of_time_difference_with_no_grace(5).before(0)
    rows = [("R", "k", "r4", 4), ("L", "k", "l5", 5), ("R", "k", "r5", 5), ("R", "k", "r10", 10)]
    assert run(joined("join", after), rows).output() == [("k", "l5 r5", 5), ("k", "l5 r10", 10)]


def test_records_without_key_or_value_are_dropped_but_for_outer_sides(run: Run):
    rows = [("L", None, "l", 1), ("L", "k", None, 2), ("R", None, "r", 3), ("R", "k", None, 4)]
    inner, left, outer = (run(joined(method), rows) for method in ("join", "left_join", "outer_join"))
    assert inner.output() == []
    assert left.output() == [(None, "l None", 1)]
    assert outer.output() == [(None, "l None", 1), (None, "None r", 3)]
    assert [sum(ran.dropped().values()) for ran in (inner, left, outer)] == [4, 3, 2]


def test_records_are_kept_for_before_after_and_grace(run: Run):
    rows = [
        ("R", "k", "r0", 0),
        ("R", "k", "r20", 20),
        ("L", "k", "l4", 4),  # r0 is beyond 20 - (5 + 5)
    ]
    assert run(joined("join"), rows).output() == []


@pytest.mark.parametrize("kind", ["persistent", "in_memory"])
def test_names_and_kinds_of_the_stores(run: Run, kind):
    given = StreamJoined(store="kept", name="pairs", kind=kind)
    ran = run(joined("outer_join", stream_joined=given), [("L", "k", "l", 1), ("R", "k", "r", 2)])
    assert ran.output() == [("k", "l r", 2)]
    stores = [spec.name for spec in ran.driver.topology.facts.stores.values()]
    assert stores == [
        "kept-outer-this-join-store",
        "kept-outer-other-join-store",
        "kept-outer-shared-join-store",
    ]


def test_windows_that_no_record_could_fit_are_refused():
    with pytest.raises(ConfigError, match="join windows from -6 ms before to 5 ms after a record are empty"):
        JoinWindows.of_time_difference_with_no_grace(5).before(-6)


def test_a_join_of_streams_needs_windows():
    with pytest.raises(TopologyError, match=r"the windows of join at .* must be of type JoinWindows"):
        joined("join", None)


def test_the_interval_between_two_looks_begins_when_something_may_have_waited_long_enough():
    at_once = JoinWindows.of_time_difference_with_no_grace(0)
    driver = TopologyTestDriver(joined("left_join", at_once).build(), emit_interval_ms=10)
    for timestamp in (1, 8):  # the wall clock stands still
        driver.pipe_input("L", "k", f"l{timestamp}", timestamp)
    assert [record[:3] for record in driver.read_output("out")] == [("k", "l1 None", 1)]
