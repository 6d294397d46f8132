"""Windows as arguments: what they read back, what is deprecated, what is refused."""

from datetime import UTC, datetime

import pytest

from penstock import Joined, JoinWindows, OldNameWarning, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from penstock.errors import ConfigError, TopologyError
from support.flows import source

DAY = 86_400_000


@pytest.mark.kip("328-01")
@pytest.mark.filterwarnings("ignore::penstock.OldNameWarning")
def test_every_kind_of_window_takes_a_grace_period_and_tells_it():
    assert TimeWindows.of_size_with_no_grace(10).grace("1 s").grace_period_ms == 1000
    assert TimeWindows.of_size_and_grace(10, 5).advance_by(2).grace_period_ms == 5
    assert SlidingWindows.of_time_difference_with_no_grace(10).grace(7).grace_period_ms == 7
    assert SessionWindows.of_inactivity_gap_with_no_grace(10).grace(7).grace_period_ms == 7
    assert UnlimitedWindows.of().grace("1 h").grace_period_ms == 0  # no effect


@pytest.mark.kip("328-02")
def test_until_still_sets_the_retention_and_says_that_it_is_deprecated():
    with pytest.warns(DeprecationWarning, match=r"use Materialized\.with_retention"):
        windows = TimeWindows.of_size_and_grace(10, 5).until(100)
    assert (windows.retention_ms, windows.grace_period_ms) == (100, 5)
    builder, stream = source(value=str)
    stream.group_by_key().windowed_by(windows).count("counts")
    (store,) = builder.build().facts.stores.values()
    assert store.retention is None  # it is the windows' own


@pytest.mark.kip("KS-18", "328-01", "328-02")
@pytest.mark.filterwarnings("ignore:JoinWindows.grace")
def test_join_windows_take_a_grace_period_and_the_deprecated_until():
    windows = JoinWindows.of_time_difference_with_no_grace(10).grace("1 s")
    assert (windows.grace_period_ms, windows.retention_ms) == (1000, 1020)
    with pytest.warns(DeprecationWarning, match="until is deprecated"):
        windows = windows.until("5 s")
    assert (windows.grace_period_ms, windows.retention_ms) == (1000, 1020)  # what late records find depends on these


@pytest.mark.kip("328-02")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_join_windows_that_forget_records_before_late_ones_may_find_them_are_refused_with_the_numbers():
    windows = JoinWindows.of_time_difference_and_grace(10, 100).until(119)
    builder, stream = source(value=str)
    stream.join(stream, lambda left, right: left, windows)
    with pytest.raises(
        TopologyError, match="keeps records for 119 ms, but join windows of 20 ms with 100 ms of grace need 120 ms"
    ):
        builder.build()
    with pytest.raises(ConfigError, match=r"kept for at least the size of the windows \(20 ms\), got 19 \(19 ms\)"):
        JoinWindows.of_time_difference_with_no_grace(10).until(19)


@pytest.mark.kip("94-01")
def test_kip_94s_sessions_are_kept_for_a_day_unless_until_says_otherwise():
    windows = SessionWindows.inactivity_gap("5 minutes")
    assert (windows.inactivity_gap_ms, windows.retention_ms, windows.closes) == (300_000, DAY, False)
    with pytest.warns(DeprecationWarning, match="until is deprecated"):
        windows = windows.until("1 h")
    assert (windows.retention_ms, windows.grace_period_ms, windows.closes) == (3_600_000, 3_300_000, False)


@pytest.mark.kip("KS-19")
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: TimeWindows.of(10), "TimeWindows.of(size) is deprecated (KIP-633); use TimeWindows.of_size_and_grace"),
        (
            lambda: TimeWindows.of_size_with_no_grace(10).grace(5),
            "TimeWindows.grace(grace) is deprecated (KIP-633); use",
        ),
        (
            lambda: JoinWindows.of(10),
            "JoinWindows.of(difference) is deprecated (KIP-633); use JoinWindows.of_time_diff",
        ),
        (
            lambda: JoinWindows.of_time_difference_with_no_grace(10).grace(5),
            "JoinWindows.grace(grace) is deprecated (KIP-633); use JoinWindows.of_time_difference_and_grace",
        ),
        (
            lambda: SessionWindows.with_(10),
            "SessionWindows.with_(gap) is deprecated (KIP-633); use SessionWindows.of_inactivity_gap_and_grace",
        ),
        (
            lambda: SessionWindows.of_inactivity_gap_with_no_grace(10).grace(5),
            "SessionWindows.grace(grace) is deprecated (KIP-633); use SessionWindows.of_inactivity_gap_and_grace",
        ),
        (
            lambda: TimeWindows.of_size_with_no_grace(10).maintain_ms,
            "TimeWindows.maintain_ms is deprecated (KIP-328); use retention_ms",
        ),
        (
            lambda: SessionWindows.inactivity_gap(10).segment_interval,
            "SessionWindows.segment_interval is deprecated (KIP-328); use Materialized.with_segment_interval",
        ),
        (
            lambda: JoinWindows.of_time_difference_with_no_grace(10).until(100),
            "until is deprecated (KIP-328); use Joined.retention, or a grace period",
        ),
    ],
)
def test_names_that_kafka_has_deprecated_say_so_at_the_users_line(make, said):
    with pytest.warns(OldNameWarning) as given:
        make()
    (warning,) = given
    assert issubclass(warning.category, DeprecationWarning)
    assert warning.filename == __file__
    assert said in str(warning.message)


@pytest.mark.kip("KS-19")
@pytest.mark.filterwarnings("ignore::penstock.OldNameWarning")
@pytest.mark.parametrize(
    ("windows", "grace", "retention", "segment"),
    [
        (TimeWindows.of(3_600_000), DAY - 3_600_000, DAY, DAY // 2),
        (TimeWindows.of(3_600_000).grace(600_000), 600_000, 4_200_000, 2_100_000),
        (TimeWindows.of(3_600_000).until(2 * DAY), 2 * DAY - 3_600_000, 2 * DAY, DAY),
        (TimeWindows.of(3_600_000).until(2 * DAY).grace(1), 1, 2 * DAY, DAY),
        (TimeWindows.of(2 * DAY), 0, 2 * DAY, DAY),
        (TimeWindows.of_size_and_grace(10, 5), 5, 15, 60_000),
        (JoinWindows.of(3_600_000), DAY - 7_200_000, DAY, DAY // 2),
        (JoinWindows.of(3_600_000).before(0), DAY - 3_600_000, DAY, DAY // 2),
        (JoinWindows.of(3_600_000).until(DAY // 2).after(0), DAY // 2 - 3_600_000, DAY // 2, DAY // 4),
        (JoinWindows.of(10).grace(5), 5, 25, 60_000),
        (SessionWindows.with_(300_000), DAY - 300_000, DAY, DAY // 2),
        (SessionWindows.with_(300_000).until("1 h"), 3_300_000, 3_600_000, 1_800_000),
        (SessionWindows.with_(300_000).grace(1), 1, 300_001, 150_000),
        (SlidingWindows.of_time_difference_and_grace(10, 5), 5, 25, 60_000),
    ],
)
def test_windows_that_were_given_no_grace_period_take_late_records_for_a_day_or_as_long_as_they_are_kept(
    windows, grace, retention, segment
):
    assert (windows.grace_period_ms, windows.maintain_ms, windows.segment_interval) == (grace, retention, segment)


@pytest.mark.kip("KS-19")
@pytest.mark.filterwarnings("ignore::penstock.OldNameWarning")
def test_sessions_with_a_gap_drop_late_records_and_those_of_kip_94_do_not():
    assert SessionWindows.with_(10).closes
    assert not SessionWindows.inactivity_gap(10).closes


def joined(windows: JoinWindows, how: Joined, other: str = "stream"):
    builder, stream = source(value=str)
    right = stream if other == "stream" else builder.table("rows", value=str)
    given = {"windows": windows} if other == "stream" else {}
    stream.join(right, lambda left, right: left, joined=how, **given)
    (join,) = [node for node in builder.build().nodes if type(node).__name__ in ("StreamJoin", "StreamTableJoin")]
    return join.windows if other == "stream" else None


@pytest.mark.kip("KS-19", "328-02")
def test_the_retention_of_a_join_of_streams_stands_where_until_did():
    windows = JoinWindows.of_time_difference_and_grace(10, 100)
    assert joined(windows, Joined.retention(500)).retention_ms == 120
    with pytest.raises(TopologyError, match="keeps records for 119 ms, but join windows of 20 ms with 100 ms of grace"):
        joined(windows, Joined.retention(119))
    with pytest.warns(OldNameWarning):
        windows = JoinWindows.of(10)
    assert joined(windows, Joined.retention(500)).grace_period_ms == 480


@pytest.mark.kip("KS-19")
def test_the_retention_of_a_join_with_a_table_and_other_options_of_tables_with_streams_are_refused():
    with pytest.raises(TopologyError, match=r"Joined\.retention\(500\) is for joins of two streams"):
        joined(JoinWindows.of_time_difference_with_no_grace(10), Joined.retention(500), "table")
    with pytest.raises(TopologyError, match=r"joined= is for tables, .* of Joined they have retention\(\.\.\.\) alone"):
        joined(JoinWindows.of_time_difference_with_no_grace(10), Joined.retention(500).with_name("near"))


def test_an_unlimited_window_begins_where_it_is_told_to():
    assert UnlimitedWindows.of().start_on(datetime(1970, 1, 2, tzinfo=UTC)).start_ms == DAY


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TimeWindows.of_size_with_no_grace(0), "the size of windows must be positive, got 0 (0 ms)"),
        (lambda: TimeWindows.of_size_and_grace(5, -1), "the grace period must not be negative, got -1 (-1 ms)"),
        (
            lambda: TimeWindows.of_size_with_no_grace(10).advance_by(11),
            "the advance of windows must be more than 0 and at most their size (10 ms), got 11 (11 ms)",
        ),
        (
            lambda: SlidingWindows.of_time_difference_with_no_grace(-1),
            "the time difference must not be negative, got -1 (-1 ms)",
        ),
        (
            lambda: SessionWindows.of_inactivity_gap_with_no_grace(-5),
            "the inactivity gap must not be negative, got -5 (-5 ms)",
        ),
        (
            lambda: UnlimitedWindows.of().start_on(-1),
            "an unlimited window must not start before 1970, got -1 (-1 ms)",
        ),
        (
            lambda: UnlimitedWindows.of().start_on(2**63),
            f"an unlimited window must not start after {2**63 - 1} ms, got {2**63}",
        ),
        (
            lambda: UnlimitedWindows.of().until(5),
            "until(5) cannot be set for unlimited windows: they are kept forever",
        ),
    ],
)
def test_what_windows_cannot_be_is_refused_with_the_numbers(make, message):
    with pytest.raises(ConfigError) as error:
        make()
    assert str(error.value) == message


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_until_is_refused_when_it_is_shorter_than_a_window():
    with pytest.raises(ConfigError, match=r"kept for at least the size of the windows \(10 ms\), got 9 \(9 ms\)"):
        TimeWindows.of_size_with_no_grace(10).until(9)
    with pytest.raises(ConfigError, match=r"kept for at least the inactivity gap \(10 ms\), got 9 \(9 ms\)"):
        SessionWindows.inactivity_gap(10).until(9)
