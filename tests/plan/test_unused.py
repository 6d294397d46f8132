"""Steps whose results nothing uses are told at their lines."""

import re
import warnings

import pytest

from penstock import (
    BufferConfig,
    JoinWindows,
    PenstockWarning,
    Stores,
    StreamsBuilder,
    Suppressed,
)
from penstock.testing import TopologyTestDriver

NEVER = BufferConfig.unbounded()
NEAR = JoinWindows.of_time_difference_with_no_grace("1 minute")


async def noted(value: str) -> str:
    return value


def told(steps) -> list[str]:
    """The warnings of a topology that writes a topic, too."""
    builder = StreamsBuilder()
    stream = builder.stream("in", str, str)
    stream.to("out")
    steps(builder, stream)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        TopologyTestDriver(builder.build())
    assert all(one.filename == __file__ and one.category is PenstockWarning for one in given)
    return [str(one.message).partition(" at ")[0] for one in given]


def in_short(message: object) -> str:
    """A message, with HERE for the places in this file."""
    return re.sub(re.escape(__file__) + r":\d+", "HERE", str(message))


@pytest.mark.parametrize(
    ("steps", "step"),
    [
        (lambda b, s: s.filter(lambda key, value: True), "KSTREAM-FILTER-0000000002"),
        (lambda b, s: s.select_key(lambda key, value: value), "select_key"),
        (lambda b, s: s.deduplicate_by_key("1 hour"), "KSTREAM-DEDUPLICATE-0000000002"),
        (lambda b, s: s.repartition(), "KSTREAM-SOURCE-0000000005"),
        (lambda b, s: s.split().branch(lambda key, value: True).default_branch(), "KSTREAM-BRANCH-0000000002"),
        (lambda b, s: s.join(b.table("t", str, str), max), "KSTREAM-JOIN-0000000005"),
        (lambda b, s: s.join(b.stream("other", str, str), max, NEAR), "KSTREAM-MERGE-0000000007"),
        (lambda b, s: b.table("t", str, str).filter(lambda key, value: True), "KTABLE-FILTER-0000000005"),
        (lambda b, s: s.group_by_key().count().to_stream(), "KTABLE-TOSTREAM-0000000004"),
        (
            lambda b, s: s.group_by_key().count("n").suppress(Suppressed.until_time_limit("1 minute", NEVER)),
            "KTABLE-SUPPRESS-0000000003",
        ),
        (lambda b, s: b.stream("other", str, str), "KSTREAM-SOURCE-0000000002"),
        (lambda b, s: b.table("t", str, str), "KTABLE-SOURCE-0000000004"),
    ],
)
def test_a_step_whose_results_nothing_uses_is_told_at_its_line(steps, step):
    assert told(steps) == [f"nothing uses the results of {step}"]


def test_the_warning_says_where_and_what_to_do():
    builder = StreamsBuilder()
    stream = builder.stream("in")
    stream.to("out")
    stream.filter(lambda key, value: True, name="large")
    topology = builder.build()
    with pytest.warns(PenstockWarning) as given:
        TopologyTestDriver(topology)
    assert [in_short(one.message) for one in given] == [
        "nothing uses the results of large at HERE. Send them to a topic with .to(...), keep them in a table with "
        "store=..., or have a function with side effects called by foreach(...). If the step is there for later: "
        "warnings.filterwarnings('ignore', 'nothing uses')"
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TopologyTestDriver(topology)  # it is told once


@pytest.mark.parametrize(
    "steps",
    [
        lambda b, s: s.peek(print),
        lambda b, s: s.foreach(print),
        lambda b, s: s.process(lambda record, context: None),
        lambda b, s: s.map_values_async(noted),
        lambda b, s: s.group_by_key().count(),
        lambda b, s: s.group_by_key().count("counts"),
        lambda b, s: s.to_table(store="newest"),
        lambda b, s: b.table("t", str, str, store="kept"),
        lambda b, s: b.table("t", str, str).filter(lambda key, value: True, store="some"),
        lambda b, s: b.global_table("t", str, str),
        lambda b, s: s.join(b.global_table("t", str, str), max, key_selector=lambda key, value: value).to("joined"),
        lambda b, s: s.split().branch(lambda key, value: True, "a").default_branch("b")["a"].to("first"),
        lambda b, s: s.deduplicate_by_key("1 hour", dropped_to="again"),
        lambda b, s: (
            b.table("left", str, str)
            .join(b.table("right", str, str), max, foreign_key=lambda value: value)
            .to_stream()
            .to("joined")
        ),
        lambda b, s: b.add_state_store(Stores.key_value_store_builder(Stores.in_memory_key_value_store("n"), str, int)),
    ],
)
def test_a_step_with_an_effect_is_not_told(steps):
    assert told(steps) == []


def test_steps_may_be_added_by_hand_behind_those_of_a_builder():
    builder = StreamsBuilder()
    builder.stream("in").filter(lambda key, value: True, name="large")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TopologyTestDriver(builder.build().add_sink("to-out", "out", "large"))


def test_a_topology_without_any_output_runs_and_is_told():
    builder = StreamsBuilder()
    builder.stream("in").filter(lambda key, value: True, name="large")
    with pytest.warns(PenstockWarning) as given:
        TopologyTestDriver(builder.build())
    assert [in_short(one.message) for one in given] == [
        "nothing uses the results of large at HERE, and the topology has no other output. Send them to a topic with "
        ".to(...), keep them in a table with store=..., or have a function with side effects called by foreach(...). "
        "If the step is there for later: warnings.filterwarnings('ignore', 'nothing uses')"
    ]
