"""Programs and names as the texts of the proposals print them: they run, and give what today's spelling gives."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from penstock import (
    BufferConfig,
    Materialized,
    Processor,
    Record,
    SessionWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    VersionedKeyValueStore,
    Window,
)
from penstock.testing import TopologyTestDriver
from support.flows import of_rows

pytestmark = [pytest.mark.kip("KS-19"), pytest.mark.filterwarnings("ignore::penstock.OldNameWarning")]

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
VISITS = [("ann", "x", 3), ("ann", "y", 3 + 5 * MINUTE), ("ann", "z", 3 + 11 * MINUTE), ("bob", "x", 12 * MINUTE)]

until_window_closes, until_time_limit = Suppressed.until_window_closes, Suppressed.until_time_limit
max_bytes, max_records = BufferConfig.max_bytes, BufferConfig.max_records


@pytest.mark.kip("328-15")
@pytest.mark.parametrize(
    "buffer",
    [
        BufferConfig.unbounded(),
        max_bytes(5_000_000).shut_down_when_full(),
        max_bytes(5_000_000).spill_to_disk_when_full(),
    ],
    ids=["unbounded", "shut down", "spill to disk"],
)
def test_the_first_program_of_kip_328_sends_its_alerts(buffer: Any):
    sent: list[str] = []
    builder = StreamsBuilder()
    (
        builder.stream("events", int, str)
        .group_by_key()
        .windowed_by(TimeWindows.of(3600_000).grace(600_000))
        .count()
        .suppress(until_window_closes(buffer))
        .to_stream()
        .filter(lambda key, value: value < 3)
        .foreach(
            lambda key, value: sent.append(
                "User " + str(key.key) + " had fewer than 3 events in window " + str(key.window)
            )
        )
    )
    driver = TopologyTestDriver(builder.build())
    for user, minute in [(1, 0), (1, 20), (2, 30), (1, 59), (2, 69), (2, 58), (1, 70), (2, 57), (2, 130)]:
        driver.pipe_input("events", user, "event", minute * MINUTE)
    assert sent == [
        "User 2 had fewer than 3 events in window Window(start=0, end=3600000)",
        "User 1 had fewer than 3 events in window Window(start=3600000, end=7200000)",
        "User 2 had fewer than 3 events in window Window(start=3600000, end=7200000)",
    ]


@pytest.mark.kip("328-15")
def test_the_second_program_of_kip_328_limits_the_rate():
    builder = StreamsBuilder()
    table = builder.table("prices", str, str)
    table.suppress(until_time_limit(timedelta(seconds=30), max_records(1000))).to_stream().to("out")
    rows = [
        ("prices", key, price, second * 1000) for key, price, second in (("a", "1", 0), ("a", "2", 10), ("b", "7", 30))
    ]
    assert of_rows(builder, rows).output() == [("a", "2", 10_000)]


def test_the_program_of_kip_94_aggregates_sessions():
    builder = StreamsBuilder()
    stream = builder.stream("in", str, str)
    windows = SessionWindows.inactivity_gap(5 * MINUTE).until(HOUR)
    stream.group_by_key().aggregate(
        list, lambda key, value, seen: [*seen, value], lambda key, one, two: one + two, windows, list, "session-store"
    ).to_stream().filter(lambda key, value: value is not None).to("out")
    assert [(key.key, key.window, value) for key, value, _ in of_rows(builder, VISITS).output()] == [
        ("ann", Window(3, 3), ["x"]),
        ("ann", Window(3, 3 + 5 * MINUTE), ["x", "y"]),
        ("ann", Window(3 + 11 * MINUTE, 3 + 11 * MINUTE), ["z"]),
        ("bob", Window(12 * MINUTE, 12 * MINUTE), ["x"]),
    ]


class Merging(Processor[Any, Any]):
    """Sends on the sessions of a key that a record merges, as KIP-94 finds them."""

    def init(self, context: Any) -> None:
        self.context, self.store = context, context.get_state_store("sessions")

    def process(self, record: Record) -> None:
        found = self.store.find_sessions_to_merge(
            record.key, record.timestamp - 6 * MINUTE, record.timestamp + 6 * MINUTE
        )
        self.context.forward(record.with_value([[session.start, session.end] for session, _ in found]))


def test_a_session_store_finds_sessions_to_merge_by_the_name_that_kip_94_gives():
    builder = StreamsBuilder()
    stream = builder.stream("in", str, str)
    stream.group_by_key().windowed_by(SessionWindows.with_(5 * MINUTE)).count("sessions")
    stream.process(Merging, "sessions").to("out", value=list)
    assert [value for _, value, _ in of_rows(builder, VISITS).output()] == [
        [[3, 3]],
        [[3, 3 + 5 * MINUTE]],
        [[3, 3 + 5 * MINUTE], [3 + 11 * MINUTE, 3 + 11 * MINUTE]],
        [[12 * MINUTE, 12 * MINUTE]],
    ]


def test_sessions_with_a_gap_take_late_records_for_a_day():
    builder = StreamsBuilder()
    sessions = builder.stream("in", str, str).group_by_key().windowed_by(SessionWindows.with_(MINUTE))
    sessions.count().to_stream().to("out")
    ran = of_rows(builder, [("a", "x", 2 * DAY), ("a", "y", DAY), ("a", "z", DAY - 1)])
    assert [(key.window, count) for key, count, _ in ran.output()] == [
        (Window(2 * DAY, 2 * DAY), 1),
        (Window(DAY, DAY), 1),
    ]
    assert list(ran.dropped().values()) == [1]


def test_the_return_codes_of_a_versioned_put_have_kafkas_names():
    assert VersionedKeyValueStore.PUT_RETURN_CODE_VALID_TO_UNDEFINED == VersionedKeyValueStore.VALID_TO_UNDEFINED == -1
    assert VersionedKeyValueStore.PUT_RETURN_CODE_NOT_PUT == VersionedKeyValueStore.NOT_PUT == -(2**63)


@pytest.mark.kip("328-02")
@pytest.mark.parametrize(
    "supplier",
    [Stores.persistent_window_store("kept", DAY, HOUR), Stores.in_memory_session_store("kept", DAY)],
    ids=["windows", "sessions"],
)
def test_a_suppliers_retention_wins_over_with_retention_in_either_order(supplier: Any):
    before, after = Materialized.with_retention(2 * DAY).as_(supplier), Materialized.as_(supplier).retention(2 * DAY)
    assert before == after
    builder, is_session = StreamsBuilder(), "Session" in type(supplier).__name__
    windows = SessionWindows.of_inactivity_gap_with_no_grace(HOUR) if is_session else TimeWindows.of(HOUR).grace(0)
    builder.stream("in", str, str).group_by_key().windowed_by(windows).count(materialized=after)
    (store,) = builder.build().facts.stores.values()
    assert store.retention == DAY
    assert Materialized.as_("kept").retention(2 * DAY) == Materialized.as_("kept").with_retention(2 * DAY)
