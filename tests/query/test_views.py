"""Views of state stores: key-value and window reads, from the test driver."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from penstock import Materialized, SessionWindows, StreamsBuilder, TimeWindows, Windowed
from penstock.errors import ConfigError, SerdeError, StoreError
from penstock.query.stores import KeyValueView, ValueAndTimestamp, WindowView
from penstock.testing import TopologyTestDriver

STORE = Materialized.as_("departures")
PRICES = [("b", 2.0, 1), ("a", 1.0, 2), ("b", None, 3), ("c", 3.0, 4), ("aa", 1.5, 5), ("c", 4.0, 6)]


def prices() -> TopologyTestDriver:
    """A table of prices, of which ``b`` was deleted again."""
    builder = StreamsBuilder()
    builder.table("prices", key=str, value=float, store="prices")
    driver = TopologyTestDriver(builder.build())
    for key, value, timestamp in PRICES:
        driver.pipe_input("prices", key, value, timestamp)
    return driver


def departures(store: Materialized = STORE) -> TopologyTestDriver:
    """Departures by airport in windows of 10 ms, with a grace that leaves all of them open."""
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_and_grace(10, 1000)
    builder.stream("flights", key=str, value=str).group_by_key().windowed_by(windows).count(materialized=store)
    driver = TopologyTestDriver(builder.build())
    for airport, timestamp in [("JFK", 1), ("JFK", 25), ("LGA", 3), ("JFK", 9), ("JFK2", 12), ("JFK", 14)]:
        driver.pipe_input("flights", airport, "UA", timestamp)
    return driver


# --- key-value stores ----------------------------------------------------------------------------------------------


def test_a_key_has_its_latest_value_and_the_time_of_the_record_that_gave_it():
    view = prices().store("prices")
    assert type(view) is KeyValueView
    assert [view.get(key) for key in ("a", "b", "c", "d")] == [1.0, None, 4.0, None]
    assert view.get_with_timestamp("c") == ValueAndTimestamp(4.0, 6)
    assert view.get_with_timestamp("b") is None


@pytest.mark.parametrize(
    ("low", "high", "keys"),
    [
        (None, None, ["a", "aa", "c"]),
        ("a", "c", ["a", "aa", "c"]),
        ("aa", None, ["aa", "c"]),
        (None, "aa", ["a", "aa"]),
        ("a", "a", ["a"]),
        ("b", "b", []),
        ("c", "a", []),
    ],
)
def test_a_range_has_both_its_ends_and_goes_both_ways(low: str | None, high: str | None, keys: list[str]):
    rows = {"a": ("a", 1.0, 2), "aa": ("aa", 1.5, 5), "c": ("c", 4.0, 6)}
    view = prices().store("prices")
    assert list(view.range(low, high)) == [rows[key] for key in keys]
    assert list(view.range(low, high, reverse=True)) == [rows[key] for key in reversed(keys)]


def test_all_rows_are_told_and_counted():
    view = prices().store("prices")
    assert list(view.all()) == [("a", 1.0, 2), ("aa", 1.5, 5), ("c", 4.0, 6)]
    assert view.approximate_num_entries() == 3


def test_a_key_of_another_type_is_named():
    view = prices().store("prices")
    for ask in (lambda: view.get(7), lambda: list(view.range(7)), lambda: list(view.range(None, 7))):
        with pytest.raises(SerdeError, match="the serde 'str' cannot encode 7 of type int"):
            ask()


# --- window stores -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", [STORE, STORE.in_memory()])
def test_a_keys_windows_are_fetched_by_their_starts_ends_included(store: Materialized):
    view = departures(store).store("departures")
    assert type(view) is WindowView
    every = [(0, 2, 9), (10, 1, 14), (20, 1, 25)]
    assert list(view.fetch("JFK")) == every
    assert list(view.fetch("JFK", 0, 20)) == every
    assert list(view.fetch("JFK", 1, 20)) == every[1:]
    assert list(view.fetch("JFK", 0, 19)) == every[:2]
    assert list(view.fetch("JFK", 10, 10)) == every[1:2]
    assert list(view.fetch("JFK", 11, 19)) == list(view.fetch("JFK", 20, 10)) == list(view.fetch("SFO")) == []
    assert list(view.fetch("JFK2")) == [(10, 1, 12)]  # a key that begins with another one


def test_one_window_of_a_key_is_got_by_its_start():
    view = departures().store("departures")
    assert [view.get("JFK", start) for start in (0, 5, 10, 30)] == [2, None, 1, None]
    assert view.get("SFO", 0) is None


def test_all_windows_are_told_with_their_keys():
    assert sorted(departures().store("departures").all()) == [
        (Windowed("JFK", 0, 10), 2, 9),
        (Windowed("JFK", 10, 20), 1, 14),
        (Windowed("JFK", 20, 30), 1, 25),
        (Windowed("JFK2", 10, 20), 1, 12),
        (Windowed("LGA", 0, 10), 1, 3),
    ]


def test_windows_beyond_the_retention_are_not_seen_any_more():
    driver = departures(STORE.with_retention(1010))
    driver.pipe_input("flights", "LGA", "UA", 1015)  # its window begins at 1010: those that begin at 0 are gone
    view = driver.store("departures")
    assert list(view.fetch("JFK")) == [(10, 1, 14), (20, 1, 25)]
    assert view.get("JFK", 0) is None
    assert list(view.fetch("LGA")) == [(1010, 1, 1015)]


# --- closing, and what is not there --------------------------------------------------------------------------------


def reads(view: Any) -> list[Any]:
    """All ways to read a view."""
    if isinstance(view, KeyValueView):
        return [
            lambda: view.get("a"),
            lambda: view.get_with_timestamp("a"),
            lambda: list(view.range()),
            lambda: list(view.all()),
            lambda: view.approximate_num_entries(),
        ]
    return [lambda: list(view.fetch("JFK")), lambda: view.get("JFK", 0), lambda: list(view.all())]


def test_a_closed_view_cannot_be_read_and_says_so():
    for driver, name in ((prices(), "prices"), (departures(), "departures")):
        with driver.store(name) as view:
            assert list(view.all())
        for read in reads(view):
            with pytest.raises(StoreError, match=f"this view of the store '{name}' is closed; ask for the store again"):
                read()
        view.close()  # once more does nothing
        assert list(driver.store(name).all())


def test_what_is_to_be_done_at_the_close_is_done_once():
    view = prices().store("prices")
    done: list[str] = []
    view.on_close(lambda: done.append("closed"))
    view.close()
    view.close()
    assert done == ["closed"]


def test_a_store_that_does_not_exist_is_named_with_those_that_do():
    with pytest.raises(ConfigError, match="there is no store 'price'; the stores are prices"):
        prices().store("price")


def test_times_may_be_datetimes():
    builder = StreamsBuilder()
    grouped = builder.stream("in", value=int).group_by_key()
    grouped.windowed_by(TimeWindows.of_size_with_no_grace("1 h")).count("hours").to_stream().to("h")
    grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace("1 h")).count("visits").to_stream().to("v")
    builder.table("prices", value=int, materialized=Materialized.as_versioned("prices", "1 day")).to_stream().to("p")
    driver = TopologyTestDriver(builder.build())
    five, six = datetime(2013, 1, 1, 5), datetime(2013, 1, 1, 6, tzinfo=UTC)
    driver.pipe_input("in", "a", 1, five)
    driver.pipe_input("prices", "a", 7, five)
    hours, visits, prices = (driver.store(name) for name in ("hours", "visits", "prices"))
    ms = 1_357_016_400_000
    assert list(hours.fetch("a", five, six)) == [(ms, 1, ms)]
    assert (hours.get("a", five), list(hours.fetch("a", earliest=six))) == (1, [])
    assert (visits.fetch_session("a", five, five), len(list(visits.find_sessions("a", five, six)))) == (1, 1)
    assert (prices.get("a", as_of=six), len(list(prices.versions("a", five, six)))) == (7, 1)
    with pytest.raises(ConfigError, match=r"a number of milliseconds since 1970, .*; got 'noon'"):
        driver.pipe_input("in", "a", 1, "noon")
