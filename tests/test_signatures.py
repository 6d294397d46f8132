"""Calls whose arguments do not fit, as users of Kafka Streams write them: the message says how they are."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import penstock
from penstock import (
    ArgumentsError,
    Consumed,
    JoinWindows,
    Kafka,
    Materialized,
    SchemaRegistry,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    columnar,
    consume,
    open_store,
    produce,
)
from penstock.errors import ConfigError
from penstock.testing import TopologyTestDriver, pipe
from penstock.usage.signatures import telling

BUILDER = StreamsBuilder()
STREAM = BUILDER.stream("in", value=str)
TABLE = BUILDER.table("rows", value=str, store="rows")
GROUPED = STREAM.group_by_key()
_LATE = "to drop all late records"
_SIZE = f"write TimeWindows.of_size_and_grace(size, grace), or TimeWindows.of_size_with_no_grace(size) {_LATE}"
_GAP = (
    "write SessionWindows.of_inactivity_gap_and_grace(gap, grace), or "
    f"SessionWindows.of_inactivity_gap_with_no_grace(gap) {_LATE}"
)
_SLIDING = (
    "write SlidingWindows.of_time_difference_and_grace(difference, grace), or "
    f"SlidingWindows.of_time_difference_with_no_grace(difference) {_LATE}"
)
_JOINED = _SLIDING.replace("SlidingWindows", "JoinWindows")

CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "windows by their constructor": (
        lambda: TimeWindows(1000),
        f"TimeWindows at HERE: got TimeWindows(1000); {_SIZE}",
    ),
    "windows without grace": (
        lambda: TimeWindows.of_size_and_grace("1 h"),
        f"TimeWindows.of_size_and_grace at HERE: got TimeWindows.of_size_and_grace('1 h'); {_SIZE}",
    ),
    "sessions by their constructor": (
        lambda: SessionWindows("1 h"),
        f"SessionWindows at HERE: got SessionWindows('1 h'); {_GAP}",
    ),
    "sessions without grace": (
        lambda: SessionWindows.of_inactivity_gap_and_grace("1 h"),
        "SessionWindows.of_inactivity_gap_and_grace at HERE: got SessionWindows.of_inactivity_gap_and_grace('1 h'); "
        f"{_GAP}",
    ),
    "windows of a join by their constructor": (
        lambda: JoinWindows("1 h"),
        f"JoinWindows at HERE: got JoinWindows('1 h'); {_JOINED}",
    ),
    "windows of a join without grace": (
        lambda: JoinWindows.of_time_difference_and_grace(5),
        f"JoinWindows.of_time_difference_and_grace at HERE: got JoinWindows.of_time_difference_and_grace(5); {_JOINED}",
    ),
    "sliding windows by their constructor": (
        lambda: SlidingWindows(5),
        f"SlidingWindows at HERE: got SlidingWindows(5); {_SLIDING}",
    ),
    "too many arguments": (
        lambda: TimeWindows.of_size_with_no_grace("1 h", 5),
        "TimeWindows.of_size_with_no_grace at HERE: too many positional arguments; got "
        "TimeWindows.of_size_with_no_grace('1 h', 5); expected TimeWindows.of_size_with_no_grace(size)",
    ),
    "an argument by a name of Java's": (
        lambda: Stores.persistent_window_store("x", 5, windowSize=5),
        "persistent_window_store at HERE: there is no argument 'windowSize' (did you mean 'window_size'?); got "
        "persistent_window_store('x', 5, windowSize=5); expected persistent_window_store(name, retention_period, "
        "window_size, retain_duplicates=..., segment_interval=...)",
    ),
    "a step without its function": (
        lambda: STREAM.filter(),
        "filter at HERE: missing a required argument: 'predicate'; got filter(); expected filter(predicate, name=...)",
    ),
    "an argument that there is not": (
        lambda: STREAM.map_values(str, valu=str),
        "map_values at HERE: there is no argument 'valu' (did you mean 'value'?); got map_values(str, "
        "valu=str); expected map_values(mapper, value=..., name=...)",
    ),
    "an argument by a name of another library's": (
        lambda: StreamsBuilder().stream("in", value_serde=str),
        "stream at HERE: there is no argument 'value_serde' (did you mean 'value'?); got stream('in', "
        "value_serde=str); expected "
        "stream(topic, key=..., value=..., timestamp=..., name=..., offset_reset=..., consumed=..., ...)",
    ),
    "a join of streams without windows": (
        lambda: STREAM.outer_join(5, lambda left, right: left),
        "outer_join at HERE: missing a required argument: 'windows'; got outer_join(5, lambda); "
        "expected outer_join(other, joiner, windows, "
        "stream_joined=..., value=..., name=..., joined=...); the joiner is a function of (left, right), and the "
        "windows say how far apart the two records may be, such as "
        "JoinWindows.of_time_difference_and_grace(difference, grace)",
    ),
    "a join of streams with nothing but the other one": (
        lambda: STREAM.join(5),
        "join at HERE: missing a required argument: 'joiner'; got join(5); expected join(other, joiner, windows=..., "
        "stream_joined=..., value=..., name=..., key_selector=..., grace=..., ...); the joiner is a function of (left, "
        "right); two streams also need JoinWindows.of_time_difference_and_grace(difference, grace)",
    ),
    "a join without a joiner": (
        lambda: TABLE.outer_join(5),
        "outer_join at HERE: missing a required argument: 'joiner'; got outer_join(5); expected outer_join(other, "
        "joiner, value=..., store=..., materialized=..., name=..., versioned_join=...); the joiner is a function of "
        "(left, right)",
    ),
    "an aggregation without an aggregator": (
        lambda: GROUPED.aggregate(int),
        "aggregate at HERE: missing a required argument: 'aggregator'; got aggregate(int); expected "
        "aggregate(initializer, aggregator, value=..., store=..., materialized=..., name=..., merger=..., windows=...)",
    ),
    "a table's aggregation without a subtractor": (
        lambda: TABLE.group_by(lambda key, value: (value, key)).reduce(max),
        "reduce at HERE: missing a required argument: 'subtractor'; got reduce(<built-in function max>); expected "
        "reduce(adder, subtractor, store=..., materialized=..., name=...); a row that changes is taken out of its old "
        "group by the subtractor",
    ),
    "a start without an id": (
        lambda: BUILDER.build().start(),
        "start at HERE: missing a required argument: 'application_id'; got start(); expected start(application_id, "
        "log=..., spark=..., trigger=..., slots=..., on_progress=..., state_restore_listener=..., ..., **settings); "
        "the application id names the state and the internal topics, such as 'my-application'",
    ),
    "an option object without its name": (
        lambda: Materialized.as_(),
        "as_ at HERE: missing a required argument: 'store'; got as_(); expected as_(store)",
    ),
    "a source without a topic": (
        lambda: StreamsBuilder().stream(),
        "stream at HERE: missing a required argument: 'topic'; got stream(); expected stream(topic, key=..., "
        "value=..., timestamp=..., name=..., offset_reset=..., consumed=..., ...)",
    ),
    "a topic that is not named": (
        lambda: produce([("a", "b")]),
        "produce at HERE: missing a required argument: 'topic'; got produce([('a', 'b')]); expected produce(rows, "
        "topic, key=..., value=..., log=..., partitions=..., timestamp_unit=...)",
    ),
    "a cluster without servers": (
        lambda: Kafka(),
        "Kafka at HERE: missing a required argument: 'servers'; got Kafka(); expected Kafka(servers, options=..., "
        "timeout=...)",
    ),
}


def message(call: Callable[[], Any]) -> str:
    with pytest.raises(ArgumentsError) as refused:
        call()
    assert isinstance(refused.value, TypeError)
    assert isinstance(refused.value, ConfigError)
    return re.sub(re.escape(__file__) + r":\d+", "HERE", str(refused.value))


@pytest.mark.parametrize("name", CALLS)
def test_a_call_whose_arguments_do_not_fit_says_how_it_is_written(name: str):
    call, said = CALLS[name]
    assert message(call) == said


def told() -> dict[str, Callable[..., Any]]:
    """All that a user may call: functions of the package, and the methods of classes whose names are Kafka's."""
    driver = TopologyTestDriver(BUILDER.build())
    windows = TimeWindows.of_size_with_no_grace(5)
    owners = [
        *(BUILDER, STREAM, TABLE, GROUPED, GROUPED.windowed_by(windows), StreamsBuilder().stream("in").split()),
        *(BUILDER.build(), driver, driver.create_input_topic("in")),
        *(TimeWindows, SessionWindows, JoinWindows, windows, Stores, Materialized, Consumed, Materialized.as_("x")),
    ]
    found: dict[str, Callable[..., Any]] = {
        one.__name__: one
        for one in (produce, penstock.produce_columns, consume, open_store, penstock.write, pipe, columnar)
    }
    found |= {one.__name__: one for one in (Kafka, SchemaRegistry, TimeWindows, TopologyTestDriver)}
    for owner in owners:
        for name, method in inspect.getmembers(owner, callable):
            if not name.startswith("_"):
                kind = owner.__name__ if isinstance(owner, type) else type(owner).__name__
                found[f"{kind}.{name}"] = method
    return found


def lacks_something(call: Callable[..., Any]) -> bool:
    plain = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    return any(
        one.default is one.empty and one.kind not in plain for one in inspect.signature(call).parameters.values()
    )


@pytest.mark.parametrize("name", [name for name, call in told().items() if lacks_something(call)])
def test_every_call_without_its_arguments_is_refused_with_a_word_of_ours(name: str):
    assert "HERE: " in message(told()[name])


def test_a_type_error_of_another_kind_stays_what_it_is():
    @telling
    def adds(one: int) -> int:
        return one + "text"  # type: ignore[operator]

    with pytest.raises(TypeError, match="unsupported operand") as failure:
        adds(1)
    assert not isinstance(failure.value, ArgumentsError)
