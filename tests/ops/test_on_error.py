"""``on_error``: what becomes of records that do not decode, whose functions raise or return the wrong thing, or whose
results do not encode. The other records of the same chunk go on as if nothing had been."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from penstock import PenstockWarning, StreamsBuilder, columnar
from penstock.errors import ProcessingError
from penstock.testing import TopologyTestDriver
from support.flows import Run, source

SAFE = (
    "  nothing of this batch was committed; fix the function or the record, or set on_error to 'skip' or "
    "'dead_letter:<topic>', and start again"
)
SKIPPED = "skipped-records-total"
DEAD = "dead-letter-records-total"

THING = b'{"thing":1}'
"""A value that is no order."""

ROWS = [("a", 2, 10), ("b", 0, 11), ("c", 4, 12)]


@dataclass
class Order:
    item: str


def inverse(value):
    return 1 / value


def at(function: Callable[..., Any]) -> str:
    """The file and line of a function."""
    return f"{__file__}:{function.__code__.co_firstlineno}"


def this_line() -> int:
    """The line this is called from."""
    return sys._getframe(1).f_lineno


def message_of(failure: pytest.ExceptionInfo[ProcessingError]) -> list[str]:
    """The lines of the message, without the task that the engine puts before them."""
    return str(failure.value).removeprefix("task 0_0: ").splitlines()


# --- fail ------------------------------------------------------------------------------------------------------------


def test_fail_names_the_record_the_node_the_function_and_the_line(run: Run):
    builder, stream = source(value=int)
    given_at = this_line() + 1
    stream.map_values(inverse, value=float).to("out")
    with pytest.raises(ProcessingError) as failure:
        run(builder, ROWS).output()
    assert message_of(failure) == [
        "KSTREAM-MAPVALUES-0000000001 failed on the record at topic 'in', partition 0, offset 1: "
        "ZeroDivisionError: division by zero",
        "  the record: key 'b', value 0, timestamp 11",
        f"  the function: inverse at {at(inverse)}, given to the step at {__file__}:{given_at}",
        f"  the line: {__file__}:{inverse.__code__.co_firstlineno + 1}: return 1 / value",
        SAFE,
    ]


def test_fail_is_the_default_for_records_that_do_not_decode(run: Run):
    builder = StreamsBuilder()
    read_at = this_line() + 1
    stream = builder.stream("in", value=Order)
    stream.filter(lambda key, order: order.item != "").to("out")
    with pytest.raises(ProcessingError) as failure:
        run(builder, [("a", Order("pen"), 10), ("b", THING, 11)]).output()
    assert message_of(failure) == [
        "KSTREAM-SOURCE-0000000000 failed on the record at topic 'in', partition 0, offset 1: "
        "Object missing required field `item`; the bytes are b'{\"thing\":1}'",
        "  the record: key 'b', value b'{\"thing\":1}', timestamp 11",
        f"  the way out: the source at {__file__}:{read_at} reads values of type json[Order]; if the topic holds "
        "others, say so with value= (value=bytes takes them as they are)",
        SAFE,
    ]


def test_a_key_of_another_type_names_the_step_that_made_it_and_the_way_out(run: Run):
    builder = StreamsBuilder()
    stream = builder.stream("in")
    given_at = this_line() + 1
    stream.group_by(number_of).count().to_stream().to("out")
    with pytest.raises(ProcessingError) as failure:
        run(builder, [("a", {"id": 7}, 10)]).output()
    first, *lines = message_of(failure)[:-1]
    assert first.endswith(f": group_by at {__file__}:{given_at} returned the key 7 of type int where str is expected")
    assert lines == [
        "  the record: key 'a', value {'id': 7}, timestamp 10",
        f"  the function: number_of at {at(number_of)}, given to the step at {__file__}:{given_at}",
        "  the way out: annotate its result or say key=int at group_by; without that the keys keep the type they had",
    ]


def test_a_value_that_a_topic_cannot_have_names_the_topic_the_line_and_both_types(run: Run):
    builder, stream = source(value=str)
    written_at = this_line() + 1
    stream.to("numbers", value=int)
    with pytest.raises(ProcessingError) as failure:
        run(builder, [("a", "five", 10)]).output("numbers")
    assert message_of(failure) == [
        "KSTREAM-SINK-0000000001 failed on the record at topic 'in', partition 0, offset 0: the serde 'int' cannot "
        "encode 'five' of type str",
        "  the record: key 'a', value 'five', timestamp 10",
        f"  the step: {__file__}:{written_at}, which writes topic 'numbers'",
        "  the way out: the values of this step are of type int; say value=str at that step, or map them to int "
        "before it",
        SAFE,
    ]


def test_a_step_says_where_it_is_if_another_one_made_what_it_cannot_take(run: Run):
    builder, stream = source(value=int)
    made_at = this_line() + 1
    halves = stream.map_values(inverse, value=int)
    written_at = this_line() + 1
    halves.to("numbers")
    with pytest.raises(ProcessingError) as failure:
        run(builder, [("a", 1, 10)]).output("numbers")
    assert message_of(failure)[2:-2] == [
        f"  the step: {__file__}:{written_at}, which writes topic 'numbers'",
        f"  the function: inverse at {at(inverse)}, given to the step at {__file__}:{made_at}",
    ]


def test_a_result_of_another_type_names_the_mapper_the_joiner_or_the_aggregator(run: Run):
    def message(build: Callable[[Any], Any]) -> list[str]:
        builder, stream = source(value=int)
        build(stream).to("out")
        with pytest.raises(ProcessingError) as failure:
            run(builder, [("a", 1, 10), ("a", 2, 11)]).output()
        lines = [line for line in message_of(failure)[2:-1] if not line.startswith("  the step: ")]
        return [line.split(" at ")[0] for line in lines]

    def said(name: str) -> list[str]:
        return [f"  the function: {name}", "  the way out: annotate its result or say value=float"]

    assert message(lambda stream: stream.map_values(inverse, value=int)) == said("inverse")
    assert message(lambda stream: stream.flat_map_values(inverses, value=int).filter(some)) == said("inverses")
    assert message(lambda stream: stream.to_table().map_values(inverse, value=int, store="t").to_stream()) == said(
        "inverse"
    )
    assert message(lambda stream: stream.group_by_key().reduce(ratio).to_stream()) == [
        "  the function: ratio",
        "  the way out: a reducer gives what it gets; for other results use aggregate(..., value=float)",
    ]
    assert message(lambda stream: stream.group_by_key().aggregate(int, total).to_stream()) == said("total")


def number_of(key, value):
    return value["id"]


def inverses(value):
    return [1 / value]


def some(key, value):
    return True


def ratio(aggregate, value):
    return aggregate / value


def total(key, value, aggregate):
    return aggregate + value / 2


# --- skip ------------------------------------------------------------------------------------------------------------


def test_skip_leaves_the_record_out_and_counts_it_and_the_others_go_on(run: Run):
    builder, stream = source(value=int)
    stream.map_values(inverse, value=float).to("out")
    ran = run(builder, ROWS, on_error="skip")
    assert ran.output() == [("a", 0.5, 10), ("c", 0.25, 12)]
    assert ran.counted(SKIPPED) == {("KSTREAM-MAPVALUES-0000000001", "ZeroDivisionError"): 1}
    assert ran.dropped() == {}


def test_a_record_that_fails_in_one_branch_goes_on_in_the_other_one(run: Run):
    builder, stream = source(value=int)
    stream.map_values(inverse, value=float).to("inverses")
    stream.to("out")
    ran = run(builder, ROWS, on_error="skip")
    assert ran.output("inverses") == [("a", 0.5, 10), ("c", 0.25, 12)]
    assert ran.output() == ROWS


def test_a_record_that_does_not_decode_is_counted_once_for_all_who_look_into_it(run: Run):
    builder, stream = source(value=Order)
    stream.filter(lambda key, order: order.item == "pen").to("pens")
    stream.filter_not(lambda key, order: order.item == "pen").to("out")
    ran = run(builder, [("a", Order("pen"), 1), ("b", THING, 2), ("c", Order("ink"), 3)], on_error="skip")
    assert ran.output("pens") == [("a", Order("pen"), 1)]
    assert ran.output() == [("c", Order("ink"), 3)]
    assert ran.counted(SKIPPED) == {("KSTREAM-SOURCE-0000000000", "SerdeError"): 1}


def test_a_value_that_nobody_looks_into_need_not_decode(run: Run):
    builder, stream = source(value=Order)
    stream.select_key(lambda key, order: order and key.upper()).map_values(lambda order: 1, value=int).to("looked")
    builder.stream("raw", value=Order).group_by_key().count().to_stream().to("out")
    ran = run(builder, [("in", "a", THING, 1), ("raw", "a", THING, 2)], on_error="skip")
    assert ran.output() == [("a", 1, 2)]
    assert ran.counted(SKIPPED) == {("KSTREAM-SOURCE-0000000000", "SerdeError"): 1}


def test_a_result_that_its_serde_cannot_write_fails_where_it_is_written(run: Run):
    builder, stream = source(value=int)
    stream.map_values(lambda value: "?" if value == 0 else value, value=int).to("out")
    ran = run(builder, ROWS, on_error="skip")
    assert ran.output() == [("a", 2, 10), ("c", 4, 12)]
    assert ran.counted(SKIPPED) == {("KSTREAM-SINK-0000000002", "SerdeError"): 1}


# --- what functions may return ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [None, ("a",), ["a", 1], "ab"])
def test_map_must_return_a_pair(run: Run, wrong):
    builder, stream = source(value=int)
    stream.map(lambda key, value: wrong if value == 0 else (key, value), value=int).to("out")
    with pytest.raises(ProcessingError) as failure:
        run(builder, ROWS).output()
    assert message_of(failure)[0] == (
        "KSTREAM-MAP-0000000001 failed on the record at topic 'in', partition 0, offset 1: "
        f"TypeError: the function must return a pair (key, value), got {wrong!r}; map_values changes values alone, and "
        "select_key keys alone"
    )


@pytest.mark.parametrize("wrong", [None, 7, "text", b"bytes"])
def test_flat_map_values_must_return_several_values(run: Run, wrong):
    builder, stream = source(value=int)
    stream.flat_map_values(lambda value: wrong if value == 0 else [value], value=int).to("out")
    with pytest.raises(ProcessingError) as failure:
        run(builder, ROWS).output()
    assert message_of(failure)[0] == (
        "KSTREAM-FLATMAPVALUES-0000000001 failed on the record at topic 'in', partition 0, offset 1: "
        f"TypeError: the function must return values to iterate over, got {wrong!r}; for one result return [result], "
        "for none []; a text or a dict is not taken apart"
    )


@pytest.mark.parametrize("wrong", [None, ["ab"], [("a", 1), None]])
def test_flat_map_must_return_several_pairs(run: Run, wrong):
    builder, stream = source(value=int)
    stream.flat_map(lambda key, value: wrong if value == 0 else [(key, value)], value=int).to("out")
    ran = run(builder, ROWS, on_error="skip")
    assert ran.output() == [("a", 2, 10), ("c", 4, 12)]
    assert ran.counted(SKIPPED) == {("KSTREAM-FLATMAP-0000000001", "TypeError"): 1}


def test_a_generator_that_raises_half_way_leaves_out_the_whole_record(run: Run):
    def fractions(value):
        yield value
        yield 1 // value

    builder, stream = source(value=int)
    stream.flat_map_values(fractions, value=int).to("out")
    ran = run(builder, ROWS, on_error="skip")
    assert ran.output() == [("a", 2, 10), ("a", 0, 10), ("c", 4, 12), ("c", 0, 12)]
    assert ran.counted(SKIPPED) == {("KSTREAM-FLATMAPVALUES-0000000001", "ZeroDivisionError"): 1}


def test_flat_map_takes_a_generator_of_pairs(run: Run):
    def both(key, value):
        yield key, value
        yield key + key, 100 // value

    builder, stream = source(value=int)
    stream.flat_map(both, value=int).to("out")
    ran = run(builder, ROWS, on_error="skip")
    assert ran.output() == [("a", 2, 10), ("aa", 50, 10), ("c", 4, 12), ("cc", 25, 12)]
    assert ran.counted(SKIPPED) == {("KSTREAM-FLATMAP-0000000001", "ZeroDivisionError"): 1}


# --- steps with state ------------------------------------------------------------------------------------------------


def test_an_aggregator_that_raises_leaves_the_aggregate_as_it_was(run: Run):
    builder, stream = source(value=int)
    fractions = stream.group_by_key().aggregate(int, lambda key, value, total: total + 12 // value, store="sums")
    fractions.to_stream().to("out")
    ran = run(builder, [("a", 2, 1), ("a", 0, 9), ("a", 3, 3), ("b", 0, 4), ("b", 4, 5)], on_error="skip")
    assert ran.output() == [("a", 6, 1), ("a", 10, 3), ("b", 3, 5)]
    assert ran.store("sums") == [("a", 10, 3), ("b", 3, 5)]
    assert ran.counted(SKIPPED) == {("KSTREAM-AGGREGATE-0000000001", "ZeroDivisionError"): 2}


def test_a_row_whose_new_value_fails_keeps_its_old_one_in_a_derived_table(run: Run):
    builder = StreamsBuilder()
    table = builder.table("in", value=int)
    table.map_values(lambda value: 12 // value, value=int, store="twelfths").to_stream().to("out")
    ran = run(builder, [("a", 2, 1), ("a", 0, 2), ("a", 3, 3)], on_error="skip")
    assert ran.output() == [("a", 6, 1), ("a", 4, 3)]
    assert ran.store("twelfths") == [("a", 4, 3)]
    assert ran.counted(SKIPPED) == {("KTABLE-MAPVALUES-0000000003", "ZeroDivisionError"): 1}


def test_a_predicate_that_raises_sends_the_record_down_no_branch(run: Run):
    builder, stream = source(value=int)
    branches = stream.split("by-").branch(lambda key, value: 4 // value > 1, "small").default_branch("rest")
    branches["by-small"].to("out")
    branches["by-rest"].to("rest")
    ran = run(builder, ROWS, on_error="skip")
    assert (ran.output(), ran.output("rest")) == ([("a", 2, 10)], [("c", 4, 12)])
    assert ran.counted(SKIPPED) == {("by-", "ZeroDivisionError"): 1}


# --- dead letters ----------------------------------------------------------------------------------------------------


def test_dead_letters_carry_the_record_as_it_came_and_the_reason_in_headers(run: Run):
    builder, stream = source(value=int)
    stream.map_values(inverse, value=float).to("out")
    ran = run(builder, ROWS, on_error="dead_letter:failed")
    assert ran.output() == [("a", 0.5, 10), ("c", 0.25, 12)]
    letters = ran.driver.read_output("failed")
    assert [letter[:3] for letter in letters] == [(b"b", bytes(8), 11)]
    headers = dict(letters[0].headers)
    trace = headers.pop("__streams.errors.stacktrace").decode()
    assert trace.startswith("Traceback (most recent call last)")
    assert trace.endswith("ZeroDivisionError: division by zero\n")
    assert headers == {
        "__streams.errors.exception": b"ZeroDivisionError",
        "__streams.errors.message": b"division by zero",
        "__streams.errors.topic": b"in",
        "__streams.errors.partition": b"0",
        "__streams.errors.offset": b"1",
        "penstock.node": b"KSTREAM-MAPVALUES-0000000001",
        "penstock.topic": b"in",
        "penstock.partition": b"0",
        "penstock.offset": b"1",
        "penstock.error": b"ZeroDivisionError: division by zero",
        "penstock.function": f"inverse at {at(inverse)}".encode(),
    }
    assert ran.counted(DEAD) == {("KSTREAM-MAPVALUES-0000000001", "ZeroDivisionError"): 1}


@pytest.mark.kip("KS-20")
def test_a_dead_letter_keeps_the_headers_of_its_record_in_front_of_the_reason(run: Run):
    builder, stream = source(value=int)
    stream.select_key(lambda key, value: key).repartition().map_values(inverse, value=float).to("out")
    driver = run(builder, [], on_error="dead_letter:failed").driver
    driver.pipe_input("in", "fine", 2, 9, headers=[("trace", b"0")])
    driver.pipe_input("in", "b", 0, 10, headers=[("trace", b"1"), ("trace", b"2")])
    driver.pipe_input("in", "c", b"no number", 11, headers=[("schema", b"7")])
    driver.pipe_input("in", "d", 0, 12)
    letters = {letter.key: [*letter.headers] for letter in driver.read_output("failed")}
    assert {key: headers[:2] for key, headers in letters.items()} == {
        b"b": [("trace", b"1"), ("trace", b"2")],
        b"c": [("schema", b"7"), ("__streams.errors.exception", b"penstock.errors.SerdeError")],
        b"d": [("__streams.errors.exception", b"ZeroDivisionError"), ("__streams.errors.message", b"division by zero")],
    }


def test_a_dead_letter_has_a_message_that_is_no_unicode(run: Run):
    def fails(value):
        raise ValueError("half a pair: \ud800")

    builder, stream = source(value=int)
    stream.map_values(fails, value=int).to("out")
    ran = run(builder, [("a", 1, 5)], on_error="dead_letter:failed")
    [letter] = ran.driver.read_output("failed")
    assert dict(letter.headers)["__streams.errors.message"] == b"half a pair: \\ud800"


def test_a_dead_letter_of_a_record_that_does_not_decode_has_its_bytes(run: Run):
    builder, stream = source(value=Order)
    stream.filter(lambda key, order: True).to("out")
    ran = run(builder, [("a", THING, 5), ("b", Order("pen"), 6)], on_error="dead_letter:failed")
    assert ran.output() == [("b", Order("pen"), 6)]
    letters = ran.driver.read_output("failed")
    assert [letter[:3] for letter in letters] == [(b"a", b'{"thing":1}', 5)]
    assert dict(letters[0].headers)["penstock.node"] == b"KSTREAM-SOURCE-0000000000"


# --- columnar functions ----------------------------------------------------------------------------------------------


def test_a_columnar_function_that_raises_always_stops_because_it_concerns_a_whole_chunk(run: Run):
    @columnar
    def broken(key, value):
        raise KeyError("no such column")

    builder, stream = source(value=int)
    stream.filter(broken).to("out")
    with pytest.raises(ProcessingError, match=r"the columnar function .*broken at .* failed on a chunk of 1 records"):
        run(builder, ROWS[:1], on_error="skip").output()


def test_a_columnar_function_must_return_one_value_for_each_record(run: Run):
    @columnar
    def too_few(key, value):
        return value.slice(0, 0)

    builder, stream = source(value=int)
    stream.filter(too_few).to("out")
    with pytest.raises(ProcessingError, match=r"must return Arrow arrays of 1 values, .*; got .* of 0"):
        run(builder, ROWS[:1]).output()


def test_a_columnar_action_that_raises_says_so_too(run: Run):
    @columnar
    def broken(key, value):
        raise KeyError("no such column")

    builder, stream = source(value=int)
    stream.peek(broken).to("out")
    with pytest.raises(ProcessingError, match=r"the columnar function .*broken at .* failed on a chunk of 1 records"):
        run(builder, ROWS[:1]).output()


@pytest.mark.parametrize("topic", ["in", re.compile("[a-m].*")])
def test_dead_letters_that_the_program_reads_itself_are_warned_of(topic: Any):
    builder = StreamsBuilder()
    builder.stream(topic, value=int).map_values(inverse, value=float).to("out")
    topology = builder.build()
    with pytest.warns(PenstockWarning, match="go to topic 'in', which the program itself reads at .*: a record that"):
        TopologyTestDriver(topology, on_error="dead_letter:in")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TopologyTestDriver(topology, on_error="dead_letter:out")
        TopologyTestDriver(topology)
