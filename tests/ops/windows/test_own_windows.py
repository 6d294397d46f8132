"""Windows of the calendar, and of classes of the user's: unequal lengths, overlaps, gaps (KS-21)."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pyspark import cloudpickle

from penstock import (
    BufferConfig,
    CalendarWindows,
    EmitStrategy,
    JoinWindows,
    Materialized,
    Processor,
    Record,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Windows,
    open_store,
    produce,
)
from penstock.engine.shared.formats import formats_of
from penstock.errors import ConfigError, ProcessingError, SerdeError, TopologyError
from penstock.record import Window, Windowed
from penstock.serdes import STR, TimeWindowedSerde, from_name
from penstock.testing import TopologyTestDriver
from penstock.values.window_ends import DAY_MS, HOUR_MS, Calendar
from support.flows import Run, source
from support.world import World

pytestmark = pytest.mark.kip("KS-21")

BERLIN = ZoneInfo("Europe/Berlin")


def at(*date: int, zone: ZoneInfo = BERLIN) -> int:
    return int(datetime(*date, tzinfo=zone).timestamp() * 1000)  # type: ignore[misc,arg-type]


def days(count: int, month: int = 3, day: int = 28) -> list[Window]:
    """The days from one in Berlin on."""
    starts = [at(2026, month, day) if number == 0 else 0 for number in range(count + 1)]
    for number in range(1, count + 1):
        following = datetime(2026, month, day, tzinfo=BERLIN) + timedelta(days=number)
        starts[number] = int(following.timestamp() * 1000)
    return [Window(*pair) for pair in pairwise(starts)]


def shown(ran: Any, topic: str = "out") -> list[tuple[Any, Any, Any, int]]:
    return [(key.key, key.window, value, timestamp) for key, value, timestamp in ran.output(topic)]


# --- the calendar -----------------------------------------------------------------------------------------------


def test_a_day_of_a_time_zone_has_23_hours_when_summer_time_begins_and_25_when_it_ends(run: Run):
    builder, stream = source(value=str)
    windows = CalendarWindows.by_day("Europe/Berlin")
    stream.group_by_key().windowed_by(windows).count("counts").to_stream().to("out")
    spring, autumn = days(3), days(3, 10, 24)
    rows = [
        ("a", "x", at(2026, 3, 28, 23, 59)),
        ("a", "x", at(2026, 3, 29, 0, 0)),
        ("a", "x", at(2026, 3, 29, 23, 59)),
        ("a", "x", at(2026, 3, 30, 0, 0)),
        ("a", "x", at(2026, 10, 24, 12, 0)),
        ("a", "x", at(2026, 10, 25, 0, 0)),
        ("a", "x", at(2026, 10, 25, 23, 59)),
        ("a", "x", at(2026, 10, 26, 0, 0)),
    ]
    assert [(key, window, count) for key, window, count, _ in shown(run(builder, rows))] == [
        ("a", spring[0], 1),
        ("a", spring[1], 1),
        ("a", spring[1], 2),
        ("a", spring[2], 1),
        ("a", autumn[0], 1),
        ("a", autumn[1], 1),
        ("a", autumn[1], 2),
        ("a", autumn[2], 1),
    ]
    assert [(window.end - window.start) // HOUR_MS for window in (*spring, *autumn)] == [24, 23, 24, 24, 25, 24]


def test_a_late_record_belongs_to_its_day_until_the_grace_period_after_the_days_own_end(run: Run):
    builder, stream = source(value=str)
    windows = CalendarWindows.by_day("Europe/Berlin", grace="1 hour")
    stream.group_by_key().windowed_by(windows).count("counts", name="days").to_stream().to("out")
    end = at(2026, 3, 30)  # of the day of 23 hours
    rows = [
        ("a", "x", at(2026, 3, 29, 12)),
        ("b", "x", end + HOUR_MS - 1),
        ("a", "in time", end - 1),
        ("b", "x", end + HOUR_MS),
        ("a", "late", end - 1),
    ]
    ran = run(builder, rows)
    assert [(key, window.start, count) for key, window, count, _ in shown(ran)] == [
        ("a", at(2026, 3, 29), 1),
        ("b", end, 1),
        ("a", at(2026, 3, 29), 2),
        ("b", end, 2),
    ]
    assert ran.dropped() == {("days", "expired-window"): 1}


@pytest.mark.parametrize("suppressed", [True, False], ids=["suppress", "emit strategy"])
def test_final_results_of_months_come_as_each_ends(run: Run, suppressed: bool):
    builder, stream = source(value=int)
    windowed = stream.group_by_key().windowed_by(CalendarWindows.by_month("America/New_York", grace="1 day"))
    if suppressed:
        totals = windowed.reduce(lambda total, value: total + value)
        totals = totals.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    else:
        windowed = windowed.emit_strategy(EmitStrategy.on_window_close())
        totals = windowed.reduce(lambda total, value: total + value)
    totals.to_stream().to("out")
    york = ZoneInfo("America/New_York")
    january, february, march, april = (at(2026, month, 1, zone=york) for month in (1, 2, 3, 4))
    rows = [
        ("a", 1, january),
        ("b", 2, february - 1),
        ("a", 3, february),
        ("a", 4, february + DAY_MS - 1),
        ("b", 5, february - 2),  # late, and in time
        ("b", 6, february + DAY_MS),  # January is final
        ("a", 7, january + 5),  # too late
        ("a", 8, march + DAY_MS - 1),
        ("a", 9, march + DAY_MS),  # February, of 28 days, is final
        ("b", 10, april + DAY_MS),  # March, of 31 days less an hour
    ]
    assert shown(run(builder, rows)) == [
        ("a", Window(january, february), 1, january),
        ("b", Window(january, february), 7, february - 1),
        ("a", Window(february, march), 7, february + DAY_MS - 1),
        ("b", Window(february, march), 6, february + DAY_MS),
        ("a", Window(march, april), 17, march + DAY_MS),
    ]
    assert [(two - one) // HOUR_MS for one, two in ((february, march), (march, april))] == [28 * 24, 31 * 24 - 1]


def test_weeks_begin_with_the_weekday_that_is_said():
    monday = CalendarWindows.by_week("UTC").windows_for(at(2026, 11, 26, zone=ZoneInfo("UTC")))
    sunday = CalendarWindows.by_week("UTC", first_day="Sunday").windows_for(at(2026, 11, 26, zone=ZoneInfo("UTC")))
    assert [datetime.fromtimestamp(one.start / 1000, UTC).day for (one,) in (monday, sunday)] == [23, 22]
    assert [one.end - one.start for (one,) in (monday, sunday)] == [7 * DAY_MS, 7 * DAY_MS]


@pytest.mark.parametrize(
    ("zone", "date", "hours"),
    [
        ("America/Sao_Paulo", (2018, 11, 4), [24, 23, 24]),  # a day that begins at 1 o'clock
        ("America/Sao_Paulo", (2018, 2, 17), [24, 25, 24]),  # whose last hour comes twice
        ("America/Havana", (2020, 11, 1), [24, 25, 24]),  # whose midnight comes twice
        ("America/St_Johns", (2010, 11, 7), [24, 25, 24]),  # a minute of which comes before an hour of the day before
        ("Pacific/Apia", (2011, 12, 29), [24, 24, 24]),  # the 30th was left out
        ("Antarctica/Troll", (2026, 3, 29), [24, 22, 24]),
        ("Antarctica/Casey", (2010, 3, 5), [24, 27, 24]),
        ("Antarctica/Vostok", (1994, 1, 31), [24, 31, 24]),
        ("Asia/Kathmandu", (1986, 1, 1), [24, 23.75, 24]),
    ],
)
def test_days_follow_each_other_without_a_gap_wherever_clocks_change(
    zone: str, date: tuple[int, ...], hours: list[Any]
):
    calendar = Calendar("day", zone)
    start = calendar.start_of(at(*date, 12, zone=ZoneInfo(zone)))
    before = calendar.start_of(start - 1)
    after = calendar.of(start)
    ends = [start, after, calendar.of(after)]
    starts = [before, start, after]
    assert [calendar.of(one) for one in starts] == ends
    assert [calendar.start_of(one) for one in (*starts, start - 1, after - 1)] == [*starts, before, start]
    assert [(end - one) / HOUR_MS for one, end in zip(starts, ends, strict=True)] == hours


@pytest.mark.parametrize("unit", ["day", "week", "month"])
@pytest.mark.parametrize("time", [0, 5, 253_402_300_799_999, 2**62, 2**63 - 2], ids=str)
def test_the_first_and_the_last_times_have_windows_too(unit: str, time: int):
    import numpy as np

    calendar = Calendar(unit, "America/New_York")
    start = calendar.start_of(time)
    assert 0 <= start <= time < calendar.of(start)
    assert calendar.starts_of(np.array([time, time])).tolist() == [start, start]


# --- classes of the user's ---------------------------------------------------------------------------------------


class Meals(Windows):
    """Breakfast of 3, lunch of 2 and dinner of 5, of days of 24; they overlap with ``all_day``."""

    size, grace_period = 24, 2

    def __init__(self, all_day: bool = False):
        self.all_day = all_day

    def __repr__(self) -> str:
        return f"Meals({self.all_day})"

    def windows_for(self, timestamp: int) -> Any:
        day = timestamp // 24 * 24
        for first, last in ((7, 10), (11, 13), (17, 22)):
            if day + first <= timestamp < day + last:
                yield Window(day + first, day + last)
        if self.all_day:
            yield day, day + 24


def test_records_are_counted_in_the_windows_of_a_class_and_in_none_between_them(run: Run):
    builder, stream = source(value=str)
    stream.group_by_key().windowed_by(Meals(all_day=True)).count("counts", name="meals").to_stream().to("out")
    rows = [("a", "x", 8), ("a", "x", 10), ("a", "x", 21), ("b", "x", 24), ("a", "late", 20), ("a", "later", 11)]
    assert shown(run(builder, rows)) == [
        ("a", Window(0, 24), 1, 8),
        ("a", Window(7, 10), 1, 8),
        ("a", Window(0, 24), 2, 10),
        ("a", Window(0, 24), 3, 21),
        ("a", Window(17, 22), 1, 21),
        ("b", Window(24, 48), 1, 24),
        ("a", Window(0, 24), 4, 21),
        ("a", Window(0, 24), 5, 21),
    ]
    assert run(builder, rows).dropped() == {("meals", "expired-window"): 2}


class Hopping(Windows):
    """What ``TimeWindows`` of 10 and an advance of 3 are."""

    def size(self) -> int:  # type: ignore[override]
        return 10

    def grace_period(self) -> str:
        return "5 ms"

    def windows_for(self, timestamp: int) -> dict[int, Window]:
        first = max(0, timestamp - 10 + 3) // 3 * 3
        return {start: Window(start, start + 10) for start in range(first, timestamp + 1, 3)}


@pytest.mark.parametrize("final", [False, True], ids=["updates", "final results"])
def test_windows_of_one_size_are_the_same_as_the_ready_ones(run: Run, final: bool):
    import random

    choose = random.Random(3)
    rows = [(choose.choice("ab"), choose.randrange(9), max(0, time + choose.randrange(-14, 4))) for time in range(80)]

    def results(windows: Any) -> Any:
        builder, stream = source(value=int)
        windowed = stream.group_by_key().windowed_by(windows)
        strategy = EmitStrategy.on_window_close() if final else EmitStrategy.on_window_update()
        windowed.emit_strategy(strategy).aggregate(
            lambda: 0, lambda key, value, total: total + value, value=int, store="totals", name="totals"
        ).to_stream().to("out")
        ran = run(builder, rows)
        return ran.output(), ran.store("totals"), ran.dropped()

    own, ready = results(Hopping()), results(TimeWindows.of_size_and_grace(10, 5).advance_by(3))
    assert own == ready
    assert len(own[0]) > 20


def test_the_windows_that_stores_tell_have_their_own_ends(run: Run):
    class Told(Processor[Any, Any]):
        def init(self, context: Any) -> None:
            self.context, self.counts = context, context.get_state_store("counts")

        def process(self, record: Record) -> None:
            self.context.forward(record.with_value([list(key.window) for key, _ in self.counts.all()]))

    builder, stream = source(value=str)
    counted = stream.group_by_key().windowed_by(Meals()).count("counts")
    stream.process(Told, "counts").to("told", value=list)
    counted.to_stream().to("out")
    ran = run(builder, [("a", "x", 8), ("a", "x", 12), ("b", "x", 32)])
    assert [value for _, value, _ in ran.output("told")][-1] == [[7, 10], [11, 13], [31, 34]]
    assert [row[0] for row in ran.store("counts")] == [
        Windowed("a", 11, 13),
        Windowed("a", 7, 10),
        Windowed("b", 31, 34),
    ]


def test_a_table_of_such_windows_can_be_grouped_and_joined_on_and_cogrouped(run: Run):
    builder, stream = source(value=int)
    grouped = stream.group_by_key()
    meals = grouped.cogroup(lambda key, value, total: total + value).windowed_by(Meals())
    totals = meals.aggregate(lambda: 0, value=int, store="totals")
    largest = grouped.windowed_by(Meals()).reduce(max, "largest")
    totals.join(largest, lambda total, most: [total, most], value=list).to_stream().to("out", value=list)
    totals.group_by(lambda key, total: (f"{key.start}-{key.end}", total), value=int).reduce(
        lambda total, value: total + value, lambda total, value: total - value
    ).to_stream().to("meals")
    ran = run(builder, [("a", 1, 8), ("b", 2, 9), ("a", 3, 12)], statestore_cache_max_bytes=0)
    assert shown(ran)[-1] == ("a", Window(11, 13), [3, 3], 12)
    assert [(key, value) for key, value, _ in ran.output("meals")] == [("7-10", 1), ("7-10", 3), ("11-13", 3)]


def test_a_time_for_which_the_class_fails_is_a_failure_of_its_record(run: Run):
    class Broken(Windows):
        size = 10

        def windows_for(self, timestamp: int) -> Any:
            if timestamp == 3:
                raise RuntimeError("no such time")
            return [(0, {4: 11, 5: 4}.get(timestamp, 10))]

    builder, stream = source(value=str)
    stream.group_by_key().windowed_by(Broken()).count("counts").to_stream().to("out")
    rows = [("a", "x", 1), ("a", "x", 3), ("a", "x", 4), ("a", "x", 5), ("a", "x", 6)]
    ran = run(builder, rows, on_error="skip")
    assert [row[1:3] for row in shown(ran)] == [(Window(0, 10), 1), (Window(0, 10), 2)]
    assert sum(ran.counted("skipped-records-total").values()) == 3
    with pytest.raises(ProcessingError, match=r"no such time(.|\n)*the function: .*windows_for"):
        run(builder, rows[:2]).output()
    with pytest.raises(ProcessingError, match="from 0 to 11, of 11 ms; size says that the longest one has 10 ms"):
        run(builder, [rows[2]]).output()
    with pytest.raises(ProcessingError, match="from 0 to 4, which does not contain that time"):
        run(builder, [rows[3]]).output()


def test_windows_that_do_not_agree_on_an_end_are_a_failure(run: Run):
    class Unsure(Windows):
        size = 10

        def windows_for(self, timestamp: int) -> Any:
            return [(0, 5 if timestamp == 0 else 10)]

    builder, stream = source(value=str)
    stream.group_by_key().windowed_by(Unsure()).count("counts").to_stream().to("out")
    with pytest.raises(ProcessingError, match=r"windows_for\(0\) one from there to 5; a window has one end"):
        run(builder, [("a", "x", 1)]).output()


# --- where they are written ----------------------------------------------------------------------------------------


def test_their_keys_are_kafkas_bytes_and_the_name_of_the_type_tells_calendars():
    serde = TimeWindowedSerde(STR, CalendarWindows.by_week("Europe/Berlin", first_day="sunday"))
    start = at(2026, 3, 22)
    windowed = Windowed("a", start, at(2026, 3, 29))
    assert serde.encode(windowed) == b"a" + start.to_bytes(8, "big")
    assert serde.name == "windowed[str, week Europe/Berlin sunday]"
    again = from_name(serde.name)
    assert (again, again.decode(serde.encode(windowed))) == (serde, windowed)


def test_without_the_program_only_the_ends_of_a_class_are_unknown():
    builder, stream = source(value=str)
    stream.group_by_key().windowed_by(Meals()).count("counts")
    topology = builder.build()
    told = formats_of(topology)["counts"]
    assert (told.windows, told.window_size, told.ends.of(7)) == (f"{__name__}.Meals(False)", 24, 10)
    with pytest.raises(SerdeError, match=r"the windows other\.Meals are of a class .* knows where the one from 7 ends"):
        from_name("windowed[str, other.Meals]").decode(b"a" + (7).to_bytes(8, "big"))


def test_other_processes_read_the_days_of_a_store_with_their_ends_and_the_windows_of_a_class_by_their_starts(
    tmp_path: Path,
):
    builder, stream = source(value=str)
    grouped = stream.group_by_key()
    grouped.windowed_by(CalendarWindows.by_day("Europe/Berlin")).count("days")
    grouped.windowed_by(Meals()).count("meals")
    world, summer = World(tmp_path, builder.build()), at(2026, 3, 29)
    produce([("a", "x", summer + 12)], "in", value=str, log=world.log, partitions=1)
    world.run()
    with open_store(tmp_path / "checkpoint", "days") as store:
        assert [row[0] for row in store.all()] == [Windowed("a", summer, summer + 23 * HOUR_MS)]
    told = subprocess.run([sys.executable, "-c", READER, str(tmp_path / "checkpoint")], capture_output=True, text=True)
    assert told.stdout.splitlines() == ["[(1774738800011, 1, 1774738800012)]", "only a process that has loaded"]


READER = """
import sys, penstock
with penstock.open_store(sys.argv[1], "meals") as store:
    print(list(store.fetch("a")))
    try:
        list(store.all())
    except penstock.SerdeError as error:
        print(str(error)[str(error).index("only"):][:30])
"""


def test_a_topology_with_them_travels(run: Run):
    builder, stream = source(value=str)
    stream.group_by_key().windowed_by(Meals()).count("counts").to_stream().to("out")
    driver = TopologyTestDriver(cloudpickle.loads(cloudpickle.dumps(builder.build())), statestore_cache_max_bytes=0)
    driver.pipe_input("in", "a", "x", 8)
    assert [record.key for record in driver.read_output("out")] == [Windowed("a", 7, 10)]


def test_the_retention_follows_from_the_largest_window_and_may_not_be_less():
    builder, stream = source(value=str)
    windows = CalendarWindows.by_month("Europe/Berlin", grace="1 day")
    stream.group_by_key().windowed_by(windows).count("counts")
    (node,) = [node for node in builder.build().nodes if node.store is not None]
    assert node.keeps.retention_ms == 32 * DAY_MS + 8 * HOUR_MS
    builder, stream = source(value=str)
    stream.group_by_key().windowed_by(windows).count(materialized=Materialized.as_("x").with_retention("31 days"))
    with pytest.raises(TopologyError, match=r"the store 'x' at .* keeps windows for 2678400000 ms, but windows of"):
        builder.build()


def test_distinct_takes_calendars_and_refuses_classes_that_may_overlap(run: Run):
    builder, stream = source(value=str)
    stream.group_by_key().windowed_by(CalendarWindows.by_day("UTC")).distinct().to_stream().to("out")
    rows = [("a", "x", 1), ("a", "y", 2), ("a", "z", DAY_MS)]
    assert [(window, value) for _, window, value, _ in shown(run(builder, rows))] == [
        (Window(0, DAY_MS), "x"),
        (Window(DAY_MS, 2 * DAY_MS), "z"),
    ]
    with pytest.raises(TopologyError, match="nothing says whether Meals windows overlap"):
        source(value=str)[1].group_by_key().windowed_by(Meals()).distinct()


# --- what is refused -------------------------------------------------------------------------------------------------


def by(windows: Any) -> Any:
    return StreamsBuilder().stream("in", value=str).group_by_key().windowed_by(windows)


def made(name: str, base: type, **members: Any) -> Any:
    return type(name, (base,), members)


ASKED = {"size": 10, "windows_for": lambda self, timestamp: []}


@pytest.mark.parametrize(
    ("windows", "said"),
    [
        (
            lambda: made("W", Windows, **ASKED, windowsFor=lambda self, time: [])(),
            "W defines windowsFor, which would be ignored; did you mean 'windows_for'",
        ),
        (
            lambda: made("W", Windows, **ASKED, gracePeriodMs=lambda self: 5)(),
            "W defines gracePeriodMs, .*did you mean 'grace_period'",
        ),
        (
            lambda: made("W", Windows, **ASKED, until=lambda self, time: self)(),
            "W defines until, which would be ignored",
        ),
        (
            lambda: made("W", TimeWindows, windows_for=lambda self, time: []).of_size_and_grace(10, 0),
            "W extends TimeWindows and defines windows_for, which would be ignored; extend penstock.Windows",
        ),
        (
            lambda: made("W", Windows, size=0, windows_for=ASKED["windows_for"])(),
            "size of W must be positive, got 0 ms",
        ),
        (lambda: made("W", Windows, size="soon", windows_for=ASKED["windows_for"])(), "size of W"),
        (lambda: made("W", Windows, size=1, windows_for=lambda self: [])(), "windows_for of W is to take a timestamp"),
    ],
)
def test_a_class_whose_methods_would_be_ignored_or_cannot_be_is_refused(windows: Any, said: str):
    with pytest.raises(TopologyError, match=said):
        by(windows())


def test_an_async_method_and_a_missing_one_are_refused():
    class Waits(Windows):
        size = 10

        async def windows_for(self, timestamp: int) -> Any:
            return []

    with pytest.raises(TopologyError, match="windows_for of Waits is an async function"):
        by(Waits())
    with pytest.raises(TypeError, match="abstract"):
        made("W", Windows, size=1)()


def test_windows_of_joins_are_not_of_a_class():
    kind = made("Near", JoinWindows, windows_for=lambda self, time: [])
    stream = StreamsBuilder().stream("in", value=str)
    with pytest.raises(TopologyError, match=r"join at .*Near extends JoinWindows and defines windows_for"):
        stream.join(stream, max, kind.of_time_difference_with_no_grace(5))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: CalendarWindows.by_day("Europe/Bärlin"), "there is no time zone 'Europe/Bärlin'"),
        (lambda: CalendarWindows.by_day(2), "a time zone is a name such as 'Europe/Berlin'; got 2"),
        (lambda: CalendarWindows.by_month("UTC", grace=-1), "the grace period must not be negative"),
        (lambda: CalendarWindows.by_week("UTC", first_day="Sonntag"), "first_day must be one of monday, .*'Sonntag'"),
    ],
)
def test_what_no_calendar_has_is_refused(make: Any, said: str):
    with pytest.raises(ConfigError, match=said):
        make()
