"""Processors that share a store with a step of the DSL: records go depth first, as in Kafka Streams."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import (
    STREAM_TIME,
    Materialized,
    ProcessingError,
    Processor,
    Record,
    SessionWindows,
    Stores,
    TimeWindows,
    ValueAndTimestamp,
)
from support.flows import Run, source

pytestmark = pytest.mark.kip("KS-01", "KS-03")


def value_of(store: Any, key: Any) -> Any:
    found = store.get(key)
    return found and found.value


def looking(stream: Any, look: Any = value_of, store: str = "counts", **types: Any) -> Any:
    """What a store has for each key of a stream, when it comes."""

    def process(record: Record, context: Any) -> None:
        context.forward(record.with_value(look(context.get_state_store(store), record.key)))

    return stream.process(process, store, **(types or {"value": int}))


def twice(stream: Any) -> Any:
    return stream.flat_map_values(lambda value: [value, value], value=str)


def values(ran: Any, topic: str = "out") -> list[Any]:
    return [value for _, value, _ in ran.output(topic)]


ROWS = [("a", "x", 0), ("b", "x", 1), ("a", "x", 2)]


def test_of_several_counts_that_one_record_makes_each_is_sent_on_before_the_next(run: Run):
    builder, stream = source(value=str)
    table = twice(stream).group_by_key().count("counts")
    looking(table.to_stream()).to("out")
    assert run(builder, ROWS).output() == [
        ("a", 1, 0),
        ("a", 2, 0),
        ("b", 1, 1),
        ("b", 2, 1),
        ("a", 3, 2),
        ("a", 4, 2),
    ]


def test_a_processor_beside_the_step_finds_what_that_has_done_until_its_record_comes(run: Run):
    builder, stream = source(value=str)
    several = twice(stream)
    looking(several).to("before")
    several.group_by_key().count("counts")
    looking(several).to("out")
    ran = run(builder, ROWS)
    assert values(ran, "before") == [None, 1, None, 1, 2, 3]
    assert values(ran) == [1, 2, 1, 2, 3, 4]


def test_of_a_record_in_several_windows_each_is_written_when_its_result_goes_on(run: Run):
    builder, stream = source(value=str)
    windows = TimeWindows.of_size_with_no_grace(10).advance_by(5)
    counts = stream.group_by_key().windowed_by(windows).count("counts")

    def starts(store: Any, key: Any) -> list[Any]:
        return [[start, count.value] for start, count in store.fetch(key, 0, 20)]

    looking(counts.to_stream(lambda key, count: key.key, key=str), starts, value=list).to("out")
    assert values(run(builder, [("a", "x", 7), ("a", "x", 8)])) == [
        [[0, 1]],
        [[0, 1], [5, 1]],
        [[0, 2], [5, 1]],
        [[0, 2], [5, 2]],
    ]


def test_sessions_that_merge_go_one_by_one_before_the_new_one_comes(run: Run):
    builder, stream = source(value=str)
    sessions = SessionWindows.of_inactivity_gap_and_grace(5, 100)
    counts = stream.group_by_key().windowed_by(sessions).count("counts")

    def found(store: Any, key: Any) -> list[Any]:
        return [[session.start, session.end, count] for session, count in store.find_sessions(key)]

    looking(counts.to_stream(lambda key, count: key.key, key=str), found, value=list).to("out")
    assert values(run(builder, [("a", "x", 0), ("a", "x", 8), ("a", "x", 4)])) == [
        [[0, 0, 1]],
        [[0, 0, 1], [8, 8, 1]],
        [[8, 8, 1]],
        [],
        [[0, 8, 3]],
    ]


def test_a_versioned_count_that_a_stream_joins_is_there_for_the_processor_beside_the_join(run: Run):
    builder, stream = source(value=str)
    versioned = Materialized.as_versioned("counts", history_retention="1 minute")
    counts = stream.group_by_key().count(materialized=versioned)
    stream.left_join(counts, lambda value, count: count, value=int, grace=5).to("joined")
    looking(stream).to("out")
    ran = run(builder, [("a", "x", 0), ("a", "x", 1), ("a", "x", 10)])
    assert ran.output() == [("a", 1, 0), ("a", 2, 1), ("a", 3, 10)]
    assert ran.output("joined") == [("a", 1, 0), ("a", 2, 1)]


def test_forward_is_over_when_all_is_done_behind_it(run: Run):
    class Asking(Processor):
        """Forwards each record to be counted, twice, and the count behind each."""

        def init(self, context: Any) -> None:
            self.context, self.store = context, context.get_state_store("counts")

        def process(self, record: Record) -> None:
            for _ in range(2):
                self.context.forward(record, child="counted")
                self.context.forward(record.with_value(str(value_of(self.store, record.key))), child="told")

    builder, stream = source(value=str)
    asking = stream.process_values(Asking, "counts")
    asking.filter(lambda key, value: True, name="counted").group_by_key().count("counts")
    asking.filter(lambda key, value: True, name="told").to("out")
    assert values(run(builder, ROWS)) == ["1", "2", "1", "2", "3", "4"]


def test_rows_that_a_processor_goes_through_are_those_of_before_whatever_comes_of_what_it_forwards(run: Run):
    class Again(Processor):
        """Forwards its record once for each row that there is, into the table that has the rows."""

        def init(self, context: Any) -> None:
            self.context, self.store = context, context.get_state_store("rows")

        def process(self, record: Record) -> None:
            for key, row in self.store.all():
                self.context.forward(record.with_value(f"{record.value}{key}{row.value}"))
            self.context.forward(record)

    builder, stream = source(value=str)
    again = stream.process_values(Again, "rows")
    again.to_table("rows")
    again.to("out")
    ran = run(builder, [("b", "x", 0), ("a", "y", 1), ("c", "z", 2)])
    assert values(ran) == ["x", "ybx", "y", "zay", "zbx", "z"]
    assert ran.store("rows") == [("a", "y", 1), ("b", "x", 0), ("c", "z", 2)]


def counting(record: Record, context: Any) -> None:
    store = context.get_state_store("counts")
    store.put(record.key, (store.get(record.key) or 0) + 1)
    context.forward(record.with_value(store.get(record.key)))


def plain_counts() -> Any:
    return Stores.key_value_store_builder(Stores.persistent_key_value_store("counts"), str, int)


def test_what_a_punctuation_forwards_goes_down_record_by_record(run: Run):
    class Ticking(Processor):
        def init(self, context: Any) -> None:
            self.context = context
            context.schedule(10, STREAM_TIME, self.tick)

        def tick(self, now: int) -> None:
            for _ in range(2):
                self.context.forward(Record("tick", 0, now))

        def process(self, record: Record) -> None:
            self.context.forward(record)

    builder, stream = source(value=int)
    builder.add_state_store(plain_counts())
    counted = stream.process(Ticking, value=int).process(counting, "counts", value=int)
    told = counted.filter(lambda key, value: True)
    looking(told, lambda store, key: store.get(key)).to("out")
    assert run(builder, [("a", 0, 5), ("a", 0, 12)]).output() == [
        ("a", 1, 5),
        ("tick", 1, 5),
        ("tick", 2, 5),
        ("a", 2, 12),
        ("tick", 3, 12),
        ("tick", 4, 12),
    ]


def test_a_failure_behind_a_step_of_the_dsl_is_not_swallowed_by_the_processor_in_front(run: Run):
    def careless(record: Record, context: Any) -> None:
        try:
            context.forward(record)
        except Exception:
            pass

    def failing(value: Any) -> Any:
        raise ValueError("stop")

    builder, stream = source(value=str)
    stream.group_by_key().count("counts")
    stream.process(careless, "counts").map_values(failing, value=str, name="failing").to("out")
    with pytest.raises(ProcessingError, match=r"failing failed on the record .*ValueError: stop"):
        run(builder, ROWS).output()


def test_a_record_that_fails_behind_a_processor_is_left_out_there_alone(run: Run):
    def picky(value: Any) -> Any:
        if value == 2:
            raise ValueError("no two")
        return value

    builder, stream = source(value=str)
    stream.group_by_key().count("counts")
    looked = looking(stream)
    looked.map_values(picky, value=int, name="picky").to("out")
    looked.to("all")
    ran = run(builder, ROWS, on_error="skip")
    assert (values(ran), values(ran, "all")) == ([1, 1], [1, 1, 2])
    assert ran.counted("skipped-records-total") == {("picky", "ValueError"): 1}


def test_processors_with_a_merge_between_them_find_what_the_way_before_wrote(run: Run):
    # Each record goes through the first way to the end, and then through the other.
    builder, stream = source(value=str)
    builder.add_state_store(plain_counts())
    first, second = (stream.process(counting, "counts", value=int) for _ in range(2))
    first.merge(second).process(counting, "counts", value=int).to("out")
    assert values(run(builder, [("a", "x", 0), ("a", "x", 1)])) == [2, 4, 6, 8]


def test_a_store_refuses_in_the_name_of_the_processor_that_puts(run: Run):
    def late(record: Record, context: Any) -> None:
        context.forward(record)
        context.get_state_store("visits").put(record.key, ValueAndTimestamp(1, 0), 0)

    builder, stream = source(value=str)
    stream.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10)).count("visits")
    behind = stream.process(late, "visits", name="late")
    behind.process(lambda record, context: context.forward(record), "visits", name="behind").to("out")
    ran = run(builder, [("a", "x", 5), ("a", "x", 100_000_000)])
    assert ran.dropped() == {("late", "expired-window-of-store"): 1}
