"""How a topology is laid out over the topics of a log."""

from __future__ import annotations

import pytest

from penstock import StreamsBuilder
from penstock.engine.layout import create_sink_topics
from penstock.errors import TopicNotFoundError
from penstock.log.base import TopicInfo
from penstock.log.memory import MemoryLog
from penstock.settings import Settings


def test_without_a_source_topic_no_output_topic_is_made():
    builder = StreamsBuilder()
    builder.stream(["here", "missing"]).to("out")
    log = MemoryLog()
    log.create_topic(TopicInfo("here", 2))
    with pytest.raises(TopicNotFoundError, match="'missing'"):
        create_sink_topics(builder.build(), log, Settings(on_error="dead_letter:failed"))
    assert log.topics() == ["here"]


def test_output_topics_have_the_types_of_their_sinks_and_as_many_partitions_as_the_widest_source():
    builder = StreamsBuilder()
    builder.stream(["narrow", "wide"], value=str).map(lambda key, value: (1, 0.5), key=int, value=float).to("again")
    builder.stream("again", key=int, value=float).to("out")
    log = MemoryLog()
    log.create_topic(TopicInfo("narrow", 1))
    log.create_topic(TopicInfo("wide", 3))
    create_sink_topics(builder.build(), log, Settings(on_error="dead_letter:failed"))
    assert [log.topic(name) for name in log.topics()] == [
        TopicInfo("again", 3, "int", "float"),
        TopicInfo("failed", 3, "bytes", "bytes"),
        TopicInfo("narrow", 1),
        TopicInfo("out", 3, "int", "float"),
        TopicInfo("wide", 3),
    ]
