"""Topologies of every operator, for tests of what must hold for all of them."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from penstock import (
    ApproxDistinct,
    ApproxQuantile,
    BufferConfig,
    Collect,
    Count,
    Deduplicated,
    EmitStrategy,
    First,
    JoinWindows,
    Last,
    Materialized,
    Max,
    Mean,
    Min,
    NamedAggregate,
    SessionWindows,
    SlidingWindows,
    StreamJoined,
    StreamsBuilder,
    Sum,
    Suppressed,
    TimeWindows,
    TopN,
    Topology,
    UnlimitedWindows,
    Windows,
    columnar,
)
from penstock.dsl.cogrouped import CogroupedKStream
from penstock.dsl.kstream import KStream
from penstock.dsl.ktable import KTable
from penstock.serdes import INT
from penstock.serdes.formats.base import Format, Headers, Opened, Texts

EXAMPLES: dict[str, Callable[[StreamsBuilder], None]] = {}
"""Topologies that read ``in`` and perhaps ``other``, whose keys are text and whose values are small numbers."""

CACHED: list[str] = []
"""Those in which a table that sends its updates to ``out`` reads the input itself."""


TIMED: list[str] = []
"""Those whose results depend on the time of every update, also of those that a cache holds back."""


def timed(build: Callable[[StreamsBuilder], None]) -> Callable[[StreamsBuilder], None]:
    TIMED.append(build.__name__)
    return example(build)


def example(build: Callable[[StreamsBuilder], None]) -> Callable[[StreamsBuilder], None]:
    EXAMPLES[build.__name__] = build
    return build


def cached(build: Callable[[StreamsBuilder], None]) -> Callable[[StreamsBuilder], None]:
    CACHED.append(build.__name__)
    return example(build)


def stream(builder: StreamsBuilder, topic: str = "in") -> KStream:
    return builder.stream(topic, value=int)


def table(builder: StreamsBuilder, **kept: Any) -> KTable:
    return builder.table("in", value=int, **kept)


def at_least_2(key: Any, value: Any) -> bool:
    return value is not None and value >= 2


def letter(key: Any, value: Any) -> Any:
    """A key of few, sometimes none."""
    return None if value is None else "xyz"[value % 3]


def larger(one: int | None, other: int | None) -> int | None:
    """The larger of two, of which windows may hand on none: Kafka Streams leaves out null keys there, not values."""
    return one if other is None else other if one is None else max(one, other)


def add(total: int, value: int) -> int:
    return total + value


def subtract(total: int, value: int) -> int:
    return total - value


# --- without state ---------------------------------------------------------------------------------------------------


@example
def filter(builder: StreamsBuilder) -> None:
    stream(builder).filter(at_least_2).to("out")


@example
def filter_not(builder: StreamsBuilder) -> None:
    stream(builder).filter_not(at_least_2).to("out")


@example
def columnar_filter(builder: StreamsBuilder) -> None:
    @columnar
    def positive(key: Any, value: Any) -> Any:
        return pc.greater(value, 0)

    stream(builder).filter(positive).to("out")


@example
def map(builder: StreamsBuilder) -> None:
    stream(builder).map(lambda key, value: (letter(key, value), key), key=str, value=str).to("out")


@example
def map_values(builder: StreamsBuilder) -> None:
    stream(builder).map_values(lambda key, value: None if value == 3 else f"{key}{value}", value=str).to("out")


@example
def flat_map(builder: StreamsBuilder) -> None:
    stream(builder).flat_map(lambda key, value: [(key, n) for n in range(value or 0)], value=int).to("out")


@example
def flat_map_values(builder: StreamsBuilder) -> None:
    stream(builder).flat_map_values(lambda value: range(value or 0), value=int).to("out")


@example
def select_key(builder: StreamsBuilder) -> None:
    stream(builder).select_key(letter).to("out")


@example
def peek(builder: StreamsBuilder) -> None:
    stream(builder).peek(lambda key, value: None).to("out")


@example
def merge(builder: StreamsBuilder) -> None:
    doubled = stream(builder, "other").map_values(lambda value: value and value * 2, value=int)
    stream(builder).merge(doubled).to("out")


@example
def merge_with_itself(builder: StreamsBuilder) -> None:
    numbers = stream(builder)
    numbers.filter(at_least_2).merge(numbers).to("out")


@example
def split(builder: StreamsBuilder) -> None:
    branches = stream(builder).split("by-").branch(at_least_2, "large").default_branch("rest")
    branches["by-rest"].to("rest")
    branches["by-large"].merge(branches["by-rest"]).to("out")


@example
def repartition(builder: StreamsBuilder) -> None:
    stream(builder).select_key(letter).repartition("moved").to("out")


@example
def a_topic_that_is_read_again(builder: StreamsBuilder) -> None:
    stream(builder).filter(at_least_2).to("other")
    stream(builder, "other").map_values(lambda value: -value if value else value, value=int).to("out")


@example
def time_from_the_value(builder: StreamsBuilder) -> None:
    numbers = builder.stream("in", value=int, timestamp=lambda value: 0 if value is None else 20 * value)
    windows = TimeWindows.of_size_and_grace(20, 10)
    numbers.group_by_key().windowed_by(windows).count("store").to_stream().to("out")


# --- deduplication ---------------------------------------------------------------------------------------------------


@example
def deduplicate_by_key(builder: StreamsBuilder) -> None:
    stream(builder).deduplicate_by_key(10, Deduplicated.with_("store", str, int), dropped_to="dropped").to("out")


@example
def deduplicate_by_key_in_one_instant(builder: StreamsBuilder) -> None:
    stream(builder).deduplicate_by_key(0, Deduplicated.with_("store", str, int)).to("out")


@example
def deduplicate_behind_a_new_key(builder: StreamsBuilder) -> None:
    stream(builder).select_key(letter).deduplicate_by_key(3, Deduplicated.with_("store", str, int)).to("out")


@example
def deduplicate_by_key_value(builder: StreamsBuilder) -> None:
    stream(builder).deduplicate_by_key_value(letter, 10, Deduplicated.with_("store", str, int)).to("out")


@example
def deduplicate(builder: StreamsBuilder) -> None:
    kept = stream(builder).deduplicate(letter, 10, Deduplicated.with_("store", str, int), dropped_to="dropped")
    kept.group_by_key().count("counts").to_stream().to("out")


@example
def deduplicate_what_came_of_one_record(builder: StreamsBuilder) -> None:
    numbers = stream(builder).flat_map_values(lambda value: [n // 2 for n in range(value or 0)], value=int)
    numbers.deduplicate_by_key_value(lambda key, value: value, 5, Deduplicated.with_("store", int, int)).to("out")


# --- tables ----------------------------------------------------------------------------------------------------------


@cached
def table_source(builder: StreamsBuilder) -> None:
    table(builder, store="store").to_stream().to("out")


@example
def table_source_without_a_store(builder: StreamsBuilder) -> None:
    table(builder).to_stream().to("out")


@cached
def to_table(builder: StreamsBuilder) -> None:
    stream(builder).to_table("store").to_stream().to("out")


@example
def to_table_behind_a_new_key(builder: StreamsBuilder) -> None:
    stream(builder).select_key(letter).to_table("store").to_stream().to("out")


@example
def table_filter(builder: StreamsBuilder) -> None:
    table(builder, store="rows").filter(at_least_2).to_stream().to("out")


@example
def table_filter_without_a_store(builder: StreamsBuilder) -> None:
    table(builder).filter_not(at_least_2).to_stream().to("out")


@example
def table_filter_with_a_store_of_its_own(builder: StreamsBuilder) -> None:
    table(builder).filter(at_least_2, store="store").to_stream().to("out")


@example
def table_map_values(builder: StreamsBuilder) -> None:
    table(builder, store="rows").map_values(lambda value: None if value == 2 else value * 10, value=int).filter(
        lambda key, value: value > 10
    ).to_stream().to("out")


@example
def table_map_values_with_a_store_of_its_own(builder: StreamsBuilder) -> None:
    table(builder).map_values(lambda key, value: f"{key}{value}", value=str, store="store").to_stream().to("out")


@example
def to_stream_under_new_keys(builder: StreamsBuilder) -> None:
    table(builder, store="rows").to_stream(lambda key, value: value, key=int).to("out")


# --- versioned tables ------------------------------------------------------------------------------------------------


def versioned(store: str = "store", **limits: Any) -> Materialized:
    return Materialized.as_versioned(store, **{"history_retention": 40, "segment_interval": 7, **limits})


@example
def versioned_table(builder: StreamsBuilder) -> None:
    table(builder, materialized=versioned()).to_stream().to("out")


@example
def versioned_table_in_memory(builder: StreamsBuilder) -> None:
    stream(builder).to_table(materialized=versioned(history_retention=10).in_memory()).to_stream().to("out")


@example
def versioned_table_filtered_and_counted(builder: StreamsBuilder) -> None:
    large = table(builder, materialized=versioned("rows")).filter(at_least_2)
    large.to_stream().to("large")
    groups = large.group_by(lambda key, value: (letter(key, value), value), value=int)
    groups.count(materialized=versioned()).to_stream().to("out")


@example
def unversioned_table_filtered_into_a_versioned_one(builder: StreamsBuilder) -> None:
    table(builder, store="rows").filter(at_least_2, materialized=versioned()).to_stream().to("out")


@example
def aggregate_in_a_versioned_store(builder: StreamsBuilder) -> None:
    def append(key: str, value: int, seen: str) -> str | None:
        return None if value == 3 else f"{seen}{value}"

    kept = versioned(history_retention=20)
    stream(builder).group_by_key().aggregate(str, append, materialized=kept).to_stream().to("out")


# --- streams with tables ---------------------------------------------------------------------------------------------


@example
def stream_table_join(builder: StreamsBuilder) -> None:
    rows = table(builder, store="store").map_values(lambda value: value * 10, value=int)
    stream(builder, "other").left_join(rows, lambda value, other: [value, other], value=list).to("out")


@example
def stream_joined_with_its_own_counts(builder: StreamsBuilder) -> None:
    numbers = stream(builder)
    counts = numbers.group_by_key().count("store").filter(at_least_2)
    numbers.left_join(counts, lambda key, value, count: [key, value, count], value=list).to("out")


@example
def versioned_stream_table_join(builder: StreamsBuilder) -> None:
    rows = table(builder, materialized=versioned()).filter(at_least_2)
    stream(builder, "other").left_join(rows, lambda value, other: [value, other], value=list).to("out")


@example
def stream_table_join_with_grace(builder: StreamsBuilder) -> None:
    rows = table(builder, materialized=versioned())
    numbers = stream(builder, "other")
    numbers.left_join(rows, lambda value, other: [value, other], value=list, grace=10).to("out")
    numbers.join(rows, lambda value, other: value, grace=0).to("at-once")


@example
def stream_table_join_with_grace_by_new_keys(builder: StreamsBuilder) -> None:
    rows = builder.table("other", value=int, materialized=versioned())
    stream(builder).select_key(letter).join(rows, lambda value, other: [value, other], value=list, grace=10).to("out")


@example
def global_table_join(builder: StreamsBuilder) -> None:
    rows = builder.global_table("in", value=int, store="store")
    numbers = stream(builder, "other")
    numbers.left_join(rows, lambda value, other: [value, other], value=list, key_selector=lambda key, value: "a").to(
        "out"
    )
    by_letter = numbers.select_key(letter).repartition("letters")
    by_letter.join(rows, lambda value, other: other, key_selector=lambda key, value: key).to("again")


# --- aggregations ----------------------------------------------------------------------------------------------------


@cached
def count(builder: StreamsBuilder) -> None:
    stream(builder).group_by_key().count("store").to_stream().to("out")


@example
def count_behind_a_new_key(builder: StreamsBuilder) -> None:
    stream(builder).group_by(letter).count("store").to_stream().to("out")


@cached
def count_in_memory(builder: StreamsBuilder) -> None:
    stream(builder).group_by_key().count(materialized=Materialized.as_("store").in_memory()).to_stream().to("out")


@cached
def reduce(builder: StreamsBuilder) -> None:
    sums = stream(builder).group_by_key().reduce(lambda total, n: None if n == 3 else total + n, "store")
    sums.to_stream().to("out")


@cached
def aggregate(builder: StreamsBuilder) -> None:
    def append(key: str, value: int, seen: list[Any]) -> list[Any] | None:
        seen.append([key, value])
        return None if value == 3 else seen

    stream(builder).group_by_key().aggregate(list, append, value=list, store="store").to_stream().to("out")


@dataclass
class Reading:
    number: int
    share: float | None
    letter: str


def reading(number: int | None) -> Reading | None:
    return None if number is None else Reading(number, number / 3 if number else None, "abcd"[number])


NAMED: dict[str, NamedAggregate] = {
    "all": Count(),
    "shares": Count("share"),
    "total": Sum("number"),
    "mean": Mean("share"),
    "sum": Sum(lambda value: value.share),
    "least": Min("letter"),
    "most": Max("share"),
    "first": First("share"),
    "last": Last("letter"),
}
"""Aggregates by name of ``Reading``."""


def readings(builder: StreamsBuilder) -> KStream:
    return stream(builder).map_values(reading, value=Reading)


@cached
def aggregates_by_name(builder: StreamsBuilder) -> None:
    readings(builder).group_by_key().aggregate(store="store", **NAMED).to_stream().to("out")


@example
def aggregates_by_name_of_new_keys_in_a_versioned_store(builder: StreamsBuilder) -> None:
    groups = readings(builder).group_by(lambda key, value: key or "z")
    kept = versioned(history_retention=20)
    groups.aggregate(materialized=kept, total=Sum("number"), last=Last("share")).to_stream().to("out")


@example
def aggregates_by_name_in_windows(builder: StreamsBuilder) -> None:
    windows = TimeWindows.of_size_and_grace(10, 5).advance_by(3)
    readings(builder).group_by_key().windowed_by(windows).aggregate(store="store", **NAMED).to_stream().to("out")


@example
def aggregates_by_name_of_closed_windows(builder: StreamsBuilder) -> None:
    windows = readings(builder).group_by_key().windowed_by(TimeWindows.of_size_and_grace(10, 5))
    final = windows.emit_strategy(EmitStrategy.on_window_close())
    final.aggregate(mean=Mean("number"), least=Min("share")).to_stream().to("out")


@example
def aggregates_by_name_in_sliding_windows(builder: StreamsBuilder) -> None:
    windows = SlidingWindows.of_time_difference_and_grace(5, 5)
    readings(builder).group_by_key().windowed_by(windows).aggregate(store="store", **NAMED).to_stream().to("out")


@example
def aggregates_by_name_in_sessions(builder: StreamsBuilder) -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(4, 20)
    readings(builder).group_by_key().windowed_by(windows).aggregate(store="store", **NAMED).to_stream().to("out")


@example
def aggregates_by_name_of_a_table(builder: StreamsBuilder) -> None:
    rows = readings(builder).to_table(store="rows")
    groups = rows.group_by(lambda key, value: (value.letter, value), key=str)
    stats = {"n": Count("share"), "total": Sum("number"), "mean": Mean("number"), "all": Collect("number")}
    groups.aggregate(store="store", **stats).to_stream().to("out")


@example
def top_records_and_collected_values_of_sessions(builder: StreamsBuilder) -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(4, 20)
    groups = readings(builder).group_by_key().windowed_by(windows)
    groups.aggregate(store="store", top=TopN(2, by="share"), all=Collect("letter", limit=3)).to_stream().to("out")


@example
def sketches_in_hopping_windows(builder: StreamsBuilder) -> None:
    groups = readings(builder).group_by_key().windowed_by(TimeWindows.of_size_and_grace(10, 5).advance_by(4))
    sketches = {"letters": ApproxDistinct("letter"), "half": ApproxQuantile("share", 0.5)}
    groups.aggregate(store="store", **sketches).to_stream().to("out")


@example
def sketches_of_sessions(builder: StreamsBuilder) -> None:
    groups = readings(builder).group_by_key().windowed_by(SessionWindows.of_inactivity_gap_and_grace(4, 20))
    groups.aggregate(letters=ApproxDistinct("letter"), half=ApproxQuantile("number", 0.5)).to_stream().to("out")


@example
def aggregates_by_name_grouped_again(builder: StreamsBuilder) -> None:
    stats = readings(builder).group_by_key().aggregate(mean=Mean("number"), last=Last("number"))
    stats.group_by(lambda key, stat: (str(stat.last), stat.mean), value=float).count("store").to_stream().to("out")


@cached
def tumbling_windows(builder: StreamsBuilder) -> None:
    windows = TimeWindows.of_size_and_grace(10, 5)
    stream(builder).group_by_key().windowed_by(windows).count("store").to_stream().to("out")


@cached
def hopping_windows(builder: StreamsBuilder) -> None:
    windows = TimeWindows.of_size_and_grace(10, 5).advance_by(3)
    sums = stream(builder).group_by_key().windowed_by(windows).reduce(lambda total, n: (total or 0) + (n or 0), "store")
    sums.to_stream().to("out")


@example
def windows_behind_a_new_key(builder: StreamsBuilder) -> None:
    windows = TimeWindows.of_size_with_no_grace(10).advance_by(5)
    kept = Materialized.as_("store").in_memory()
    numbers = stream(builder).group_by(letter).windowed_by(windows)
    numbers.aggregate(str, lambda k, v, seen: f"{seen}{v}", value=str, materialized=kept).to_stream().to("out")


@example
def windows_that_are_grouped_again(builder: StreamsBuilder) -> None:
    windows = TimeWindows.of_size_and_grace(10, 5)
    counts = stream(builder).group_by_key().windowed_by(windows).count("counts")
    by_key = counts.group_by(lambda window, n: (window.key, n), value=int)
    by_key.reduce(add, subtract, "store").to_stream().to("out")


class Unequal(Windows):
    """Windows of 3 and of 7 in turn, each with the first moment of the next one; nothing from 80 to 90."""

    size = 8
    grace_period = 5

    def windows_for(self, timestamp: int) -> Any:
        if not 80 <= timestamp < 90:
            first = timestamp // 10 * 10
            windows = [(first - 7, first + 1), (first, first + 4), (first + 3, first + 11)]
            return [(start, end) for start, end in windows if 0 <= start <= timestamp < end]
        return []


@example
def windows_of_a_class(builder: StreamsBuilder) -> None:
    stream(builder).group_by_key().windowed_by(Unequal()).count("store").to_stream().to("out")


@timed
def windows_of_a_class_once_they_have_closed(builder: StreamsBuilder) -> None:
    windows = stream(builder).group_by_key().windowed_by(Unequal())
    windows.emit_strategy(EmitStrategy.on_window_close()).count("store").to_stream().to("out")


@example
def windows_of_a_class_suppressed(builder: StreamsBuilder) -> None:
    counts = stream(builder).group_by_key().windowed_by(Unequal()).reduce(larger, "store")
    counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())).to_stream().to("out")


@cached
def unlimited_windows(builder: StreamsBuilder) -> None:
    windows = UnlimitedWindows.of().start_on(5)
    stream(builder).group_by_key().windowed_by(windows).count("store").to_stream().to("out")


@cached
def sessions(builder: StreamsBuilder) -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(4, 6)
    stream(builder).group_by_key().windowed_by(windows).count("store").to_stream().to("out")


@cached
def sessions_of_texts(builder: StreamsBuilder) -> None:
    windows = SessionWindows.of_inactivity_gap_with_no_grace(5)
    texts = stream(builder).group_by_key().windowed_by(windows)
    texts.aggregate(
        str, lambda k, v, seen: None if v == 3 else f"{seen}{v}", lambda k, a, b: f"{a}/{b}", value=str, store="store"
    ).to_stream().to("out")


@example
def sessions_in_memory_with_a_long_retention(builder: StreamsBuilder) -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(2, 1)
    kept = Materialized.as_("store").in_memory().with_retention(200)
    numbers = stream(builder).group_by(letter).windowed_by(windows)
    numbers.reduce(lambda total, n: (total or 0) + (n or 0), materialized=kept).to_stream().to("out")


@example
def sessions_that_are_grouped_again(builder: StreamsBuilder) -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(3, 100)
    every_update = Materialized.as_("counts").with_caching_disabled()  # only then is the result independent of commits
    counts = stream(builder).group_by_key().windowed_by(windows).count(materialized=every_update)
    by_key = counts.group_by(lambda window, n: (window.key, n), value=int)
    by_key.reduce(add, subtract, materialized=Materialized.as_("store").with_caching_disabled()).to_stream().to("out")


@example
def sessions_until(builder: StreamsBuilder) -> None:
    with warnings.catch_warnings(action="ignore"):
        windows = SessionWindows.inactivity_gap(4).until(10)
    stream(builder).group_by_key().count(windows=windows, store="store").to_stream().to("out")


@cached
def sliding_windows(builder: StreamsBuilder) -> None:
    windows = SlidingWindows.of_time_difference_and_grace(5, 8)
    stream(builder).group_by_key().windowed_by(windows).count("store").to_stream().to("out")


@example
def short_sliding_windows(builder: StreamsBuilder) -> None:
    windows = SlidingWindows.of_time_difference_and_grace(1, 10)
    stream(builder).group_by_key().windowed_by(windows).count("sliding").to_stream().to("out")


@example
def short_sliding_windows_of_totals(builder: StreamsBuilder) -> None:
    windows = SlidingWindows.of_time_difference_and_grace(2, 6)
    stream(builder).group_by_key().windowed_by(windows).reduce(add).to_stream().to("out")


@example
def sliding_windows_of_texts(builder: StreamsBuilder) -> None:
    windows = SlidingWindows.of_time_difference_with_no_grace(7)
    kept = Materialized.as_("store").in_memory()
    texts = stream(builder).group_by(letter).windowed_by(windows)
    texts.aggregate(
        str, lambda k, v, seen: None if v == 3 else f"{seen}{v}", value=str, materialized=kept
    ).to_stream().to("out")


@example
def final_windows(builder: StreamsBuilder) -> None:
    windows = TimeWindows.of_size_and_grace(10, 3).advance_by(4)
    final = stream(builder).group_by_key().windowed_by(windows).emit_strategy(EmitStrategy.on_window_close())
    final.count("store").to_stream().to("out")


@example
def final_windows_far_back(builder: StreamsBuilder) -> None:
    windows = TimeWindows.of_size_with_no_grace(5)
    final = stream(builder).group_by_key().windowed_by(windows).emit_strategy(EmitStrategy.on_window_close())
    final.reduce(larger, materialized=Materialized.as_("store").with_retention("1 day")).to_stream().to("out")


@example
def final_sliding_windows(builder: StreamsBuilder) -> None:
    windows = SlidingWindows.of_time_difference_and_grace(5, 2)
    final = stream(builder).group_by_key().windowed_by(windows).emit_strategy(EmitStrategy.on_window_close())
    final.count("store").to_stream().to("out")


@example
def final_sessions(builder: StreamsBuilder) -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(3, 2)
    final = stream(builder).group_by_key().windowed_by(windows).emit_strategy(EmitStrategy.on_window_close())
    final.count("store").to_stream().to("out")


@example
def final_sessions_that_are_kept(builder: StreamsBuilder) -> None:
    windows = SessionWindows.of_inactivity_gap_with_no_grace(3)
    kept = Materialized.as_("store").in_memory().with_retention(50)
    final = stream(builder).group_by_key().windowed_by(windows).emit_strategy(EmitStrategy.on_window_close())
    final.count(materialized=kept).to_stream().to("out")


def joined_with(mark: str) -> Callable[[Any, Any, Any], str]:
    return lambda key, value, seen: f"{seen}{mark}{value}"


def two_groups(builder: StreamsBuilder) -> CogroupedKStream:
    one, other = stream(builder).group_by_key(), stream(builder, "other").group_by_key()
    return one.cogroup(joined_with("+")).cogroup(other, joined_with("-"))


@cached
def cogroup(builder: StreamsBuilder) -> None:
    two_groups(builder).aggregate(str, value=str, store="store").to_stream().to("out")


@example
def cogroup_in_windows(builder: StreamsBuilder) -> None:
    windows = TimeWindows.of_size_and_grace(10, 5).advance_by(5)
    two_groups(builder).windowed_by(windows).aggregate(str, value=str, store="store").to_stream().to("out")


@example
def cogroup_in_sliding_windows(builder: StreamsBuilder) -> None:
    windows = SlidingWindows.of_time_difference_and_grace(4, 5)
    two_groups(builder).windowed_by(windows).aggregate(str, value=str, store="store").to_stream().to("out")


@example
def cogroup_in_sessions(builder: StreamsBuilder) -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(4, 5)
    texts = two_groups(builder).windowed_by(windows)
    texts.aggregate(str, lambda key, a, b: f"{a}/{b}", value=str, store="store").to_stream().to("out")


@example
def distinct_in_windows(builder: StreamsBuilder) -> None:
    windows = TimeWindows.of_size_and_grace(5, 10)
    stream(builder).group_by_key().windowed_by(windows).distinct(Materialized.as_("store")).to_stream().to("out")


@example
def distinct_in_sessions(builder: StreamsBuilder) -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(3, 10)
    stream(builder).group_by_key().windowed_by(windows).distinct(Materialized.as_("store")).to_stream().to("out")


@example
def distinct_of_new_keys(builder: StreamsBuilder) -> None:
    groups = stream(builder).group_by(letter)
    groups.windowed_by(TimeWindows.of_size_and_grace(5, 10)).distinct().to_stream().to("out")
    sessions = SessionWindows.of_inactivity_gap_and_grace(3, 10)
    groups.windowed_by(sessions).distinct().to_stream().to("sessions")


@example
def table_count(builder: StreamsBuilder) -> None:
    groups = table(builder).group_by(lambda key, value: (letter(key, value), key), value=str)
    groups.count("store").to_stream().to("out")


@example
def table_reduce(builder: StreamsBuilder) -> None:
    groups = table(builder, store="rows").group_by(lambda key, value: (letter(key, value), value), value=int)
    groups.reduce(add, subtract, "store").to_stream().to("out")


@example
def table_aggregate(builder: StreamsBuilder) -> None:
    groups = table(builder).filter(at_least_2).group_by(lambda key, value: ("all", f"{key}{value}"), value=str)
    groups.aggregate(
        list,
        lambda key, value, seen: [*seen, value],
        lambda key, value, seen: [one for one in seen if one != value],
        value=list,
        store="store",
    ).to_stream().to("out")


@example
def three_stages(builder: StreamsBuilder) -> None:
    per_letter = stream(builder).group_by(letter).count("counts")
    per_count = per_letter.group_by(lambda key, n: (n % 2 if n else None, key), key=int, value=str)
    per_count.count("store").to_stream().to("out")


@example
def two_tables_from_one_stream(builder: StreamsBuilder) -> None:
    numbers = stream(builder)
    numbers.group_by_key().count("counts").to_stream().to("out")
    numbers.group_by_key().reduce(max, "store").to_stream().to("largest")


@timed
def final_results(builder: StreamsBuilder) -> None:
    windows = TimeWindows.of_size_and_grace(10, 5)
    counts = stream(builder).group_by_key().windowed_by(windows).count("store")
    counts.suppress(Suppressed.until_window_closes()).to_stream().to("out")


@timed
def final_results_that_spill(builder: StreamsBuilder) -> None:
    windows = TimeWindows.of_size_and_grace(10, 5)
    counts = stream(builder).group_by_key().windowed_by(windows).count("store")
    buffer = BufferConfig.max_records(1).spill_to_disk_when_full()
    counts.suppress(Suppressed.until_window_closes(buffer)).to_stream().to("out")


@timed
def rate_limit_that_spills(builder: StreamsBuilder) -> None:
    held_back(builder, 7, BufferConfig.max_records(1).spill_to_disk_when_full())


def held_back(builder: StreamsBuilder, time: int, buffer: BufferConfig) -> None:
    held = table(builder).suppress(Suppressed.until_time_limit(time, buffer))
    groups = held.group_by(lambda key, value: (letter(key, value), value), value=int)
    groups.reduce(add, subtract, "store").to_stream().to("out")


@timed
def rate_limit(builder: StreamsBuilder) -> None:
    held_back(builder, 7, BufferConfig.unbounded())


@timed
def rate_limit_in_few_records(builder: StreamsBuilder) -> None:
    held_back(builder, 20, BufferConfig.max_records(2))


@timed
def rate_limit_in_few_bytes(builder: StreamsBuilder) -> None:
    held_back(builder, 50, BufferConfig.max_bytes(110))


@timed
def no_rate_limit(builder: StreamsBuilder) -> None:
    held_back(builder, 0, BufferConfig.unbounded())


# --- joins of tables -------------------------------------------------------------------------------------------------


def pair(left: Any, right: Any) -> str:
    return f"{left}|{right}"


def other_table(builder: StreamsBuilder, **kept: Any) -> KTable:
    return builder.table("other", value=int, **kept)


@example
def table_join(builder: StreamsBuilder) -> None:
    table(builder).join(other_table(builder), pair, value=str).to_stream().to("out")


@example
def table_left_join_kept_in_a_store_and_grouped(builder: StreamsBuilder) -> None:
    joined = table(builder).left_join(other_table(builder), pair, value=str, store="joined")
    joined.to_stream().to("out")
    joined.group_by(lambda key, value: (value[0], value), value=str).count().to_stream().to("counts")


@example
def table_outer_join_of_tables_without_stores(builder: StreamsBuilder) -> None:
    doubled = table(builder).map_values(lambda value: 2 * value, value=int)
    small = other_table(builder).filter_not(at_least_2)
    joined = doubled.outer_join(small, pair, value=str)
    joined.outer_join(table_of_last(builder), pair, value=str).to_stream().to("out")


def table_of_last(builder: StreamsBuilder) -> KTable:
    return stream(builder, "third").group_by_key().reduce(lambda last, value: value)


@example
def table_join_with_itself(builder: StreamsBuilder) -> None:
    numbers = table(builder)
    kept = numbers.filter(at_least_2, store="kept")
    numbers.map_values(lambda value: value + 1, value=int).left_join(kept, pair, value=str).to_stream().to("out")


def counted(joined: KTable) -> None:
    """Count all rows of a join: wrong when what is taken out is not what was added."""
    groups = joined.group_by(lambda key, value: ("all", value), value=str)
    groups.count("counts").to_stream().to("counts")


@example
def table_join_that_is_counted(builder: StreamsBuilder) -> None:
    joined = table(builder).join(other_table(builder).filter(at_least_2), pair, value=str)
    counted(joined)
    joined.outer_join(table_of_last(builder), pair, value=str).to_stream().to("out")


@example
def table_join_with_a_table_that_caches_nothing(builder: StreamsBuilder) -> None:
    at_once = Materialized.as_("at-once").with_caching_disabled()
    joined = table(builder).outer_join(other_table(builder, materialized=at_once), pair, value=str)
    counted(joined)
    joined.to_stream().to("out")


@example
def versioned_table_of_joined_tables(builder: StreamsBuilder) -> None:
    joined = table(builder).join(other_table(builder), pair, value=str, materialized=versioned())
    joined.to_stream().to("out")


@timed
def table_join_with_a_suppressed_table(builder: StreamsBuilder) -> None:
    limited = other_table(builder).suppress(Suppressed.until_time_limit(10, BufferConfig.max_records(2)))
    table(builder).outer_join(limited, pair, value=str).to_stream().to("out")


@example
def table_join_of_versioned_tables(builder: StreamsBuilder) -> None:
    left = table(builder, materialized=Materialized.as_versioned("left", 40))
    right = other_table(builder, materialized=Materialized.as_versioned("right", 40))
    left.outer_join(right, pair, value=str).to_stream().to("out")


@example
def complete_join_of_versioned_tables(builder: StreamsBuilder) -> None:
    left = table(builder, materialized=versioned("left")).filter(at_least_2)
    right = other_table(builder, materialized=versioned("right", history_retention=15))
    joined = left.left_join(right, pair, value=str, versioned_join="complete")
    kept = joined.outer_join(
        right, pair, value=str, materialized=versioned("kept", history_retention=25), versioned_join="complete"
    )
    kept.to_stream().to("out")
    joined.group_by(lambda key, value: (value[0], value), value=str).count().to_stream().to("counts")
    stream(builder, "third").join(joined, pair, value=str).to("looked_up")


@example
def table_join_of_windows(builder: StreamsBuilder) -> None:
    windows = TimeWindows.of_size_and_grace(5, 10)
    left, right = (stream(builder, topic).group_by_key().windowed_by(windows).count() for topic in ("in", "other"))
    left.outer_join(right, pair, value=str).to_stream(lambda key, value: str(key), key=str).to("out")


@example
def table_join_of_distinct_windows(builder: StreamsBuilder) -> None:
    windows = TimeWindows.of_size_and_grace(5, 10)
    left, right = (stream(builder, topic).group_by_key().windowed_by(windows).distinct() for topic in ("in", "other"))
    left.outer_join(right, pair, value=str).to_stream(lambda key, value: str(key), key=str).to("out")


@example
def table_join_of_sliding_windows(builder: StreamsBuilder) -> None:
    windows = SlidingWindows.of_time_difference_and_grace(5, 10)
    left, right = (stream(builder, topic).group_by_key().windowed_by(windows).count() for topic in ("in", "other"))
    left.outer_join(right, pair, value=str).to_stream(lambda key, value: str(key), key=str).to("out")


@example
def table_join_of_final_sessions(builder: StreamsBuilder) -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(5, 2)
    left, right = (stream(builder, topic).group_by_key().windowed_by(windows) for topic in ("in", "other"))
    final = right.emit_strategy(EmitStrategy.on_window_close()).count()
    left.count().outer_join(final, pair, value=str).to_stream(lambda key, value: str(key), key=str).to("out")


@example
def table_join_of_sessions(builder: StreamsBuilder) -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(5, 10)
    left, right = (stream(builder, topic).group_by_key().windowed_by(windows).count() for topic in ("in", "other"))
    left.left_join(right, pair, value=str).to_stream(lambda key, value: str(key), key=str).to("out")


def first_letter(key: Any, value: Any) -> str:
    return "abc"[value % 3]


@timed  # its stores number the changes
def table_join_by_foreign_key(builder: StreamsBuilder) -> None:
    joined = table(builder).join(other_table(builder), pair, value=str, foreign_key=first_letter, store="joined")
    joined.to_stream().to("out")


@timed  # its stores number the changes
def table_left_join_by_foreign_key_of_tables_without_stores(builder: StreamsBuilder) -> None:
    left, right = table(builder).filter(at_least_2), other_table(builder).map_values(lambda value: value + 1, value=int)
    joined = left.left_join(right, pair, value=str, foreign_key=lambda value: None if value == 3 else "a")
    joined.group_by(lambda key, value: (value[0], value), value=str).count().to_stream().to("out")


@timed
def table_join_by_foreign_key_of_a_table_joined_with_itself(builder: StreamsBuilder) -> None:
    here, other = table(builder).filter(at_least_2), other_table(builder)
    pairs = here.join(here, lambda value, same: value + same, value=int)
    pairs.join(other, pair, value=str, foreign_key=first_letter).to_stream().to("out")


@timed
def table_join_by_foreign_key_behind_joins_and_groups(builder: StreamsBuilder) -> None:
    here, there = table(builder), other_table(builder)
    both = here.outer_join(there, lambda one, other: (one or 0) + (other or 0), value=int)
    totals = here.group_by(lambda key, value: (first_letter(key, value), value), value=int).reduce(add, subtract)
    joined = both.left_join(totals, lambda n, total: pair(n, total or 0), value=str, foreign_key=first_letter)
    counted(joined)
    joined.to_stream().to("out")


@timed
def table_join_by_foreign_key_of_windows(builder: StreamsBuilder) -> None:
    windows = stream(builder).group_by_key().windowed_by(TimeWindows.of_size_and_grace(10, 2)).count()
    joined = windows.left_join(other_table(builder), pair, value=str, foreign_key=lambda count: "ab"[count % 2])
    joined.to_stream().to("out")


@timed
def table_join_by_foreign_key_of_sessions(builder: StreamsBuilder) -> None:
    sessions = stream(builder).group_by_key().windowed_by(SessionWindows.of_inactivity_gap_and_grace(2, 3)).count()
    joined = sessions.join(other_table(builder), pair, value=str, foreign_key=lambda count: "ab"[count % 2])
    joined.to_stream().to("out")


# --- joins of streams ------------------------------------------------------------------------------------------------


def joined_streams(builder: StreamsBuilder, method: str, windows: JoinWindows, **options: Any) -> None:
    left, right = stream(builder), stream(builder, "other")
    getattr(left, method)(right, pair, windows, value=str, **options).to("out")


@timed
def stream_join(builder: StreamsBuilder) -> None:
    joined_streams(builder, "join", JoinWindows.of_time_difference_with_no_grace(5))


@timed
def stream_left_join(builder: StreamsBuilder) -> None:
    joined_streams(builder, "left_join", JoinWindows.of_time_difference_and_grace(5, 10))


@timed
def stream_outer_join_in_memory(builder: StreamsBuilder) -> None:
    windows = JoinWindows.of_time_difference_and_grace(4, 3).before(9)
    joined_streams(builder, "outer_join", windows, stream_joined=StreamJoined.as_("kept").in_memory())


@timed
def stream_join_with_itself(builder: StreamsBuilder) -> None:
    numbers = stream(builder)
    numbers.outer_join(numbers, pair, JoinWindows.of_time_difference_with_no_grace(3), value=str).to("out")


@timed
def stream_join_with_itself_behind_new_keys(builder: StreamsBuilder) -> None:
    numbers = stream(builder).flat_map(lambda key, value: [("x", value), ("x", value)], key=str, value=int)
    numbers.outer_join(numbers, pair, JoinWindows.of_time_difference_with_no_grace(3), value=str).to("out")


# --- all of them -----------------------------------------------------------------------------------------------------

from support import (  # noqa: E402  (they are among the examples)
    topologies_of_cycles,  # noqa: F401
    topologies_of_processors,  # noqa: F401
    topologies_of_stores,  # noqa: F401
)


def topology_of(name: str) -> Topology:
    builder = StreamsBuilder()
    EXAMPLES[name](builder)
    return builder.build()


@example
def topics_and_partitions_by_choice(builder: StreamsBuilder) -> None:
    chosen = stream(builder).repartition(partitioner=lambda key, value, partitions: (value or 0) % partitions)
    chosen.to(lambda key, value, context: "out" if context.offset % 3 else "aside")
    listed = chosen.map_values(lambda value: [value], value=list)
    listed.to("twice", partitioner=lambda topic, key, value, n: {0} if key else [])


# --- awaited calls ---------------------------------------------------------------------------------------------------


async def _keyed(key: str, value: int) -> str | None:
    await asyncio.sleep(0)
    return None if value == 3 else f"{key}{value}"


async def _are_large(keys: list[str], values: list[int]) -> list[bool]:
    return [at_least_2(key, value) for key, value in zip(keys, values, strict=True)]


@example
def map_values_async(builder: StreamsBuilder) -> None:
    stream(builder).map_values_async(_keyed, value=str, capacity=2).to("out")


@example
def filter_async(builder: StreamsBuilder) -> None:
    stream(builder).filter_async(_are_large, batch=2).group_by(letter).count("counts").to_stream().to("out")


# --- envelopes -------------------------------------------------------------------------------------------------------


class _Numbers(Format):
    """Numbers, of which 0 has no row and 3 has two."""

    def __init__(self, has_keys: bool) -> None:
        super().__init__("numbers", dict, written=INT)
        self.has_keys = has_keys

    def all(self, texts: Texts) -> Opened | None:
        return None if {b"0", b"3"} & set(texts) else Opened([_row_of(text) for text in texts])

    def one(self, text: bytes | None, headers: Headers) -> Texts:
        return [] if text == b"0" else [_row_of(text)] * (2 if text == b"3" else 1)


def _row_of(text: bytes | None) -> bytes | None:
    return None if text is None else b'{"n":' + text + b"}"


@example
def unwrap(builder: StreamsBuilder) -> None:
    builder.stream("in", format=_Numbers(False)).to("out")


@example
def unwrap_record(builder: StreamsBuilder) -> None:
    builder.table("in", key=str, format=_Numbers(True), store="rows").to_stream().to("out")
