"""Topologies whose stores and repartition topics must have names that do not move (KIP-1111)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock import (
    Deduplicated,
    Joined,
    JoinWindows,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    Topology,
)
from penstock.engine.evolution.matching import Wishes
from penstock.errors import ConfigError, TopologyError
from penstock.log.produce import produce
from penstock.settings import Settings
from penstock.testing import TopologyTestDriver
from support.world import World

pytestmark = pytest.mark.kip("KS-12", "KIP-1111")

NEAR = JoinWindows.of_time_difference_and_grace(10, 10)


def of_all_kinds(is_named: bool) -> Topology:
    """Each step that makes a store or a repartition topic, with names for them or without."""

    def name(text: str) -> str | None:
        return text if is_named else None

    held, once, near, joined = Suppressed.until_time_limit(10), Deduplicated(), StreamJoined(), Joined()
    if is_named:
        held, once = held.with_name("held"), once.with_name("once").with_store_name("ids")
        near, joined = near.as_("near").with_name("near"), joined.as_("looked-up")
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    moved = stream.select_key(lambda key, value: value, key=str)
    table = builder.table("t", value=str, store=name("t-rows"))
    other = builder.table("u", value=str, store=name("u-rows"))
    moved.group_by_key(name("by-value")).count(name("counts")).suppress(held).to_stream().to("counts-out")
    moved.join(table, lambda a, b: a, joined=joined).to("joined-out")
    stream.left_join(moved, lambda a, b: a, NEAR, stream_joined=near).to("near-out")
    table.join(other, lambda a, b: a, foreign_key=lambda value: value, name=name("fk")).to_stream().to("fk-out")
    table.group_by(lambda k, v: (v, v), key=str, value=str, name=name("by-v")).count(name("n")).to_stream().to("n-out")
    moved.deduplicate_by_key(10, once).to("once-out")
    moved.to_table(name("kept"), name=name("to-kept")).to_stream().to("kept-out")
    stream.repartition(name("spread")).to("spread-out")
    return builder.build()


TOLD = [
    ("KSTREAM-AGGREGATE-STATE-STORE-#", 'store="..."'),
    ("KTABLE-SUPPRESS-STATE-STORE-#", 'with_name("...") of Suppressed'),
    ("t-STATE-STORE-#", 'store="..."'),
    ("KSTREAM-JOINTHIS-#-store", 'stream_joined=StreamJoined.as_("...")'),
    ("KSTREAM-OUTEROTHER-#-store", 'stream_joined=StreamJoined.as_("...")'),
    ("KSTREAM-OUTERSHARED-#-store", 'stream_joined=StreamJoined.as_("...")'),
    ("KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-#", 'name="..." of the foreign-key join'),
    ("u-STATE-STORE-#", 'store="..."'),
    ("KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-#-numbers", 'name="..." of the foreign-key join'),
    ("KTABLE-AGGREGATE-STATE-STORE-#", 'store="..."'),
    ("KSTREAM-DEDUPLICATE-STATE-STORE-#", 'with_store_name("...") of Deduplicated'),
    ("KSTREAM-AGGREGATE-STATE-STORE-#-repartition", 'group_by_key(name="...") or group_by(..., name="...")'),
    ("KSTREAM-KEY-SELECT-#-repartition", 'joined=Joined.as_("...") or with_name("...") of StreamJoined'),
    ("KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-#-topic", 'name="..." of the foreign-key join'),
    ("KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-#-topic", 'name="..." of the foreign-key join'),
    ("KTABLE-AGGREGATE-STATE-STORE-#-repartition", 'group_by_key(name="...") or group_by(..., name="...")'),
    ("KSTREAM-DEDUPLICATE-#-repartition", 'with_name("...") of Deduplicated'),
    ("KSTREAM-TOTABLE-#-repartition", 'to_table(name="...")'),
    ("KSTREAM-REPARTITION-#-repartition", 'repartition(name="...")'),
]
"""What is listed, with ``#`` for the numbers, and what to write."""


def test_what_has_a_generated_name_is_listed_with_its_place_and_what_to_write():
    with pytest.raises(TopologyError, match="require_names is set") as raised:
        TopologyTestDriver(of_all_kinds(is_named=False), require_names=True)
    told = re.findall(r"^  (store|repartition topic) (\S+), made at (\S+): (.+)$", str(raised.value), re.MULTILINE)
    topology = of_all_kinds(is_named=False)
    assert {name for _, name, _, _ in told} == {*topology.facts.named(), *topology.internal_topics}
    assert {Path(place.rpartition(":")[0]).name for _, _, place, _ in told} == {"test_unnamed.py"}
    assert [(re.sub(r"\d{10}", "#", name), advice) for _, name, _, advice in told] == TOLD


def test_where_everything_has_a_name_it_runs():
    with TopologyTestDriver(of_all_kinds(is_named=True), require_names=True) as driver:
        driver.pipe_input("in", "a", "x", 3)
        assert [(one.key, one.value) for one in driver.read_output("spread-out")] == [("a", "x")]


def test_a_program_that_is_refused_has_not_started(tmp_path: Path):
    builder = StreamsBuilder()
    builder.stream("in", value=str).group_by_key().count().to_stream().to("out")
    world = World(tmp_path, builder.build(), require_names=True)
    with pytest.raises(TopologyError, match=r'store KSTREAM-AGGREGATE-STATE-STORE-0000000001, made at .*: store="..."'):
        world.start()
    assert not world.storage.list("starts")


def counted(store: str | None, topic: str | None) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str).select_key(lambda key, value: value, key=str)
    stream.group_by_key(topic).count(store).to_stream().to("out")
    return builder.build()


@pytest.mark.parametrize("waits", [False, True])
def test_a_program_with_state_goes_on_under_the_names_that_are_asked_for(waits: bool, tmp_path: Path):
    unnamed, small = counted(None, None), {"commit_max_bytes": 200, "chunk_records": 5, "chunk_bytes": 100}
    world = World(tmp_path, unnamed, **small)
    produce([("a", "xyz"[i % 3], i) for i in range(90)], "in", value=str, log=world.log, partitions=1)
    application = world.start()
    for _ in range(4 if waits else 100):
        application.coordinator.step(application.coordinator.end_offsets())
    assert bool(application.coordinator.manifest.waiting) is waits
    application.close()
    [store], [topic] = unnamed.facts.named(), unnamed.internal_topics
    world = World(tmp_path, counted("counts", "by-value"), require_names=True, **small)
    application = world.start(wishes=Wishes.of({store: "counts", topic: "by-value-repartition"}))
    application.run_until()
    application.close()
    assert sorted(world.output()) == [(key, n) for key in "xyz" for n in range(1, 31)]
    world.run("x")
    assert world.output()[-1] == ("x", 31)


@pytest.mark.parametrize(("text", "is_on"), [("true", True), ("False", False), ("1", True), ("0", False)])
def test_the_setting_is_given_as_text(text: str, is_on: bool):
    assert Settings.load(environment={"PENSTOCK_REQUIRE_NAMES": text}).require_names is is_on


@pytest.mark.parametrize("value", ["yes", 1, 2.0])
def test_anything_but_true_and_false_is_refused(value: object):
    with pytest.raises(ConfigError, match=r"require_names \(keyword\) must be true or false, got"):
        Settings.load(environment={}, require_names=value)
