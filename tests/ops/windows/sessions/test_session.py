"""Aggregations in sessions: KIP-94's find, merge, aggregate, remove, put; grace, retention, nulls, disorder."""

import pytest

from penstock import Materialized, SessionWindows, StreamsBuilder, TimeWindows
from penstock.errors import ConfigError, TopologyError
from support.flows import Run, source, windowed

GAP_5 = SessionWindows.of_inactivity_gap_and_grace(5, 100)


def counts(windows, **given):
    builder, stream = source(value=str)
    stream.group_by_key().windowed_by(windows).count(**given).to_stream().to("out")
    return builder


def texts(windows, initial="", **given):
    """Sessions of texts: values joined by commas, sessions by slashes."""
    builder, stream = source(value=str)
    stream.group_by_key().windowed_by(windows).aggregate(
        lambda: initial,
        lambda key, value, seen: f"{seen},{value}" if seen else f"{value}",
        lambda key, one, other: f"{one}/{other}" if one else other,
        value=str,
        **given,
    ).to_stream().to("out")
    return builder


@pytest.mark.kip("94-03")
@pytest.mark.kip("94-09")
def test_a_record_extends_the_session_of_its_key_which_is_removed_first(run: Run):
    rows = [
        ("a", "x", 10),  # a session of one record begins and ends at its time
        ("a", "y", 15),  # exactly one gap later
        ("b", "x", 16),  # another key
        ("a", "z", 21),  # more than a gap later
    ]
    ran = run(texts(GAP_5, store="sessions"), rows)
    assert ran.output() == [
        (windowed("a", 10, 10), "x", 10),
        (windowed("a", 10, 10), None, 10),
        (windowed("a", 10, 15), "x,y", 15),
        (windowed("b", 16, 16), "x", 16),
        (windowed("a", 21, 21), "z", 21),
    ]
    assert ran.store("sessions") == [
        (windowed("a", 10, 15), "x,y"),
        (windowed("a", 21, 21), "z"),
        (windowed("b", 16, 16), "x"),
    ]


@pytest.mark.kip("94-04")
def test_late_records_create_extend_and_bridge_sessions(run: Run):
    rows = [
        ("a", "1", 100),
        ("a", "2", 80),  # late: a session of its own
        ("a", "3", 76),  # late: extends that one to the left
        ("a", "4", 90),  # late: another one, between both
        ("a", "5", 85),  # bridges the second and the third
        ("a", "6", 95),  # and now all are one
    ]
    ran = run(texts(GAP_5, store="sessions"), rows)
    assert ran.output() == [
        (windowed("a", 100, 100), "1", 100),
        (windowed("a", 80, 80), "2", 80),
        (windowed("a", 80, 80), None, 80),
        (windowed("a", 76, 80), "2,3", 80),
        (windowed("a", 90, 90), "4", 90),
        (windowed("a", 76, 80), None, 80),
        (windowed("a", 90, 90), None, 90),
        (windowed("a", 76, 90), "2,3/4,5", 90),
        (windowed("a", 76, 90), None, 90),
        (windowed("a", 100, 100), None, 100),
        (windowed("a", 76, 100), "2,3/4,5/1,6", 100),
    ]
    assert ran.store("sessions") == [(windowed("a", 76, 100), "2,3/4,5/1,6")]


@pytest.mark.kip("94-03")
def test_a_record_exactly_a_gap_before_a_session_extends_it_and_one_further_back_does_not(run: Run):
    rows = [("a", "1", 20), ("a", "2", 15), ("a", "3", 9)]
    ran = run(texts(GAP_5, store="sessions"), rows)
    assert ran.output() == [
        (windowed("a", 20, 20), "1", 20),
        (windowed("a", 20, 20), None, 20),
        (windowed("a", 15, 20), "1,2", 20),
        (windowed("a", 9, 9), "3", 9),
    ]
    assert ran.store("sessions") == [(windowed("a", 15, 20), "1,2"), (windowed("a", 9, 9), "3")]


@pytest.mark.kip("94-03")
def test_a_second_record_of_the_same_time_replaces_the_session_without_removing_it(run: Run):
    rows = [("a", "1", 10), ("a", "2", 10), ("a", "3", 12), ("a", "4", 12)]
    assert run(texts(GAP_5), rows).output() == [
        (windowed("a", 10, 10), "1", 10),
        (windowed("a", 10, 10), "1,2", 10),
        (windowed("a", 10, 10), None, 10),
        (windowed("a", 10, 12), "1,2,3", 12),
        (windowed("a", 10, 12), None, 12),  # a session of several times is removed and put again
        (windowed("a", 10, 12), "1,2,3,4", 12),
    ]


@pytest.mark.kip("94-02")
def test_count_and_reduce_merge_sessions_by_themselves(run: Run):
    rows = [("a", "1", 10), ("a", "2", 20), ("a", "3", 15)]
    assert run(counts(GAP_5), rows).output() == [
        (windowed("a", 10, 10), 1, 10),
        (windowed("a", 20, 20), 1, 20),
        (windowed("a", 10, 10), None, 10),
        (windowed("a", 20, 20), None, 20),
        (windowed("a", 10, 20), 3, 20),
    ]
    builder, stream = source(value=str)
    stream.group_by_key().windowed_by(GAP_5).reduce(lambda one, other: f"{one}+{other}").to_stream().to("out")
    assert run(builder, rows).output() == [
        (windowed("a", 10, 10), "1", 10),
        (windowed("a", 20, 20), "2", 20),
        (windowed("a", 10, 10), None, 10),
        (windowed("a", 20, 20), None, 20),
        (windowed("a", 10, 20), "1+2+3", 20),
    ]


@pytest.mark.kip("94-02", "KS-18")
def test_kip_94s_own_forms_take_the_windows_and_a_store_name(run: Run):
    def merged(key, one, other):
        return one + other

    rows = [("a", 1, 10), ("a", 2, 12)]

    def add(key, value, total):
        return total + value

    for expected, aggregate in [
        (2, lambda group: group.count(GAP_5, "sessions")),
        (2, lambda group: group.count(windows=GAP_5, store="sessions")),
        (3, lambda group: group.reduce(lambda total, value: total + value, GAP_5, "sessions")),
        (3, lambda group: group.reduce(lambda total, value: total + value, windows=GAP_5, store="sessions")),
        (203, lambda group: group.aggregate(lambda: 100, add, merged, GAP_5, int, "sessions")),
        (
            203,
            lambda group: group.aggregate(lambda: 100, add, merger=merged, windows=GAP_5, value=int, store="sessions"),
        ),
    ]:
        builder = StreamsBuilder()
        aggregate(builder.stream("in", value=int).group_by_key())
        assert run(builder, rows).store("sessions") == [(windowed("a", 10, 12), expected)]


@pytest.mark.kip("328-10")
@pytest.mark.kip("94-05")
def test_a_record_past_gap_and_grace_is_dropped_unless_it_joins_a_session_that_is_open(run: Run):
    rows = [
        ("a", "x", 100),
        ("a", "x", 92),  # its own session would end at 92, before 100 - gap 5 - grace 2
        ("a", "x", 94),  # still open
        ("b", "x", 94),
        ("a", "x", 96),
        ("a", "x", 91),  # joins the session 94-100, which is open
    ]
    ran = run(counts(SessionWindows.of_inactivity_gap_and_grace(5, 2), store="sessions"), rows)
    assert ran.output() == [
        (windowed("a", 100, 100), 1, 100),
        (windowed("a", 94, 94), 1, 94),
        (windowed("b", 94, 94), 1, 94),
        (windowed("a", 94, 94), None, 94),
        (windowed("a", 100, 100), None, 100),
        (windowed("a", 94, 100), 3, 100),
        (windowed("a", 94, 100), None, 100),
        (windowed("a", 91, 100), 4, 100),
    ]
    node = "KSTREAM-AGGREGATE-0000000001"
    assert ran.dropped() == {(node, "expired-window"): 1}
    assert ran.counted("late-record-drop-total") == {(node, ""): 1}


@pytest.mark.kip("94-05")
@pytest.mark.kip("328-11")
def test_in_kip_94s_own_form_a_record_later_than_the_retention_is_aggregated_and_not_stored(run: Run):
    with pytest.warns(DeprecationWarning, match="until is deprecated"):
        windows = SessionWindows.inactivity_gap(5).until(20)
    rows = [
        ("a", "x", 100),
        ("a", "x", 85),  # late, within the retention: stored
        ("a", "x", 79),  # later than the retention: a session of its own, sent on
        ("a", "x", 79),  # and forgotten
        ("a", "x", 87),
    ]
    ran = run(counts(windows, store="sessions"), rows)
    assert ran.output() == [
        (windowed("a", 100, 100), 1, 100),
        (windowed("a", 85, 85), 1, 85),
        (windowed("a", 79, 79), 1, 79),
        (windowed("a", 79, 79), 1, 79),
        (windowed("a", 85, 85), None, 85),
        (windowed("a", 85, 87), 2, 87),
    ]
    assert ran.store("sessions") == [(windowed("a", 100, 100), 1), (windowed("a", 85, 87), 2)]
    assert ran.counted("expired-window-record-drop-total") == {("sessions", "session"): 2}
    assert ran.counted("late-record-drop-total") == {}


def test_null_keys_are_dropped_null_values_aggregated_and_a_null_aggregate_deletes(run: Run):
    builder, stream = source(value=str)
    stream.group_by_key().windowed_by(GAP_5).reduce(
        lambda one, other: None if other == "!" else one + other
    ).to_stream().to("out")
    rows = [(None, "x", 10), ("a", None, 10), ("a", "1", 11), ("a", "!", 12), ("a", "2", 13)]
    ran = run(builder, rows)
    assert ran.output() == [
        (windowed("a", 10, 10), None, 10),  # the first value, null, is the aggregate: nothing is stored
        (windowed("a", 11, 11), "1", 11),
        (windowed("a", 11, 11), None, 11),
        (windowed("a", 11, 12), None, 12),  # deleted by the reducer
        (windowed("a", 13, 13), "2", 13),  # so this begins afresh
    ]
    assert ran.dropped() == {("KSTREAM-REDUCE-0000000002", "null-key"): 1}


def test_the_initializers_value_is_merged_with_each_session(run: Run):
    assert run(texts(GAP_5, initial="i"), [("a", "1", 10), ("a", "2", 11)]).output() == [
        (windowed("a", 10, 10), "i,1", 10),
        (windowed("a", 10, 10), None, 10),
        (windowed("a", 10, 11), "i/i,1,2", 11),
    ]


def test_a_removed_session_is_sent_on_with_its_old_value_so_that_a_table_behind_it_stays_right(run: Run):
    builder, stream = source(value=str)
    sessions = stream.group_by_key().windowed_by(GAP_5).count()
    grouped = sessions.group_by(lambda window, count: (window.key, count), value=int)
    total = grouped.reduce(lambda total, count: total + count, lambda total, count: total - count, "total")
    total.to_stream().to("out")
    ran = run(builder, [("a", "x", 10), ("a", "x", 20), ("a", "x", 15)])
    assert ran.output() == [("a", 1, 10), ("a", 2, 20), ("a", 1, 20), ("a", 0, 20), ("a", 3, 20)]


def test_with_caching_the_last_update_of_each_session_goes_out_at_the_commit(run: Run):
    rows = [("a", "x", 10), ("a", "x", 12)]
    ran = run(counts(GAP_5), rows, statestore_cache_max_bytes=1)
    merged = (windowed("a", 10, 12), 2, 12)
    assert ran.output() in (
        [(windowed("a", 10, 10), 1, 10), (windowed("a", 10, 10), None, 10), merged],  # a commit between them
        [merged],  # one commit: the session that came and went is never seen
    )


@pytest.mark.kip("328-02")
def test_a_retention_shorter_than_gap_and_grace_is_refused_with_the_numbers():
    builder = counts(GAP_5, materialized=Materialized.as_("sessions").with_retention(104))
    with pytest.raises(TopologyError, match=r"104 ms.*gap of 5 ms and 100 ms of grace need 105 ms") as error:
        builder.build()
    assert "with_retention(105)" in str(error.value)


def test_sessions_take_a_merger_and_other_windows_do_not():
    _, stream = source(value=str)
    group = stream.group_by_key()
    with pytest.raises(ConfigError, match="both windows= and merger="):
        group.aggregate(str, lambda k, v, a: a, windows=GAP_5)
    with pytest.raises(ConfigError, match="windows= takes SessionWindows"):
        group.count(windows="5 minutes")
    windows = TimeWindows.of_size_with_no_grace(10)
    for as_before_kip_114 in (
        lambda: group.count(windows, "store"),
        lambda: group.reduce(lambda a, b: a, windows, "store"),
        lambda: group.aggregate(str, lambda k, v, a: a, windows, str, "store"),
    ):
        with pytest.raises(ConfigError, match=r"takes SessionWindows, got TimeWindows.*group.windowed_by\(windows\)"):
            as_before_kip_114()
    with pytest.raises(TopologyError, match=r"windowed_by at .* takes TimeWindows"):
        group.windowed_by("5 minutes")
    with pytest.raises(TopologyError, match="key, one, other"):
        group.windowed_by(GAP_5).aggregate(str, lambda k, v, a: a, lambda a, b: a)
