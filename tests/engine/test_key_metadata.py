"""Where a key is: its partition, and the slot that has it (KIP-1321 with headers)."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import KeyQueryMetadata, StreamsBuilder
from penstock.engine.shared.key_metadata import key_metadata
from penstock.engine.shared.layout import layout_of
from penstock.engine.shared.places import Places, SlotPlace
from penstock.errors import ConfigError
from penstock.log.base import TopicInfo
from penstock.log.memory import MemoryLog
from penstock.log.produce import produce

pytestmark = pytest.mark.kip("44-05")

SLOTS = [SlotPlace("1", "here", copy="there"), SlotPlace("2", "there")]
KEYS = [f"k{number}" for number in range(12)]


def log() -> MemoryLog:
    made = MemoryLog()
    for topic, partitions in (("in", 4), ("everywhere", 2)):
        made.create_topic(TopicInfo(topic, partitions, "str", "str"))
    return made


def asked(key: Any, store: str = "counts", partitioner: Any = None, headers: Any = (), places: Any = SLOTS) -> Any:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    stream.group_by_key().count("counts")
    everyones = builder.global_table("everywhere", value=str, store="everyones")
    stream.join(everyones, max, key_selector=lambda key, value: key).to("out")
    topology = builder.build()
    given = None if places is None else Places(places)
    return key_metadata(topology, layout_of(topology, log()), given, store, key, partitioner, headers)


def test_the_partition_is_that_of_the_keys_records_and_the_slot_the_one_that_processes_it():
    there = log()
    produce([(key, "x") for key in KEYS], "in", value=str, log=there)
    placed = {
        key: partition
        for partition in range(4)
        for records in there.read("in", partition, 0, 100)
        for key in records.key.to_pylist()
    }
    for key in KEYS:
        partition = placed[key.encode()]
        slot = SLOTS[partition % 2]
        assert asked(key) == KeyQueryMetadata(partition, slot, ("there",) if slot.copy else ())
    assert asked("k1", places=None).active_host is None


def test_every_slot_has_the_store_of_a_global_table():
    assert asked("k1", store="everyones") == KeyQueryMetadata(-1, None, ())


def test_a_partitioner_that_takes_the_headers_gets_them():
    seen = []

    def by_header(topic, key, value, headers, partitions):
        seen.append((topic, key, value, headers, partitions))
        return int(dict(headers)["to"])

    assert asked("k1", partitioner=by_header, headers=[("to", b"3")]) == (3, SLOTS[1], ())
    assert seen == [("in", "k1", None, (("to", b"3"),), 4)]
    assert asked("k1", partitioner=lambda key, value, partitions: {2}).partition == 2
    assert asked("k1", partitioner=lambda topic, key, value, partitions: None) == asked("k1")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"key": "a", "store": "count"}, r"there is no store 'count'.*counts"),
        ({"key": None}, "has no row whose key is None"),
        ({"key": "a", "partitioner": lambda key, value, count: 4}, "must give one partition from 0 to 3.*got 4"),
        ({"key": "a", "partitioner": lambda key, value, count: [0, 1]}, r"one partition from 0 to 3.*got \[0, 1\]"),
        ({"key": "a", "partitioner": lambda key, value, count: 0, "headers": [("a", 1)]}, "headers are a tuple"),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict[str, Any], said: str):
    with pytest.raises(ConfigError, match=said):
        asked(**arguments)
