"""Async functions and generators, wherever a function is given: their call would do nothing, so none is accepted."""

from __future__ import annotations

import asyncio
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import lru_cache, partial, wraps
from itertools import repeat
from threading import Event
from typing import Any
from weakref import ref

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from penstock import (
    Branched,
    BufferedTransaction,
    ConfigError,
    JoinWindows,
    Materialized,
    Printed,
    ProcessingError,
    Processor,
    PunctuationType,
    SessionWindows,
    StateRestoreListener,
    StoreError,
    Stores,
    StreamsBuilder,
    TimestampExtractor,
    TopologyError,
    ValueTransformerWithKey,
)
from penstock.engine.operate.lifecycle import Lifecycle
from penstock.engine.operate.restores import check_listener
from penstock.engine.running.arguments import check_arguments
from penstock.serdes import Serde
from penstock.settings import Settings
from penstock.testing import TopologyTestDriver
from penstock.usage.calls import kind_of
from penstock.values.timestamps import InvalidTimestampExtractor
from support.own_stores import DictStore, Supplier, TransactionalDictStore

FOREVER = JoinWindows.of_time_difference_with_no_grace("1 h")


@pytest.fixture(autouse=True)
def without_a_coroutine_left_over() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


async def awaited(*arguments: Any) -> Any:
    return True


def generates(*arguments: Any) -> Any:
    yield True


def summed(key: Any, value: Any, total: Any) -> Any:
    return total + value


def given(step: Callable[[StreamsBuilder, Any, Any], Any], function: Any) -> None:
    builder = StreamsBuilder()
    step(builder, builder.stream("in", key=str, value=int), function)


def cogrouped(stream: Any, function: Any) -> Any:
    return stream.group_by_key().cogroup(function)


def sessions(stream: Any) -> Any:
    return stream.group_by_key().windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(1))


STEPS: dict[str, Callable[[StreamsBuilder, Any, Any], Any]] = {
    "filter": lambda b, s, f: s.filter(f),
    "filter_not": lambda b, s, f: s.filter_not(f),
    "map": lambda b, s, f: s.map(f),
    "map_values": lambda b, s, f: s.map_values(f),
    "select_key": lambda b, s, f: s.select_key(f),
    "group_by": lambda b, s, f: s.group_by(f),
    "foreach": lambda b, s, f: s.foreach(f),
    "peek": lambda b, s, f: s.peek(f),
    "branch": lambda b, s, f: s.split().branch(f),
    "Branched": lambda b, s, f: Branched.with_consumer(f),
    "print: with_key_value_mapper": lambda b, s, f: s.print(Printed.to_sys_out().with_key_value_mapper(f)),
    "to": lambda b, s, f: s.to(f),
    "to: partitioner": lambda b, s, f: s.to("out", partitioner=f),
    "repartition: partitioner": lambda b, s, f: s.repartition(partitioner=f),
    "timestamp": lambda b, s, f: b.stream("other", timestamp=f),
    "reduce": lambda b, s, f: s.group_by_key().reduce(f),
    "aggregate": lambda b, s, f: s.group_by_key().aggregate(f, summed),
    "aggregate of the aggregator": lambda b, s, f: s.group_by_key().aggregate(int, f),
    "aggregate of the merger": lambda b, s, f: sessions(s).aggregate(int, summed, f),
    "cogroup": lambda b, s, f: cogrouped(s, f),
    "aggregate of the cogroup": lambda b, s, f: cogrouped(s, summed).aggregate(f),
    "aggregate of the subtractor": lambda b, s, f: s.to_table().group_by(pair).aggregate(int, summed, f),
    "deduplicate": lambda b, s, f: s.deduplicate(f, "1 s"),
    "deduplicate_by_key_value": lambda b, s, f: s.deduplicate_by_key_value(f, "1 s"),
    "join": lambda b, s, f: s.join(s, f, FOREVER),
    "left_join": lambda b, s, f: s.left_join(b.table("table"), f),
    "join with a global table": lambda b, s, f: s.join(b.global_table("table"), lambda v, o: v, key_selector=f),
    "outer_join": lambda b, s, f: s.to_table().outer_join(b.table("table"), f),
    "join: foreign_key": lambda b, s, f: s.to_table().join(b.table("table"), lambda v, o: v, foreign_key=f),
    "filter of a table": lambda b, s, f: s.to_table().filter(f),
    "map_values of a table": lambda b, s, f: s.to_table().map_values(f),
    "group_by of a table": lambda b, s, f: s.to_table().group_by(f),
    "to_stream": lambda b, s, f: s.to_table().to_stream(f),
    "process": lambda b, s, f: s.process(f),
    "process_values": lambda b, s, f: s.process_values(f),
}


def pair(key: Any, value: Any) -> Any:
    return key, value


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize(("function", "kind"), [(awaited, "async function"), (generates, "generator function")])
def test_no_step_takes_a_function_whose_call_does_nothing(name: str, function: Any, kind: str):
    with pytest.raises(TopologyError) as failure:
        given(STEPS[name], function)
    place = re.escape(f"{function.__name__} at {__file__}")
    an = "an" if kind == "async function" else "a"
    assert re.search(rf"at {re.escape(__file__)}:\d+: {place}:\d+ is {an} {kind}: its call only", str(failure.value))


def test_generators_are_welcome_where_results_are_iterated_over():
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.flat_map_values(lambda value: (yield from range(value))).to("values")

    def pairs(key, value):
        yield key * 2, value

    stream.flat_map(pairs).to("pairs")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 2, 0)
    assert [record[:2] for record in driver.read_output("values")] == [("a", 0), ("a", 1)]
    assert [record[:2] for record in driver.read_output("pairs")] == [("aa", 2)]
    with pytest.raises(TopologyError, match=r"flat_map_values .* is an async function"):
        stream.flat_map_values(awaited)


class Called:
    async def __call__(self, *arguments: Any) -> Any: ...

    async def method(self, *arguments: Any) -> Any: ...

    @staticmethod
    async def static(*arguments: Any) -> Any: ...

    @classmethod
    async def of_class(cls, *arguments: Any) -> Any: ...


class Awaitable:
    def __await__(self) -> Any:
        yield


def through(function: Any) -> Any:
    @wraps(function)
    def wrapper(*arguments: Any) -> Any:
        return function(*arguments)

    return wrapper


def to_its_end(function: Any) -> Any:
    @wraps(function)
    def wrapper(*arguments: Any) -> Any:
        return asyncio.run(function(*arguments))

    return wrapper


def listed(function: Any) -> Any:
    @wraps(function)
    def wrapper(*arguments: Any) -> Any:
        return list(function(*arguments))

    return wrapper


async def generates_async(*arguments: Any) -> Any:
    yield 1


@pytest.mark.parametrize(
    "function",
    [
        Called(),
        Called().method,
        Called.static,
        Called.of_class,
        Awaitable,
        partial(awaited, 1),
        partial(Called().method),
        through(awaited),
        through(partial(through(awaited), 1)),
        lru_cache(awaited),
        generates_async,
    ],
)
def test_it_is_found_behind_whatever_it_hides(function: Any):
    assert kind_of(function).startswith("async")
    with pytest.raises(TopologyError, match="its call only makes an object to await"):
        given(STEPS["filter"], function)


@pytest.mark.parametrize(
    "function", [len, int, str.upper, to_its_end(awaited), listed(generates), partial(pair, 1), Called, "x".upper, dict]
)
def test_what_does_its_work_when_called_is_taken(function: Any):
    assert kind_of(function) == ""


def test_a_decorator_that_runs_the_async_function_makes_a_plain_one():
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).filter(to_its_end(awaited)).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 2, 0)
    assert [record[:2] for record in driver.read_output("out")] == [("a", 2)]


class AsyncProcess(Processor[str, int]):
    async def process(self, record: Any) -> None: ...  # type: ignore[override]


class AsyncInit(Processor[str, int]):
    async def init(self, context: Any) -> None: ...  # type: ignore[override]

    def process(self, record: Any) -> None: ...


class GeneratingClose(Processor[str, int]):
    def process(self, record: Any) -> None: ...

    def close(self) -> Any:
        yield


class AsyncTransform(ValueTransformerWithKey[str, int]):
    async def transform(self, key: Any, value: Any) -> Any: ...


class AsyncSupplier:
    async def get(self) -> Any: ...


@pytest.mark.parametrize(
    ("supplier", "said"),
    [
        (AsyncProcess, "of the Processor AsyncProcess its method process is an async function"),
        (lambda: AsyncProcess(), "of the Processor AsyncProcess its method process is an async function"),
        (AsyncInit, "of the Processor AsyncInit its method init is an async function"),
        (GeneratingClose, "of the Processor GeneratingClose its method close is a generator function"),
        (AsyncSupplier(), "AsyncSupplier.get at "),
        (Called().method, "Called.method at "),
    ],
)
def test_no_processor_has_a_method_that_nobody_awaits(supplier: Any, said: str):
    with pytest.raises(TopologyError, match=re.escape(said)):
        given(STEPS["process"], supplier)


def test_no_transformer_has_one_either():
    with pytest.raises(TopologyError, match="of the ValueTransformerWithKey AsyncTransform its method transform is an"):
        given(lambda b, s, f: s.to_table().transform_values(f), AsyncTransform)


def test_a_punctuation_is_refused_when_it_is_scheduled():
    class Scheduling(Processor[str, int]):
        def init(self, context: Any) -> None:
            context.schedule("1 s", PunctuationType.STREAM_TIME, self.tick)

        async def tick(self, now: int) -> None: ...

        def process(self, record: Any) -> None: ...

    builder = StreamsBuilder()
    builder.stream("in").process(Scheduling)
    with pytest.raises(ProcessingError, match=r"schedule takes a function of \(time\); .*tick at .* is an async"):
        TopologyTestDriver(builder.build()).pipe_input("in", "a", 1, 0)


class AsyncExtractor(TimestampExtractor):
    async def extract(self, record: Any, partition_time: int) -> Any: ...


class AsyncOnInvalid(InvalidTimestampExtractor):
    async def on_invalid_timestamp(self, record: Any, partition_time: int) -> Any: ...


@pytest.mark.parametrize(
    ("extractor", "said"),
    [
        (AsyncExtractor, "timestamp: extract at .* is an async function"),
        (AsyncOnInvalid(), "of the extractor AsyncOnInvalid its method on_invalid_timestamp is an async function"),
    ],
)
def test_no_extractor_has_one(extractor: Any, said: str):
    with pytest.raises(TopologyError, match=said):
        StreamsBuilder().stream("in", timestamp=extractor)


class AsyncSerde(Serde):
    name = "async"

    def encode(self, value: Any) -> bytes:
        return b""

    async def decode(self, data: bytes) -> Any: ...


def test_no_serde_has_one():
    with pytest.raises(ConfigError, match="value: of the serde AsyncSerde its method decode is an async function"):
        StreamsBuilder().stream("in", value=AsyncSerde())


class AsyncPut(DictStore):
    async def put(self, key: bytes, value: bytes | None) -> None: ...  # type: ignore[override]


class AsyncGet(DictStore):
    async def get(self, key: bytes) -> bytes | None: ...  # type: ignore[override]


class GeneratingDelete(DictStore):
    def delete(self, key: bytes) -> Any:
        yield


class AsyncRange(DictStore):
    async def range(self, low: Any = None, high: Any = None) -> Any:  # type: ignore[override]
        yield


class AsyncCommit(DictStore):
    async def commit(self, changelog_offsets: Any) -> None: ...  # type: ignore[override]


@pytest.mark.parametrize(
    ("store", "said"),
    [
        (AsyncPut, "AsyncPut its method put is an async function"),
        (AsyncGet, "AsyncGet its method get is an async function"),
        (GeneratingDelete, "GeneratingDelete its method delete is a generator function"),
        (AsyncRange, "AsyncRange its method range is an async generator function"),
        (AsyncCommit, "AsyncCommit its method commit is an async function"),
    ],
)
@pytest.mark.parametrize(
    "give", [Materialized.as_, lambda supplier: Stores.key_value_store_builder(supplier, str, int)]
)
def test_no_store_has_one(give: Callable[[Any], Any], store: Any, said: str):
    with pytest.raises(TopologyError, match=rf"the store 'own' at {re.escape(__file__)}:\d+: of {said}: its call only"):
        give(Supplier(store))


def test_a_store_whose_reads_yield_rows_is_taken():
    assert Materialized.as_(Supplier(DictStore)).store == "own"


class AsyncTransaction(BufferedTransaction):
    async def put(self, key: Any, value: Any) -> None: ...  # type: ignore[override]


class WithAsyncTransactions(TransactionalDictStore):
    def create_transaction(self) -> BufferedTransaction:
        return AsyncTransaction(self, self.write)


def test_no_transaction_of_a_store_has_one():
    builder = StreamsBuilder()
    builder.table("in", str, int, materialized=Materialized.as_(Supplier(WithAsyncTransactions)))
    with pytest.raises(StoreError, match="'own': of its transaction AsyncTransaction its method put is an async"):
        TopologyTestDriver(builder.build())


class AsyncListener(StateRestoreListener):
    async def on_restore_end(self, topic_partition: Any, store_name: Any, total_restored: Any) -> None: ...  # type: ignore[override]


@pytest.mark.parametrize(
    ("give", "said"),
    [
        (lambda: Lifecycle(awaited), "state_listener is a function of .* is an async function"),
        (lambda: Lifecycle(None, awaited), "uncaught_exception_handler is a function of .* is an async function"),
        (lambda: check_arguments("a", None, None, None, awaited), "start: on_progress .* is an async function"),
        (lambda: check_listener(AsyncListener(), "here"), "AsyncListener its method on_restore_end is an async"),
        (
            lambda: Settings.load(environment={}, deserialization_exception_handler=awaited).handlers,
            "deserialization_exception_handler must answer at once; .* is an async function",
        ),
        (
            lambda: Settings.load(environment={}, processing_exception_handler=awaited).handlers,
            "processing_exception_handler must answer at once; .* is an async function",
        ),
        (
            lambda: Settings.load(environment={}, production_exception_handler=awaited).handlers,
            "production_exception_handler must answer at once; .* is an async function",
        ),
    ],
)
def test_no_handler_and_no_listener_is_one(give: Callable[[], Any], said: str):
    with pytest.raises(ConfigError, match=said):
        give()


# --- what plain functions return, and is no result --------------------------------------------------------------------


@contextmanager
def entered(*arguments: Any) -> Iterator[Any]:
    yield True


RETURNED: dict[str, tuple[Callable[..., Any], str]] = {
    "a method that is not called": (lambda key, value: value.bit_length, "a function, of type builtin_function_or_"),
    "a function that is not called": (lambda key, value: awaited, "a function, of type function, and nobody calls it"),
    "a partial": (lambda key, value: partial(summed, key), "a function, of type partial, and nobody calls it"),
    "a class": (lambda key, value: bool, "a class, which counts as true, and nobody makes an object of it"),
    "a map": (lambda key, value: map(print, [value]), "an iterator, of type map, whose work nobody asks for"),
    "a filter": (lambda key, value: filter(None, [value]), "an iterator, of type filter, whose work nobody asks for"),
    "one of itertools": (lambda key, value: repeat(value), "an iterator, of type repeat, whose work nobody asks for"),
    "a generator expression": (lambda key, value: (one for one in [value]), "a generator, which nobody runs"),
    "a context manager": (entered, "a context manager, and nobody enters it"),
    "a comparison of other types": (lambda key, value: value.__gt__("text"), "NotImplemented, which a comparison"),
}


@pytest.mark.parametrize("name", RETURNED)
@pytest.mark.parametrize("step", ["filter", "filter_not", "foreach", "peek", "branch", "table", "process"])
def test_a_function_that_leaves_its_work_to_somebody_else_fails_at_the_record(step: str, name: str):
    function, said = RETURNED[name]
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    if step == "process":
        stream.process(lambda record, context: function(record.key, record.value)).to("out")
    elif step == "branch":
        stream.split().branch(function, "some").no_default_branch()["some"].to("out")
    elif step == "table":
        stream.to_table().filter(function, store="rows")
    else:
        made = getattr(stream, step)(function)
        if made is not None:
            made.to("out")
    with pytest.raises(ProcessingError, match=f"returned {re.escape(said)}"):
        TopologyTestDriver(builder.build()).pipe_input("in", "a", 1)


NEITHER: dict[str, tuple[Any, str]] = {
    "a future": (Future(), "a Future, which counts as true, and nobody waits for it; return its result()"),
    "an event": (Event(), "an Event, which counts as true; return its is_set()"),
    "an exception": (ValueError("no"), "an exception, which counts as true; raise it, or return true or false"),
    "an ellipsis": (..., "Ellipsis, the code that is left to write; return true or false"),
    "a weak reference": (ref(summed), "a weak reference, which counts as true; call it"),
    "a module": (pickle, "a module, which counts as true"),
    "an array of Arrow": (pa.array([False]), "an Arrow array, which counts as true by its length; return one of its"),
    "chunks of Arrow": (pa.chunked_array([[False]]), "an Arrow array, which counts as true by its length"),
    "a missing time": (np.datetime64("NaT"), "NaT, a missing time; return true or false for it"),
    "a missing time of pandas": (
        pd.NaT,
        "a missing value, of type NaTType; return true or false for it, as in `value is not None`",
    ),
    "a missing value of pandas": (
        pd.NA,
        "a missing value, of type NAType; return true or false for it, as in `value is not None`",
    ),
    "a missing span": (np.timedelta64("NaT"), "NaT, a missing time; return true or false for it"),
}
TRUTHS: dict[str, tuple[Any, bool]] = {
    "a false scalar of Arrow": (pa.scalar(False), False),
    "a true scalar of Arrow": (pa.scalar(True), True),
    "a null of Arrow": (pa.scalar(None, pa.bool_()), False),
    "a zero of Arrow": (pa.scalar(0), False),
    "an empty text of Arrow": (pa.scalar(""), False),
    "a bool of NumPy": (np.bool_(False), False),
    "an array of one": (np.array([False]), False),
    "an array of one in one": (np.array([[True]]), True),
    "None": (None, False),
    "a match": (re.match("a", "abc"), True),
}


def with_predicate(step: str, result: Any) -> list[Any]:
    """The values that come through, of one record."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    if step == "branch":
        stream = stream.split().branch(lambda key, value: result, "some").no_default_branch()["some"]
    elif step == "table":
        stream = stream.to_table().filter(lambda key, value: result).to_stream()
    else:
        stream = getattr(stream, step)(lambda key, value: result)
    stream.filter(lambda key, value: value is not None).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 1)
    return [record.value for record in driver.read_output("out")]


@pytest.mark.parametrize("name", NEITHER)
@pytest.mark.parametrize("step", ["filter", "filter_not", "branch", "table"])
def test_a_predicate_whose_result_counts_as_true_whatever_it_stands_for_fails_at_the_record(step: str, name: str):
    result, said = NEITHER[name]
    with pytest.raises(ProcessingError, match=f"the function returned {re.escape(said)}"):
        with_predicate(step, result)


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("step", ["filter", "filter_not", "branch", "table"])
def test_a_scalar_of_a_library_is_as_true_as_the_value_that_it_holds(step: str, name: str):
    result, is_true = TRUTHS[name]
    assert with_predicate(step, result) == ([1] if is_true is (step != "filter_not") else [])


def test_a_vectorized_async_function_is_found_and_a_plain_one_is_taken():
    assert kind_of(np.vectorize(awaited)) == "async function"
    assert kind_of(np.vectorize(summed)) == ""


def test_steps_that_iterate_take_iterators():
    builder = StreamsBuilder()
    builder.stream("in", value=int).flat_map_values(lambda value: map(abs, [value, -value])).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 1)
    assert [record.value for record in driver.read_output("out")] == [1, 1]


@pytest.mark.parametrize(
    ("gives", "said"),
    [
        (lambda: fetched(), "returned an object to await, of type coroutine, and nobody awaits it"),
        (lambda: (one for one in ()), "returned a generator, which nobody runs"),
        (lambda: map(str, ()), "returned an iterator, of type map"),
        (lambda: dict, "returned a class, which counts as true, and nobody makes an object of it"),
    ],
)
def test_an_initializer_whose_result_is_no_value_is_refused_at_its_line(gives: Callable[[], Any], said: str):
    with pytest.raises(TopologyError) as refused:
        StreamsBuilder().stream("in").group_by_key().aggregate(gives, lambda key, value, all_: all_)
    assert str(refused.value).startswith(f"aggregate at {__file__}:")
    assert f": the initializer {said}" in str(refused.value)


async def fetched() -> int:
    return 1
