"""``Grouped`` and ``Repartitioned``: how records get to where their keys are (KS-11)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import Grouped, Repartitioned, consume
from penstock.errors import ConfigError, TopologyError
from penstock.log.base import TopicInfo
from penstock.plan.nodes import Repartition
from penstock.serdes import FLOAT, INT
from support.flows import of_rows, source
from support.world import World

pytestmark = pytest.mark.kip("KS-11")


def repartition(builder: Any) -> Repartition:
    [made] = [node for node in builder.build().nodes if isinstance(node, Repartition)]
    return made


# --- Grouped -----------------------------------------------------------------------------------------------------


def by_first(key: Any, value: Any) -> Any:
    return 7


GROUPINGS: list[Any] = [
    lambda stream, grouped: stream.group_by(by_first, grouped),
    lambda stream, grouped: stream.group_by(by_first, grouped=grouped),
    lambda stream, grouped: stream.select_key(by_first, key=int).group_by_key(grouped),
    lambda stream, grouped: stream.select_key(by_first, key=int).group_by_key(grouped=grouped),
    lambda stream, grouped: stream.to_table().group_by(lambda key, value: (7, value), grouped),
    lambda stream, grouped: stream.to_table().group_by(lambda key, value: (7, value), grouped=grouped),
]


@pytest.mark.parametrize("group", GROUPINGS)
def test_a_groups_types_and_the_name_of_its_topic_are_those_of_a_grouped(group: Any):
    builder, stream = source(value=float)
    counts = group(stream, Grouped.with_("by-first", int, float)).count()
    made = repartition(builder)
    assert (made.topic, made.key, made.value) == ("by-first-repartition", INT, FLOAT)
    assert counts._key == INT


def test_groups_are_counted_by_keys_of_its_type():
    builder, stream = source(value=int)
    stream.group_by(lambda key, value: value % 2, Grouped.key_serde(int)).count().to_stream().to("out")
    assert of_rows(builder, [("a", 1, 10), ("b", 3, 11), ("c", 4, 12)]).output() == [(1, 1, 10), (1, 2, 11), (0, 1, 12)]


def test_what_a_grouped_does_not_say_is_the_streams_or_a_keywords():
    builder, stream = source(key=int, value=float)
    stream.select_key(by_first, key=int).group_by_key(Grouped.as_("mine")).count()
    assert (repartition(builder).key, repartition(builder).value) == (INT, FLOAT)
    builder, stream = source()
    stream.group_by(by_first, key=int, name="mine", grouped=Grouped.value_serde(float)).count()
    made = repartition(builder)
    assert (made.topic, made.key, made.value) == ("mine-repartition", INT, FLOAT)


@pytest.mark.parametrize("group", GROUPINGS)
def test_names_and_numbers_with_a_grouped_are_those_without_one(group: Any):
    described = []
    for grouped in (Grouped.with_(int, float), Grouped.with_(key=int, value=float), None):
        builder, stream = source(value=float)
        group(stream, grouped).count("kept").to_stream().to("out")
        described.append(builder.build().describe())
    assert described[0] == described[1] == described[2]
    assert "kept-repartition" in described[0]


def test_a_groupeds_name_is_that_of_the_step_that_changes_keys_too():
    builder, stream = source(value=float)
    stream.group_by(by_first, Grouped.as_("by-first")).count("kept")
    assert "Processor: by-first (stores: [])\n      --> by-first-repartition-filter\n" in builder.build().describe()


def test_the_name_of_a_grouped_comes_first_or_not_at_all():
    whole = Grouped.as_("n").with_key_serde(int).with_value_serde(float)
    assert Grouped.with_("n", int, float) == Grouped.with_(int, float).with_name("n") == whole
    assert Grouped.with_(name="n", key=int, value=float) == whole
    with pytest.raises(ConfigError, match=r"Grouped.with_ takes \(name, key, value\) or \(key, value\); got \('n'\)"):
        Grouped.with_("n")


TWICE: list[tuple[Any, str]] = [
    (
        lambda stream, grouped: stream.group_by(by_first, grouped, value=float),
        r"group_by at .*test_repartitioned.py:\d+: give value= once, not in grouped= as well; got <serde float> and",
    ),
    (
        lambda stream, grouped: stream.group_by(by_first, key=float, grouped=grouped),
        "group_by at .*: give key= once, not in grouped= as well; got <serde float> and <serde int>",
    ),
    (
        lambda stream, grouped: stream.group_by_key(name="other", grouped=grouped),
        "group_by_key at .*: give name= once, not in grouped= as well; got 'other' and 'mine'",
    ),
    (
        lambda stream, grouped: stream.to_table().group_by(lambda key, value: (key, value), grouped, name="other"),
        "group_by at .*: give name= once, not in grouped= as well; got 'other' and 'mine'",
    ),
    (
        lambda stream, grouped: stream.group_by_key(grouped, grouped=grouped),
        "group_by_key at .*: give grouped= once; got Grouped",
    ),
    (
        lambda stream, grouped: stream.group_by_key(grouped=Repartitioned.as_("x")),
        "grouped= of group_by_key at .* must be of type Grouped; got Repartitioned",
    ),
]


@pytest.mark.parametrize(("group", "said"), TWICE)
def test_what_is_said_twice_of_a_group_is_refused_and_both_are_named(group: Any, said: str):
    _, stream = source(value=int)
    with pytest.raises(TopologyError, match=said):
        group(stream, Grouped.with_("mine", int, int))


# --- Repartitioned -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_keyword", [False, True])
def test_a_topics_name_types_and_partitions_are_those_of_a_repartitioned(by_keyword: bool):
    given = Repartitioned.as_("wide").with_key_serde(int).with_value_serde(float).with_number_of_partitions(4)
    builder, stream = source()
    made = stream.repartition(repartitioned=given) if by_keyword else stream.repartition(given)
    made.to("out")
    assert (made._key, made._value) == (INT, FLOAT)
    topic = repartition(builder)
    assert (topic.topic, topic.key, topic.value, topic.partitions) == ("wide-repartition", INT, FLOAT, 4)


def test_what_a_repartitioned_does_not_say_is_the_streams_or_a_keywords():
    builder, stream = source(key=int, value=float)
    stream.repartition(Repartitioned.number_of_partitions(3)).to("out")
    topic = repartition(builder)
    assert (topic.key, topic.value, topic.partitions) == (INT, FLOAT, 3)
    builder, stream = source(value=float)
    stream.repartition("mine", repartitioned=Repartitioned.with_(int)).to("out")
    topic = repartition(builder)
    assert (topic.topic, topic.key, topic.value) == ("mine-repartition", INT, FLOAT)


def test_names_and_numbers_with_a_repartitioned_are_those_without_one():
    described = []
    for given in (Repartitioned.with_(str, int), None):
        builder, stream = source(value=int)
        stream.repartition(given).filter(lambda key, value: value).to("out")
        described.append(builder.build().describe())
    assert described[0] == described[1]
    assert "KSTREAM-REPARTITION-0000000001-repartition" in described[0]


@pytest.mark.parametrize(
    "given",
    [
        Repartitioned.stream_partitioner(lambda key, value, partitions: int(key) % partitions).with_name("n"),
        Repartitioned.as_("n").with_stream_partitioner(lambda key, value, partitions: int(key) % partitions),
    ],
)
def test_its_partitioner_and_number_of_partitions_say_which_task_has_a_record(tmp_path: Path, given: Repartitioned):
    builder, stream = source(value=str)
    (
        stream.repartition(given.with_number_of_partitions(3))
        .map_values(lambda value, context: context.partition, value=int)
        .to("out")
    )
    world = World(tmp_path, builder.build())
    world.log.create_topic(TopicInfo("in", 2, "str", "str"))
    world.produce(*"012345")
    world.start().run_until()
    assert {(r.key, r.value) for r in consume("out", log=world.log)} == {(str(n), n % 3) for n in range(6)}


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"partitions": 2}, r"repartition at .*: give partitions= once, not in repartitioned= as well; got 2 and 4"),
        ({"value": int}, "give value= once, not in repartitioned= as well; got <serde int> and <serde float>"),
        ({"repartitioned": Repartitioned.as_("x")}, "repartition at .*: give repartitioned= once; got Repartitioned"),
    ],
)
def test_what_is_said_twice_of_a_topic_is_refused_and_both_are_named(keywords: dict[str, Any], said: str):
    _, stream = source(value=float)
    with pytest.raises(TopologyError, match=said):
        stream.repartition(Repartitioned.with_(str, float).with_number_of_partitions(4), **keywords)


def test_a_number_of_partitions_is_one():
    with pytest.raises(TopologyError, match=r"the partitions of repartition at .* must be of type int; got '4'"):
        Repartitioned.number_of_partitions("4")


def test_a_mistyped_number_of_partitions_is_refused():
    said = r"the partitions of repartition at \S+: a topic has at most 100,000 partitions, got 1,000,000,000; each one"
    with pytest.raises(TopologyError, match=said):
        Repartitioned.as_("wide").with_number_of_partitions(10**9)
