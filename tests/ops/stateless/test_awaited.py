"""``map_values_async`` and ``filter_async``: calls side by side, their order, limits, retries, lists and errors."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import sys
import time
from contextlib import suppress
from typing import Any

import pytest

from penstock import ProcessingError, StreamsBuilder, TopologyError, columnar
from penstock.ops.core import awaited
from penstock.ops.core.awaited import call_all
from penstock.plan.awaiting import Awaiting
from support.flows import Run, source

ROWS = [("a", 1, 10), ("b", 2, 11), ("c", 3, 12), (None, 4, 13)]


def calls(**given: Any) -> Awaiting:
    return Awaiting(**{"capacity": 100, "timeout_ms": None, "retries": 0, "ordered": True, "batch": None} | given)


async def ten_times(value: int) -> int:
    await asyncio.sleep(0)
    return value * 10


def test_a_function_that_blocks_is_told_of_once_with_its_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def blocks(number: int) -> int:
        await asyncio.sleep(0)
        time.sleep(0.2)
        return number

    async def waits(number: int) -> int:
        await asyncio.sleep(0.2)
        return number

    monkeypatch.setattr(awaited, "_LONG", 0.05)
    assert call_all(waits, [(1,), (2,)], calls()) == [(1, None), (2, None)]
    assert caplog.messages == []
    for _ in range(2):
        assert call_all(blocks, [(1,), (2,)], calls()) == [(1, None), (2, None)]
    line = blocks.__code__.co_firstlineno + 2
    assert caplog.messages == [
        f"an async function blocks in {__file__}:{line}: time.sleep(0.2). No other "
        "call runs meanwhile; await an async client in place of it, or `await asyncio.to_thread(...)` it"
    ]


# --- what comes out --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ordered", [True, False])
def test_results_are_those_of_the_function_in_the_order_of_the_stream(run: Run, ordered: bool):
    async def slow_at_first(value: int) -> int:
        await asyncio.sleep(0.02 / value)
        return value * 10

    builder, stream = source(value=int)
    stream.map_values_async(slow_at_first, ordered=ordered).to("out")
    assert run(builder, ROWS).output() == [("a", 10, 10), ("b", 20, 11), ("c", 30, 12), (None, 40, 13)]


def test_functions_take_keys_the_context_and_nulls_and_may_give_null(run: Run):
    async def keyed(key: str, value: int) -> str:
        return f"{key}{value}"

    async def placed(key: str, value: str, context: Any) -> str | None:
        return None if value == "b2" else f"{value}@{context.offset}"

    builder, stream = source(value=int)
    stream.map_values_async(keyed, value=str).map_values_async(placed, value=str).to("out")
    assert run(builder, [("a", None, 1), ("b", 2, 2)]).output() == [("a", "aNone@0", 1), ("b", None, 2)]


def test_the_annotation_says_the_type_of_results(run: Run):
    async def shown(value: int) -> str:
        return str(value)

    async def all_shown(values: list[int]) -> list[str]:
        return [str(value) for value in values]

    builder, stream = source(value=int)
    stream.map_values_async(shown).to("out")
    stream.map_values_async(all_shown, batch=2).to("lists")
    ran = run(builder, ROWS[:1])
    assert (ran.output(), ran.output("lists")) == ([("a", "1", 10)], [("a", "1", 10)])


def test_filter_async_keeps_what_is_true(run: Run):
    async def is_odd(key: str, value: int) -> int:
        return value % 2

    builder, stream = source(value=int)
    stream.filter_async(is_odd).to("out")
    stream.filter_async(functools.partial(is_odd), timeout="1 min").to("also")
    ran = run(builder, ROWS)
    assert ran.output() == ran.output("also") == [("a", 1, 10), ("c", 3, 12)]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_function_of_lists_gets_lists_and_gives_lists(run: Run, size: int):
    sizes: list[int] = []

    async def named(keys: list[str], values: list[int]) -> list[str]:
        sizes.append(len(values))
        return [f"{key}{value}" for key, value in zip(keys, values, strict=True)]

    async def is_even(keys: list[str], values: list[str]) -> list[bool]:
        return [value[-1] in "24" for value in values]

    builder, stream = source(value=int)
    stream.map_values_async(named, value=str, batch=size).filter_async(is_even, batch=size).to("out")
    assert run(builder, ROWS).output() == [("b", "b2", 11), (None, "None4", 13)]
    assert max(sizes) <= size


# --- calls -----------------------------------------------------------------------------------------------------------


def test_as_many_calls_as_the_capacity_run_side_by_side():
    running, most = 0, []

    async def counts(number: int) -> int:
        nonlocal running
        running += 1
        most.append(running)
        while len(most) < 4:  # nobody goes on before four have begun
            await asyncio.sleep(0)
        running -= 1
        return number

    assert call_all(counts, [(number,) for number in range(20)], calls(capacity=4)) == [(n, None) for n in range(20)]
    assert max(most) == 4


def test_all_calls_of_a_process_run_in_one_loop():
    async def loop() -> Any:
        return asyncio.get_running_loop()

    [(first, _)], [(second, _)] = call_all(loop, [()], calls()), call_all(loop, [()], calls())
    assert first is second
    assert first.is_running()


def test_a_call_that_fails_is_repeated(run: Run):
    tried: list[int] = []

    async def unsteady(value: int) -> int:
        tried.append(value)
        if tried.count(value) < 3:
            raise ConnectionError("reset")
        return value

    builder, stream = source(value=int)
    stream.map_values_async(unsteady, retries=2).to("out")
    assert run(builder, ROWS[:2]).output() == [("a", 1, 10), ("b", 2, 11)]
    assert sorted(tried) == [1, 1, 1, 2, 2, 2]


def test_calls_are_cancelled_when_the_program_is_interrupted():
    ended: list[str] = []

    async def interrupted(number: int) -> None:
        if number == 1:
            os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("cancelled")

    with pytest.raises(KeyboardInterrupt):
        call_all(interrupted, [(0,), (1,)], calls())
    assert ended == ["cancelled", "cancelled"]
    assert call_all(ten_times, [(1,)], calls()) == [(10, None)], "the loop goes on"


# --- errors ----------------------------------------------------------------------------------------------------------


def test_a_call_that_goes_on_when_it_is_cancelled_fails_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch):
    async def stays(value: int) -> int:
        while value == 2:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)
        return value * 10

    monkeypatch.setattr(awaited, "_UNTIL_CANCELLED", 0.05)
    rows = [(n,) for n in range(1, 5)]
    outcomes = call_all(stays, rows, calls(timeout_ms=20, capacity=1, retries=1))
    assert [result for result, _ in outcomes] == [10, None, 30, 40]
    assert "longer than timeout=20 ms, 2 times. It goes on although it was cancelled" in str(outcomes[1][1])


@pytest.mark.parametrize("pauses", [True, False])
def test_a_call_that_cancels_itself_fails_alone(pauses: bool):
    async def cancels_itself(value: int) -> int:
        task = asyncio.current_task()
        if value == 2 and task is not None:
            task.cancel()
        if pauses:
            await asyncio.sleep(0)
        return value * 10

    outcomes = call_all(cancels_itself, [(n,) for n in range(1, 5)], calls(capacity=1))
    assert [result for result, _ in outcomes] == [10, None, 30, 40]
    assert isinstance(outcomes[1][1], asyncio.CancelledError)


@pytest.mark.parametrize("how", ["leaves", "stops"])
def test_no_function_ends_the_loop_in_which_others_wait(how: str, caplog: pytest.LogCaptureFixture):
    async def ends(value: int) -> int:
        if how == "leaves":
            task = asyncio.ensure_future(leaves(value))
            await asyncio.wait([task])
            assert isinstance(task.exception(), SystemExit)
        else:
            asyncio.get_running_loop().stop()
        await asyncio.sleep(0.01)
        return value * 10

    assert [result for result, _ in call_all(ends, [(1,), (2,)], calls())] == [10, 20]
    assert "the event loop goes on" in caplog.text or "the loop goes on" in caplog.text


async def at_once(value: int) -> int:
    """It never waits, so no time-out can reach it, however slow the machine is."""
    return value * 10


async def raises(value: int) -> int:
    raise ValueError("no such thing")


async def hangs(value: int) -> int:
    await asyncio.sleep(3600)
    return value


async def leaves(value: int) -> int:
    sys.exit("gone")


async def is_cancelled(value: int) -> int:
    raise asyncio.CancelledError


async def of_another_type(value: int) -> Any:
    return "text"


async def gives_a_coroutine(value: int) -> Any:
    return ten_times(value)


async def times_out_itself(value: int) -> int:
    raise TimeoutError("the service says so")


WRONG = [
    (raises, {}, "ValueError: no such thing"),
    (hangs, {"timeout": 20}, "TimeoutError: the function took longer than timeout=20 ms"),
    (hangs, {"timeout": 5, "retries": 1}, "TimeoutError: the function took longer than timeout=5 ms, 2 times"),
    (times_out_itself, {"timeout": "1 h"}, "TimeoutError: the service says so"),
    (leaves, {}, "SystemExit: gone"),
    (is_cancelled, {}, "CancelledError"),
    (of_another_type, {}, "map_values_async at"),
    (gives_a_coroutine, {}, "an object to await, of type coroutine, and nobody awaits it"),
]
"""Functions, arguments of the step, and what the message says."""


def failing(function: Any, **given: Any) -> StreamsBuilder:
    """The function fails for the value 2, and is ``at_once`` for all others."""

    async def fails(value: int) -> Any:
        return await (function if value == 2 else at_once)(value)

    builder, stream = source(value=int)
    stream.map_values_async(fails, value=int, **given).to("out")
    return builder


@pytest.mark.parametrize(("function", "given", "says"), WRONG, ids=range(len(WRONG)))
def test_a_call_that_fails_stops_the_program_and_names_the_record(run: Run, function: Any, given: Any, says: str):
    with pytest.raises(ProcessingError) as failure:
        run(failing(function, **given), ROWS).output()
    assert says in str(failure.value)
    assert "failed on the record at topic 'in', partition 0, offset 1" in str(failure.value)
    assert "nothing of this batch was committed" in str(failure.value)


@pytest.mark.parametrize(("function", "given"), [case[:2] for case in WRONG], ids=range(len(WRONG)))
@pytest.mark.parametrize("answer", ["skip", "dead_letter:dead"])
def test_a_call_that_fails_goes_the_way_of_on_error(run: Run, function: Any, given: Any, answer: str):
    ran = run(failing(function, **given), ROWS, on_error=answer)
    assert ran.output() == [("a", 10, 10), ("c", 30, 12), (None, 40, 13)]
    counted = "skipped-records-total" if answer == "skip" else "dead-letter-records-total"
    assert sum(ran.counted(counted).values()) == 1
    if answer != "skip":
        assert [row[0] for row in ran.output("dead")] == [b"b"]


def test_of_a_list_that_fails_only_the_record_that_fails_is_left_out(run: Run):
    async def all_but_2(values: list[int]) -> list[int]:
        if 2 in values:
            raise ValueError("2")
        return [value * 10 for value in values]

    builder, stream = source(value=int)
    stream.map_values_async(all_but_2, batch=100).to("out")
    ran = run(builder, ROWS, on_error="skip")
    assert ran.output() == [("a", 10, 10), ("c", 30, 12), (None, 40, 13)]
    assert ran.counted("skipped-records-total") == {("KSTREAM-MAPVALUES-ASYNC-0000000001", "ValueError"): 1}


@pytest.mark.parametrize(("gives", "got"), [([1, 2, 3], "3 results"), ("ab", "'ab'"), (None, "None")])
def test_a_list_of_another_length_fails(run: Run, gives: Any, got: str):
    async def wrong(values: list[int]) -> Any:
        return gives

    builder, stream = source(value=int)
    stream.map_values_async(wrong, batch=1).to("out")
    with pytest.raises(ProcessingError) as failure:
        run(builder, ROWS).output()
    assert f"TypeError: the function must return a list of 1 results, one for each record; got {got}" in str(
        failure.value
    )


def test_a_predicate_that_gives_neither_true_nor_false_fails(run: Run):
    async def says_nothing(key: str, value: int) -> Any:
        return ...

    builder, stream = source(value=int)
    stream.filter_async(says_nothing).to("out")
    with pytest.raises(ProcessingError, match="the function returned Ellipsis"):
        run(builder, ROWS).output()


# --- what is refused when it is built --------------------------------------------------------------------------------


async def of_lists(values: list[int], context: Any) -> list[int]:
    return values


async def yields(value: int) -> Any:
    yield value


@columnar
async def marked(value: Any) -> Any:
    return value


REFUSED: list[Any] = [
    (
        lambda stream: stream.map_values_async(lambda value: value),
        "is a plain function: this step awaits its calls. Write async def, and await in it; if there is nothing to "
        "await, use map_values",
    ),
    (
        lambda stream: stream.filter_async(lambda key, value: True),
        "is a plain function: this step awaits its calls. Write async def, and await in it; if there is nothing to "
        "await, use filter",
    ),
    (
        lambda stream: stream.map_values_async(yields),
        "is an async generator function: it yields several results, and this step takes one. Write async def",
    ),
    (lambda stream: stream.map_values_async(marked), "calls its function once for each record; got the columnar"),
    (lambda stream: stream.map_values_async(of_lists, batch=5), "with batch= a call gets lists of records, which have"),
    (lambda stream: stream.map_values_async(ten_times, capacity=0), "capacity of map_values_async at HERE is a whole"),
    (lambda stream: stream.map_values_async(ten_times, capacity=True), "is a whole number from 1 on; got True"),
    (lambda stream: stream.map_values_async(ten_times, retries=-1), "is a whole number from 0 on; got -1"),
    (lambda stream: stream.map_values_async(ten_times, batch=0), "batch of map_values_async at HERE is a whole number"),
    (
        lambda stream: stream.map_values_async(ten_times, timeout=0),
        "timeout of map_values_async at HERE is longer",
    ),
    (lambda stream: stream.map_values_async(ten_times, timeout="soon"), "timeout of map_values_async at HERE"),
    (lambda stream: stream.map_values_async(ten_times, ordered="no"), "ordered of map_values_async at HERE is True or"),
    (
        lambda stream: stream.map_values(ten_times),
        "Streams await such functions in map_values_async and filter_async. Here give a plain function",
    ),
]


@pytest.mark.parametrize(("wrong", "says"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_awaited_is_refused_when_it_is_built(wrong: Any, says: str):
    _, stream = source(value=int)
    with pytest.raises(TopologyError) as failure:
        wrong(stream)
    for part in says.split("HERE"):
        assert part in str(failure.value)
