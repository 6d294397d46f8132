"""Restores in slots are heard of in the program that started the application."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock import StateRestoreListener, StreamsBuilder, TopicPartition, produce

pytestmark = [pytest.mark.slow, pytest.mark.kip("892-13")]


class Ends(StateRestoreListener):
    def __init__(self) -> None:
        self.started: list[TopicPartition] = []
        self.ended: dict[TopicPartition, int] = {}

    def on_restore_start(self, topic_partition, store_name, starting_offset, ending_offset):
        self.started.append(topic_partition)

    def on_restore_end(self, topic_partition, store_name, total_restored):
        self.ended[topic_partition] = total_restored


def test_a_listener_hears_of_the_restores_of_all_slots_before_the_first_commit(engine: dict[str, Any], tmp_path: Path):
    builder = StreamsBuilder()
    builder.stream("in", value=str).group_by_key().count("counts").to_stream().to("out")
    topology, log, given = builder.build(), tmp_path / "log", {"slots": 2, "trigger": "100 ms", **engine}
    produce([(f"key-{i}", "x", 0) for i in range(400)], "in", value=str, partitions=4, log=log)
    with topology.start("app", log, state_dir=tmp_path / "state", **given) as streams:
        streams.process_all_available()
        assert streams.restores() == []
    shutil.rmtree(tmp_path / "state" / "tasks")
    listener = Ends()
    produce([(f"key-{i}", "x", 0) for i in range(400)], "in", value=str, log=log)
    started = topology.start("app", log, state_dir=tmp_path / "state", state_restore_listener=listener, **given)
    with started as streams:
        streams.process_all_available()
        partitions = [TopicPartition("app-counts-changelog", partition) for partition in range(4)]
        assert sorted(listener.started) == partitions
        assert sorted(listener.ended) == partitions
        assert sum(listener.ended.values()) == 400
        assert {(one.state, one.store) for one in streams.restores()} == {("restored", "counts")}
