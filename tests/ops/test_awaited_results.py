"""A plain function that returns a coroutine or a generator where nobody runs it fails on its record."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock import Printed, ProcessingError, Processor, PunctuationType, ValueTransformerWithKey
from support.flows import Run, source


@pytest.fixture(autouse=True)
def without_a_coroutine_left_over() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


async def later(value: Any) -> Any:
    return value


def each(value: Any) -> Iterator[Any]:
    yield value


def coroutine(*arguments: Any) -> Any:
    return later(1) if arguments[-1] == 2 or not isinstance(arguments[-1], int) else arguments[-1]


def generator(*arguments: Any) -> Any:
    return each(1) if arguments[-1] == 2 else arguments[-1]


def topic(key: Any, value: Any) -> Any:
    return later("out") if value == 2 else "out"


def depth_first(stream: Any, function: Any) -> None:
    stream.group_by_key().count("counts")
    stream.process(lambda record, context: function(record.value), "counts")


STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "filter": lambda s, f: s.filter(lambda k, v: f(v)).foreach(lambda k, v: None),
    "filter_not": lambda s, f: s.filter_not(lambda k, v: f(v)).foreach(lambda k, v: None),
    "branch": lambda s, f: s.split("x-").branch(lambda k, v: f(v), "y").default_branch("z")["x-y"].foreach(print),
    "foreach": lambda s, f: s.foreach(lambda k, v: f(v)),
    "peek": lambda s, f: s.peek(lambda k, v: f(v)),
    "print": lambda s, f: s.print(Printed.to_sys_out().with_key_value_mapper(lambda k, v: f(v))),
    "map_values": lambda s, f: s.map_values(lambda v: f(v)).foreach(lambda k, v: None),
    "map": lambda s, f: s.map(lambda k, v: (k, f(v))).foreach(lambda k, v: None),
    "map of the key": lambda s, f: s.map(lambda k, v: (f(v), v)).foreach(lambda k, v: None),
    "select_key": lambda s, f: s.select_key(lambda k, v: f(v)).foreach(lambda k, v: None),
    "flat_map_values": lambda s, f: s.flat_map_values(lambda v: [f(v)]).foreach(lambda k, v: None),
    "flat_map": lambda s, f: s.flat_map(lambda k, v: [(k, f(v))]).foreach(lambda k, v: None),
    "table filter": lambda s, f: s.to_table().filter(lambda k, v: f(v), store="some"),
    "table map_values": lambda s, f: s.to_table().map_values(lambda v: f(v)).to_stream().foreach(lambda k, v: None),
    "aggregate": lambda s, f: s.group_by_key().aggregate(int, lambda k, v, total: f(v)),
    "reduce": lambda s, f: s.group_by(lambda k, v: "all").reduce(lambda total, v: f(v)),
    "join": lambda s, f: s.join(s.to_table(), lambda v, other: f(v)).foreach(lambda k, v: None),
    "process": lambda s, f: s.process(lambda record, context: f(record.value)),
    "process beside a step that shares its store": depth_first,
    "deduplicate": lambda s, f: s.deduplicate(lambda k, v: f(v), "1 s").foreach(lambda k, v: None),
    "partitioner": lambda s, f: s.to("out", partitioner=lambda k, v, n: f(v) if v == 2 else 0),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize(("gives", "kind"), [(coroutine, "coroutine"), (generator, "generator")])
def test_the_record_fails_for_which_it_comes(run: Run, name: str, gives: Any, kind: str, capsys: Any):
    builder, stream = source(value=int)
    STEPS[name](stream, gives)
    with pytest.raises(ProcessingError, match=rf"(?s)offset 1: .*{kind}.*given to the step at {__file__}"):
        run(builder, [("a", 1, 1), ("b", 2, 2), ("c", 3, 3)]).dropped()


def test_the_others_go_on_where_such_records_are_left_out(run: Run):
    builder, stream = source(value=int)
    stream.filter(lambda key, value: coroutine(value)).to("out")
    stream.map(lambda key, value: (key, coroutine(value))).to("pairs")
    stream.flat_map_values(lambda value: [value, coroutine(value)]).to("several")
    stream.to(topic)
    ran = run(builder, [("a", 1, 1), ("b", 2, 2), ("c", 3, 3)], on_error="skip")
    assert sorted(ran.output()) == [("a", 1, 1), ("a", 1, 1), ("c", 3, 3), ("c", 3, 3)]
    assert ran.output("pairs") == [("a", 1, 1), ("c", 3, 3)]
    assert ran.output("several") == [("a", 1, 1), ("a", 1, 1), ("c", 3, 3), ("c", 3, 3)]
    assert sum(ran.counted("skipped-records-total").values()) == 1


class Punctuated(Processor[str, int]):
    def init(self, context: Any) -> None:
        context.schedule("1 ms", PunctuationType.STREAM_TIME, lambda now: later(now))

    def process(self, record: Any) -> None: ...


class Started(Processor[str, int]):
    def init(self, context: Any) -> None:
        return later(context)  # type: ignore[return-value]

    def process(self, record: Any) -> None: ...


class Transformed(ValueTransformerWithKey[str, int]):
    def transform(self, key: Any, value: Any) -> Any:
        return later(value)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (lambda s: s.process(Punctuated), "the punctuation returned an object to await"),
        (lambda s: s.process(Started), "init returned an object to await"),
        (lambda s: s.to_table().transform_values(Transformed), "the function returned an object to await"),
    ],
)
def test_processors_fail_too(run: Run, step: Any, said: str):
    builder, stream = source(value=int)
    step(stream)
    with pytest.raises(ProcessingError, match=said):
        run(builder, [("a", 1, 1)]).dropped()
