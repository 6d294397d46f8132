"""Option objects keep what they were given: every method of every class, in every order, on class and instance (KS-11).

Classes and methods are found by looking; a new one is covered by being there, or fails here until it has an argument
to be called with.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

import penstock
from penstock import (
    BufferConfig,
    CloseOptions,
    Consumed,
    Deduplicated,
    Joined,
    JoinWindows,
    Materialized,
    Produced,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
)
from penstock.dsl.suppressed import EagerBufferConfig, StrictBufferConfig
from penstock.errors import ConfigError, TopologyError
from penstock.plan.options import Options, option
from penstock.serdes import FLOAT, INT, STR
from penstock.testing import TopologyTestDriver
from support.flows import source

pytestmark = pytest.mark.kip("KS-11")

ARGUMENTS: dict[str, Any] = {
    "store": "a-store",
    "store_name": "a-store",
    "name": "a-name",
    "key": int,
    "value": float,
    "other_value": bytes,
    "key_serde": int,
    "value_serde": float,
    "grace_period": 7,
    "retention": 1000,
    "history_retention": 2000,
    "segment_interval": 300,
    "count": 5,
    "size": 60,
    "time_to_wait": 11,
    "duration": 13,
    "config": None,
    "buffer": None,
    "path": "seen.txt",
    "label": "a-label",
    "mapper": max,
    "timestamp": "at",
    "offset_reset": "latest",
    "partitioner": max,
    "other_partitioner": min,
    "partitions": 4,
    "chain": print,
    "timeout": 9,
    "supplier": Stores.in_memory_window_store("a-window-store", 60, 30, retain_duplicates=True),
    "suppliers": "in_memory",
    "operation": CloseOptions.REMAIN_IN_GROUP,
}
"""What methods are called with, by the names of their parameters."""

NOT_BY_NAME: dict[str, tuple[Any, ...]] = {
    "Deduplicated.with_": ("a-store", int, float),
    "Grouped.with_": ("a-name", int, float),
}

SETS: dict[str, set[str]] = {
    "Materialized.with_caching_enabled": {"caching"},
    "BufferConfig.emit_early_when_full": {"when_full"},
    "BufferConfig.unbounded": {"record_limit", "byte_limit", "when_full"},
    "BufferConfig.with_no_bound": {"record_limit", "byte_limit", "when_full"},
    "BufferConfig.with_logging_disabled": set(),
    "BufferConfig.with_logging_enabled": set(),
    "Suppressed.until_window_closes": {"time_ms"},
    "Materialized.with_logging_enabled": set(),
    "Materialized.with_logging_disabled": set(),
    "StreamJoined.with_logging_enabled": set(),
    "StreamJoined.with_logging_disabled": set(),
    "Materialized.as_versioned": {"store", "kind", "history_retention_ms", "segment_interval_ms"},
    "Materialized.in_memory": {"kind"},
    "Printed.to_sys_out": {"file"},
}
"""What a method sets, where calling it on the class does not show it because that is the default."""


def option_classes() -> list[type[Options]]:
    every = [cls for cls in Options.__subclasses__() if cls.__module__.startswith("penstock.")]
    return [cls for cls in every if not cls.__module__.endswith(".options")]


def methods_of(cls: type[Options]) -> dict[str, option[Any, Any]]:
    return {name: method for name, method in vars(cls).items() if isinstance(method, option)}


def call(cls: type[Options], name: str, so_far: Options | None) -> Any:
    """A method's result, called on what was said so far, or on the class."""
    method = getattr(cls if so_far is None else so_far, name)
    given = NOT_BY_NAME.get(f"{cls.__name__}.{name}")
    if given is None:
        given = tuple(ARGUMENTS[parameter] for parameter in inspect.signature(method).parameters)
    return method(*given)


def said(options: Options) -> dict[str, Any]:
    return {field.name: getattr(options, field.name) for field in fields(options)}


def sets(cls: type[Options], name: str) -> set[str]:
    """The fields that a method is about."""
    known = SETS.get(f"{cls.__name__}.{name}")
    if known is not None:
        return known
    fresh = said(cls._nothing_said())
    changed = {field for field, value in said(call(cls, name, None)).items() if value != fresh[field]}
    assert changed, f"{cls.__name__}.{name} changes nothing; say in SETS which field it sets to the default"
    return changed


def orders(cls: type[Options]) -> Iterator[tuple[str, ...]]:
    """Every method once, and before and after every other one, and between every two."""
    for length in (1, 2, 3):
        yield from itertools.permutations(methods_of(cls), length)


@pytest.mark.parametrize("cls", option_classes(), ids=lambda cls: cls.__name__)
def test_what_was_said_before_is_kept_by_every_method_in_every_order(cls: type[Options]):
    about = {name: sets(cls, name) for name in methods_of(cls)}
    assert about
    for order in orders(cls):
        options: Options | None = None
        for name in order:
            before = said(cls._nothing_said() if options is None else options)
            try:
                options = call(cls, name, options)
            except ConfigError:
                break  # what does not go together is refused, and nothing is lost
            lost = {field for field, value in said(options).items() if value != before[field]} - about[name]
            assert not lost, f"{'.'.join(order)}: {name} changed {sorted(lost)} of {before}"


@pytest.mark.parametrize("cls", option_classes(), ids=lambda cls: cls.__name__)
def test_methods_of_different_things_may_be_said_in_any_order(cls: type[Options]):
    about = {name: sets(cls, name) for name in methods_of(cls)}
    for one, other in itertools.combinations(about, 2):
        if not about[one] & about[other]:
            first = call(cls, other, call(cls, one, None)) if _go_together(cls, one, other) else None
            second = call(cls, one, call(cls, other, None)) if _go_together(cls, other, one) else None
            assert first == second, f"{one} and {other}"


def _go_together(cls: type[Options], one: str, other: str) -> bool:
    try:
        call(cls, other, call(cls, one, None))
    except ConfigError:
        return False
    return True


def test_every_public_class_with_options_is_one_of_these():
    for name in penstock.__all__:
        public = getattr(penstock, name)
        if (
            inspect.isclass(public)
            and not issubclass(public, Exception)
            and any(method.startswith("with_") for method in dir(public))
            and public not in (penstock.Record, penstock.StoreBuilder)  # which are of something, never of nothing
            and public is not SessionWindows  # whose with_ makes them, as Kafka's once did
            and not public.__module__.startswith("penstock.query.")  # questions, which say what is asked for
        ):
            assert issubclass(public, Options), f"{name} has with_* methods; make it one of plan/options.py"
            plain = [m for m in dir(public) if m.startswith("with_") and m not in _declared(public)]
            assert not plain, f"{name}.{plain} is no @option"


def _declared(cls: type[Options]) -> set[str]:
    return {name for one in cls.__mro__ if issubclass(one, Options) for name in methods_of(one)}


WINDOWS: dict[Any, list[Any]] = {
    TimeWindows.of_size_with_no_grace(100): [
        lambda windows: windows.advance_by(50),
        lambda windows: windows.grace(7),
        lambda windows: windows.until(500),
    ],
    SlidingWindows.of_time_difference_with_no_grace(100): [lambda windows: windows.grace(7)],
    SessionWindows.of_inactivity_gap_with_no_grace(100): [
        lambda windows: windows.grace(7),
        lambda windows: windows.until(500),
    ],
    UnlimitedWindows.of(): [lambda windows: windows.grace(7), lambda windows: windows.start_on(5)],
    JoinWindows.of_time_difference_with_no_grace(100): [
        lambda windows: windows.before(30),
        lambda windows: windows.after(20),
        lambda windows: windows.grace(7),
        lambda windows: windows.until(500),
    ],
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("windows", WINDOWS, ids=lambda windows: type(windows).__name__)
def test_windows_are_the_same_in_whatever_order_they_were_described(windows: Any):
    made = set()
    for order in itertools.permutations(WINDOWS[windows]):
        described = windows
        for step in order:
            described = step(described)
        made.add(described)
    assert len(made) == 1
    assert made != {windows}


# --- the defects that were found -------------------------------------------------------------------------------------


def test_a_name_keeps_the_grace_period_and_the_types_of_a_join():
    assert Joined.with_(int, float).with_grace_period(10).with_name("w") == Joined(INT, FLOAT, "w", 10)
    assert Joined.with_name("w").with_grace_period(10).with_(int, float) == Joined(INT, FLOAT, "w", 10)


@pytest.mark.kip("KS-20")
def test_the_types_of_a_join_with_a_table_may_be_all_three_as_in_kafka_streams():
    """A table has its own types, so the third one can only be that."""
    builder = StreamsBuilder()
    prices, orders = builder.table("prices", str, int), builder.stream("orders", str, int)
    orders.join(prices, lambda amount, price: amount * price, Joined.with_(str, int, int)).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_input("prices", "tea", 3)
        driver.pipe_input("orders", "tea", 4)
        assert [record.value for record in driver.read_output("out")] == [12]
    with pytest.raises(TopologyError, match=r"of the table are of .*int.*, and Joined says .*str.*; leave the"):
        orders.left_join(prices, lambda amount, price: amount, Joined.with_(str, int, str))


def test_the_join_of_a_stream_waits_as_long_as_was_said_before_its_name_was():
    builder = StreamsBuilder()
    prices = builder.table("prices", value=int, materialized=Materialized.as_versioned("prices", "1 day"))
    joined = Joined.with_(str, int).with_grace_period(10).with_name("w")
    builder.stream("orders", value=int).join(prices, lambda amount, price: amount * price, joined=joined).to("out")
    assert "w (stores: [w-Buffer" in builder.build().describe()


def test_types_and_names_of_stores_may_be_said_in_any_order():
    kept = Materialized.with_caching_disabled().with_(str, int).as_("mine").with_retention(50)
    assert kept == Materialized(store="mine", key=STR, value=INT, retention_ms=50, caching=False)
    assert StreamJoined.in_memory().with_(int).as_("mine").with_name("n") == StreamJoined(
        "mine", "n", "in_memory", key=INT
    )
    assert Deduplicated.as_("once").with_("ids", str, int) == Deduplicated("once", "ids", str, int)
    assert Deduplicated.with_(str, int).key_serde(int).as_("once") == Deduplicated("once", None, int, int)


def test_a_versioned_store_may_be_put_into_memory_and_get_its_segments_before_it_is_named():
    kept = Materialized.in_memory().with_segment_interval(300).as_versioned("prices", 2000)
    assert kept == Materialized.as_versioned("prices", 2000, 300).in_memory()
    on_disk = Materialized.in_memory().as_(Stores.persistent_versioned_key_value_store("prices", 2000))
    assert on_disk.kind == "versioned"


def test_a_buffers_limits_and_what_it_does_when_full_are_kept():
    spills = BufferConfig.max_records(5).spill_to_disk_when_full().with_no_bound().with_max_bytes(60)
    assert spills == StrictBufferConfig(None, 60, "spill_to_disk")
    assert BufferConfig.with_max_records(5).max_bytes(60) == EagerBufferConfig(5, 60)
    assert BufferConfig.max_records(5).with_no_bound() == BufferConfig.unbounded()


def test_a_suppressions_time_and_buffer_may_be_said_after_its_name():
    limited = Suppressed.with_name("calm").until_time_limit(11, BufferConfig.max_records(5))
    assert limited == Suppressed.until_time_limit(11, BufferConfig.max_records(5)).with_name("calm")
    with pytest.raises(ConfigError, match="with_idle_advance is for until_window_closes"):
        Suppressed.with_idle_advance(13).until_time_limit(11)
    with pytest.raises(ConfigError, match="cannot send it early"):
        limited.until_window_closes()
    with pytest.raises(TopologyError, match=r"'a b' at .* cannot be a name"):
        Suppressed.with_name("a b")


def test_a_name_given_twice_is_refused_and_not_dropped():
    _, stream = source(value=str)
    near = JoinWindows.of_time_difference_with_no_grace(5)
    with pytest.raises(TopologyError, match="give name= once, not in stream_joined= as well; got 'other' and 'one'"):
        stream.join(stream, lambda a, b: a, near, StreamJoined.with_name("one"), name="other")


@pytest.mark.parametrize("read", ["table", "global_table"])
def test_a_topic_is_read_with_the_types_that_its_table_is_kept_with(read: str):
    builder = StreamsBuilder()
    table = getattr(builder, read)("numbers", materialized=Materialized.as_("kept").with_(int, float))
    assert (table._key, table._value) == (INT, FLOAT)
    with pytest.raises(TopologyError, match=rf"{read} at .*: value= is str, but the Materialized says float"):
        getattr(builder, read)("texts", value=str, materialized=Materialized.with_(value=float))


def test_types_that_the_join_with_a_global_table_has_no_use_for_are_refused():
    builder = StreamsBuilder()
    cities = builder.global_table("cities", value=str)
    with pytest.raises(TopologyError, match="a join with a global table has no such topic; leave them out"):
        builder.stream("in").join(cities, lambda a, b: b, key_selector=lambda k, v: k, joined=Joined.with_(str, int))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda s: s.to("out", Consumed.with_(str, str)), "key at HERE: a Consumed is no type"),
        (
            lambda s: s.map_values(lambda value: value, Materialized.as_("m")),
            "value at HERE: a Materialized is no type",
        ),
        (
            lambda s: s.group_by(lambda key, value: value, Produced.with_(str, str)),
            "key at HERE: a Produced is no type",
        ),
    ],
)
def test_options_of_another_step_are_told_from_types(call: Any, said: str):
    stream = StreamsBuilder().stream("in", value=str)
    with pytest.raises(ConfigError) as refused:
        call(stream)
    assert re.sub(r" at \S+:\d+", " at HERE", str(refused.value)).startswith(
        f"{said}; give it under the name of its own argument, where this step takes one. For "
    )
