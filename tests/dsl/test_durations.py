"""Durations as people write them, and where the DSL takes them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from penstock import Materialized, TimeWindows
from penstock.errors import ConfigError
from penstock.values.durations import to_ms


@pytest.mark.parametrize(
    ("duration", "ms"),
    [
        (0, 0),
        (250, 250),
        (timedelta(minutes=5), 300_000),
        ("250 ms", 250),
        ("10 s", 10_000),
        ("10 minutes", 600_000),
        ("1 Hour", 3_600_000),
        ("1.5h", 5_400_000),
        ("1 h 30 min", 5_400_000),
        ("1 hour, 30 minutes and 5 seconds", 5_405_000),
        ("2 days", 172_800_000),
        ("1w", 604_800_000),
    ],
)
def test_a_duration_in_milliseconds(duration, ms):
    assert to_ms(duration) == ms


@pytest.mark.parametrize(
    ("duration", "message"),
    [
        (-1, "grace must not be negative, got -1 (-1 ms)"),
        (
            timedelta(seconds=-1),
            "grace must not be negative, got datetime.timedelta(days=-1, seconds=86399) (-1000 ms)",
        ),
        (True, "grace must be a duration, got True"),
        (1.5, "grace must be an int of milliseconds, a timedelta or text such as '10 minutes'; got 1.5 of type float"),
        (
            None,
            "grace must be an int of milliseconds, a timedelta or text such as '10 minutes'; got None of type NoneType",
        ),
        ("", "grace: cannot read '' as a duration; write it like '10 minutes' or '1 h 30 min'"),
        (
            "10",
            "grace: cannot read '10' as a duration; it has no unit: write '10 ms' or '10 s', or the number of "
            "milliseconds without quotes",
        ),
        ("soon", "grace: cannot read 'soon' as a duration; write it like '10 minutes' or '1 h 30 min'"),
        ("5 min later", "grace: cannot read '5 min later' as a duration; write it like '10 minutes' or '1 h 30 min'"),
        (
            "-5 min",
            "grace: cannot read '-5 min' as a duration; a duration is not negative; write it like '10 minutes' or "
            "'1 h 30 min'",
        ),
        ("5 parsecs", "grace: 'parsecs' in '5 parsecs' is no unit of time; use ms, s, min, h, d or w"),
    ],
)
def test_what_is_no_duration_is_refused(duration, message):
    with pytest.raises(ConfigError) as refused:
        to_ms(duration, "grace")
    assert str(refused.value) == message


# --- windows ---------------------------------------------------------------------------------------------------------


@pytest.mark.kip("328-01")
def test_windows_take_durations_and_tell_their_grace_period():
    windows = TimeWindows.of_size_and_grace("1 hour", timedelta(minutes=10)).advance_by(60_000)
    assert (windows.size_ms, windows.grace_period_ms, windows.advance_ms) == (3_600_000, 600_000, 60_000)


def test_windows_tumble_unless_they_advance_by_less_than_their_size():
    windows = TimeWindows.of_size_with_no_grace("10 s")
    assert (windows.size_ms, windows.advance_ms, windows.grace_period_ms) == (10_000, 10_000, 0)
    assert windows.advance_by("10 s") == windows


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: TimeWindows.of_size_with_no_grace(0),
            "the size of windows must be positive, got 0 (0 ms)",
        ),
        (
            lambda: TimeWindows.of_size_and_grace("1 min", "-1 s"),
            "the grace period: cannot read '-1 s' as a duration; a duration is not negative; write it like '10 "
            "minutes' "
            "or '1 h 30 min'",
        ),
        (
            lambda: TimeWindows.of_size_with_no_grace(5).advance_by(0),
            "the advance of windows must be more than 0 and at most their size (5 ms), got 0 (0 ms)",
        ),
        (
            lambda: TimeWindows.of_size_with_no_grace(5).advance_by("6 ms"),
            "the advance of windows must be more than 0 and at most their size (5 ms), got '6 ms' (6 ms)",
        ),
    ],
)
def test_windows_that_cannot_be_are_refused(make, message):
    with pytest.raises(ConfigError) as refused:
        make()
    assert str(refused.value) == message


def test_a_retention_is_a_duration_too():
    assert Materialized.as_("counts").with_retention("1 day").retention_ms == 86_400_000
    with pytest.raises(ConfigError, match="retention must not be negative, got -1"):
        Materialized.as_("counts").with_retention(-1)
