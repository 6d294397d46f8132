"""Topologies in which what a record sends comes back to where such records are read."""

from __future__ import annotations

from typing import Any

from penstock import JoinWindows, StreamsBuilder, TimeWindows
from support.topologies import at_least_2, example, larger, letter, pair, stream, table, timed
from support.topologies_of_processors import Counter, counts


def by_value(key: Any, value: Any) -> Any:
    """A key that is one of those of the input; none for some."""
    return None if value is None else "abc"[value % 3]


@timed
def stream_join_with_its_own_records_under_new_keys(builder: StreamsBuilder) -> None:
    numbers = stream(builder)
    windows = JoinWindows.of_time_difference_and_grace(20, 10)
    numbers.join(numbers.select_key(by_value, key=str), pair, windows, value=str).to("out")


@timed
def stream_outer_join_with_its_own_records_under_new_keys(builder: StreamsBuilder) -> None:
    numbers = stream(builder)
    windows = JoinWindows.of_time_difference_and_grace(20, 0)
    numbers.select_key(by_value, key=str).outer_join(numbers, pair, windows, value=str).to("out")


@example
def stream_left_join_with_a_count_of_itself(builder: StreamsBuilder) -> None:
    numbers = stream(builder)
    numbers.left_join(numbers.group_by(by_value, key=str).count("counts"), pair, value=str).to("out")


@example
def merge_with_its_own_records_under_new_keys(builder: StreamsBuilder) -> None:
    numbers = stream(builder)
    both = numbers.merge(numbers.select_key(by_value, key=str).repartition())
    windows = TimeWindows.of_size_and_grace(10, 0)
    both.group_by_key().windowed_by(windows).reduce(larger, "largest").to_stream().to("out")


@example
def cogroup_of_a_stream_by_key_and_by_value(builder: StreamsBuilder) -> None:
    numbers = stream(builder)
    by_key = numbers.group_by_key(name="keys").cogroup(lambda key, value, text: f"{text}+{value}"[-20:])
    both = by_key.cogroup(numbers.group_by(by_value, key=str, name="values"), lambda key, value, text: f"{text}-"[-20:])
    both.aggregate(str, value=str, store="texts").to_stream().to("out")


@example
def table_join_with_a_count_of_its_rows(builder: StreamsBuilder) -> None:
    rows = table(builder)
    counts = rows.group_by(lambda key, value: (by_value(key, value), value), key=str, value=int).count("counts")
    joined = rows.left_join(counts, pair, value=str, store="joined")
    joined.to_stream().to("out")
    stream(builder, "other").left_join(joined, pair, value=str).to("aside")


@example
def table_join_with_itself_by_foreign_key(builder: StreamsBuilder) -> None:
    rows = table(builder)
    joined = rows.left_join(rows, pair, foreign_key=lambda value: by_value(None, value), value=str, store="joined")
    joined.to_stream().to("out")
    stream(builder, "other").left_join(joined, pair, value=str).to("aside")


@example
def cycle_of_two_sub_topologies(builder: StreamsBuilder) -> None:
    """The way back leads through a count of another sub-topology, under the third key."""
    numbers = stream(builder)
    counts = numbers.group_by(letter, key=str).count("counts").to_stream()
    back = counts.map(lambda key, count: (by_value(key, count), count), key=str, value=int).to_table("back")
    numbers.left_join(back, pair, value=str).to("out")


@example
def cycle_in_a_cycle(builder: StreamsBuilder) -> None:
    """What comes of a stream and its own records goes around once more."""
    numbers = stream(builder)
    first = numbers.left_join(numbers.group_by(by_value, key=str).count("counts"), max_of, value=int)
    again = first.group_by(by_value, key=str).reduce(lambda one, other: one * 10 % 1000 + other, "again")
    numbers.left_join(again, pair, value=str).to("out")


def max_of(value: int, count: int | None) -> int:
    return value + (count or 0)


@example
def two_cycles_one_behind_the_other(builder: StreamsBuilder) -> None:
    numbers = stream(builder)
    joined = numbers.left_join(numbers.group_by(by_value, key=str).count("counts"), max_of, value=int)
    second = joined.select_key(letter, key=str).repartition()
    second.left_join(second.group_by(by_value, key=str).count("more"), pair, value=str).to("out")


@example
def cycle_behind_an_aggregation_in_front_of_another(builder: StreamsBuilder) -> None:
    sums = stream(builder).group_by(letter, key=str).count("letters").to_stream()
    joined = sums.left_join(sums.group_by(by_value, key=str).count("counts"), pair, value=str)
    joined.group_by(lambda key, value: value[-1], key=str).count("last").to_stream().to("out")


@example
def filtered_on_the_way_around(builder: StreamsBuilder) -> None:
    numbers = stream(builder)
    back = numbers.filter(at_least_2).flat_map(lambda key, value: [("a", value), ("b", value), ("c", 1)], key=str)
    sums = back.repartition().group_by_key().reduce(lambda one, other: one + other, "sums")
    numbers.join(sums, pair, value=str).to("out")


@example
def processor_in_a_cycle(builder: StreamsBuilder) -> None:
    """A processor that counts what it gets straight away, and what comes back of that."""
    counts(builder)
    numbers = stream(builder)
    back = numbers.select_key(by_value, key=str).repartition()
    numbers.merge(back).process(Counter, "counts", value=int).to("out")


@example
def processors_in_a_cycle_that_share_a_store(builder: StreamsBuilder) -> None:
    counts(builder, in_memory=True)
    counted = stream(builder).process(Counter, "counts", value=int)
    counted.to("out")
    counted.select_key(by_value, key=str).repartition().process(Counter, "counts", value=int).to("others")
