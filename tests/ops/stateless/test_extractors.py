"""Timestamp extractors: the whole record and its partition's time, and the ready ones (KS-07)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import penstock
from penstock import (
    ConsumerRecord,
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    Record,
    StreamsBuilder,
    TimestampExtractor,
    Topology,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
)
from penstock.arrays import binary
from penstock.engine.local import LocalApplication
from penstock.errors import ConfigError, ProcessingError, TopologyError
from penstock.figures.losses import losses_of
from penstock.log.base import TopicInfo
from penstock.log.consume import consume
from penstock.log.memory import MemoryLog
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from penstock.testing import TopologyTestDriver
from support.flows import Run, source

pytestmark = pytest.mark.kip("KS-07")


class HighestPlus(TimestampExtractor):
    """The partition's time and the value; negative for a value of None."""

    def extract(self, record: ConsumerRecord, partition_time: int) -> int:
        return -1 if record.value is None else max(partition_time, 0) + record.value


def test_an_extractor_sees_the_partition_time_which_what_it_gives_moves_on(run: Run):
    builder, stream = source(value=int, timestamp=HighestPlus())
    stream.to("out")
    ran = run(builder, [("a", 5, 100), ("b", 3, 0), ("a", -2, 0), ("c", 1, 7)])
    assert ran.output() == [("a", 5, 5), ("b", 3, 8), ("a", -2, 6), ("c", 1, 9)]
    assert ran.dropped() == {}


def test_records_whose_extracted_time_is_negative_are_dropped_and_counted(run: Run):
    builder, stream = source(value=int, timestamp=HighestPlus)
    stream.to("out")
    ran = run(builder, [("a", 5, 100), ("b", None, 0), ("c", -9, 7), ("a", 1, 8)])
    assert ran.output() == [("a", 5, 5), ("a", 1, 6)]
    assert ran.dropped() == {("KSTREAM-SOURCE-0000000000", "invalid-timestamp"): 2}


def test_an_extractor_sees_the_whole_record():
    seen = []

    class Looks(TimestampExtractor):
        def extract(self, record, partition_time):
            seen.append((record, partition_time))
            return int(dict(record.headers)["at"])

    builder = StreamsBuilder()
    builder.table("in", value=int, timestamp=Looks()).to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 1, 100, headers=[("at", b"50")])
    driver.pipe_input("in", "b", 2, 200, headers=[("at", b"40")])
    assert seen == [
        (ConsumerRecord("a", 1, 100, (("at", b"50"),), "in", 0, 0), -1),
        (ConsumerRecord("b", 2, 200, (("at", b"40"),), "in", 0, 1), 50),
    ]
    assert [record.timestamp for record in driver.read_output("out")] == [50, 40]


def test_topics_of_one_source_have_each_their_own_partition_time():
    builder = StreamsBuilder()
    builder.stream(["in", "other"], value=int, timestamp=HighestPlus()).to("out")
    driver = TopologyTestDriver(builder.build())
    for topic in ["in", "other", "in", "other"]:
        driver.pipe_input(topic, "a", 10)
    assert [record.timestamp for record in driver.read_output("out")] == [10, 10, 20, 20]


def test_what_an_extractor_raises_is_a_failure_of_its_record(run: Run):
    class Picky(TimestampExtractor):
        def extract(self, record, partition_time):
            return 10 // record.value if record.value != 7 else "no time"

    builder, stream = source(value=int, timestamp=Picky())
    stream.to("out")
    rows = [("a", 5, 1), ("b", 0, 2), ("c", 7, 3), ("d", 2, 4)]
    assert run(builder, rows, on_error="skip").output() == [("a", 5, 2), ("d", 2, 5)]
    with pytest.raises(ProcessingError, match=r"Picky\.extract"):
        run(builder, rows).output()


def test_the_wall_clock_is_the_time_of_processing():
    builder = StreamsBuilder()
    builder.stream("in", timestamp=WallclockTimestampExtractor).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.advance_wall_clock_time("7 s")
    driver.pipe_input("in", "a", "x", 5)
    assert driver.read_output("out") == [Record("a", "x", 7000)]


def test_a_class_that_needs_arguments_is_refused():
    class Shifted(TimestampExtractor):
        def __init__(self, by):
            self.by = by

        def extract(self, record, partition_time):
            return record.timestamp + self.by

    with pytest.raises(TopologyError, match="an extractor cannot be made of Shifted without arguments"):
        source(timestamp=Shifted)
    builder, stream = source(timestamp=Shifted(3))
    stream.to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", "x", 5)
    assert driver.read_output("out") == [Record("a", "x", 8)]


# --- carried times that are negative: as foreign producers write them ------------------------------------------------


class Carried:
    """An application over a topic whose records carry some times."""

    def __init__(self, folder: Path, times: list[int], **settings):
        self.log = MemoryLog()
        self.log.create_topic(TopicInfo("in", 1, "str", "str"))
        self.append(times)
        self.folder, self.settings = folder, Settings.load(environment={}, **settings)

    def append(self, times: list[int]) -> None:
        name = str(self.log.end_offsets("in")[0]) if self.log.exists("in") else "0"
        with self.log.writer("in", name) as writer:
            writer.write(0, binary([b"k"] * len(times)), binary([b"v"] * len(times)), np.array(times))
        self.log.append("in", writer.segments())

    def run(self, timestamp) -> list[int]:
        builder = StreamsBuilder()
        builder.stream("in", value=str, timestamp=timestamp).to("out")
        app = LocalApplication(builder.build(), "app", self.settings, self.log, LocalStorage(self.folder))
        app.run_until()
        self.losses = list(losses_of(app.coordinator.manifest.metrics).values())
        app.close()
        return [record.timestamp for record in consume("out", log=self.log)]


TIMES = [5, -1, 9, -3, 7]


@pytest.mark.parametrize("timestamp", [None, FailOnInvalidTimestamp, FailOnInvalidTimestamp()])
def test_a_negative_time_fails_by_default(tmp_path: Path, timestamp):
    with pytest.raises(ProcessingError, match=r"offset 1: .*invalid \(negative\) timestamp -1"):
        Carried(tmp_path, TIMES).run(timestamp)
    assert Carried(tmp_path / "skip", TIMES, on_error="skip").run(timestamp) == [5, 9, 7]


def test_a_negative_time_can_be_logged_and_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    carried = Carried(tmp_path, TIMES)
    assert carried.run(LogAndSkipOnInvalidTimestamp) == [5, 9, 7]
    assert [loss.records for loss in carried.losses] == [2]
    assert "topic 'in', partition 0, offset 3: dropped, since it has the invalid timestamp -3" in caplog.text


def test_a_negative_time_can_become_the_partition_time_which_a_restart_remembers(tmp_path: Path):
    carried = Carried(tmp_path, TIMES)
    assert carried.run(UsePartitionTimeOnInvalidTimestamp) == [5, 5, 9, 9, 7]
    carried.append([-1, 3])
    assert carried.run(UsePartitionTimeOnInvalidTimestamp) == [5, 5, 9, 9, 7, 9, 3]
    with pytest.raises(ProcessingError, match="its partition has no time yet"):
        Carried(tmp_path / "new", [-1]).run(UsePartitionTimeOnInvalidTimestamp)


# --- defaults as settings --------------------------------------------------------------------------------------------


def test_settings_say_the_types_and_the_extractor_where_the_topology_says_none(run: Run):
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count("counts").to_stream().map_values(str, value=str).to("out")
    defaults = {"default_key_serde": "int", "default_value_serde": "float"}
    ran = run(builder, [(1, 1.5, 5), (2, 2.5, 6), (1, 3.5, 7)], **defaults)
    assert ran.output() == [(1, "1", 5), (2, "1", 6), (1, "2", 7)]
    assert ran.store("counts") == [(1, 2, 7), (2, 1, 6)]

    explicit = StreamsBuilder()
    explicit.stream("in", key=str, value=int).to("out")
    assert run(explicit, [("a", 1, 5)], **defaults).output() == [("a", 1, 5)]


def test_types_serdes_and_extractors_may_be_given_themselves():
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    driver = TopologyTestDriver(
        builder.build(),
        default_key_serde=int,
        default_value_serde=SHOUTED,
        default_timestamp_extractor=WallclockTimestampExtractor,
    )
    driver.advance_wall_clock_time(9)
    driver.pipe_input("in", 3, "x", 5)
    assert driver.read_output("out") == [Record(3, "X", 9)]
    with pytest.raises(ConfigError, match="default_value_serde: JSON cannot be read into"):
        TopologyTestDriver(builder.build(), default_value_serde=5)


@pytest.mark.kip("KS-07")
def test_a_default_type_is_that_of_results_of_which_nobody_says_one(run: Run):
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.map_values(lambda value: len(value)).to("lengths")
    stream.group_by(lambda key, value: len(value)).reduce(lambda one, other: one + other).to_stream().to("joined")
    stream.map_values(lambda value: value.upper(), value=str).to("said")
    ran = run(builder, [("a", "xy", 5), ("b", "z", 6)], default_key_serde="int", default_value_serde="int")
    assert ran.output("lengths") == [("a", 2, 5), ("b", 1, 6)]
    assert ran.output("joined") == [(2, "xy", 5), (1, "z", 6)]
    assert ran.output("said") == [("a", "XY", 5), ("b", "Z", 6)]


def test_a_topology_with_defaults_of_settings_is_another_one():
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    topology = builder.build()
    driver = TopologyTestDriver(
        topology, default_timestamp_extractor="WallclockTimestampExtractor", default_value_serde=f"{__name__}:SHOUTED"
    )
    driver.advance_wall_clock_time(9)
    driver.pipe_input("in", "a", "x", 5)
    assert driver.read_output("out") == [Record("a", "X", 9)]
    plain = TopologyTestDriver(topology)
    plain.pipe_input("in", "a", {"x": 1}, 5)
    assert plain.read_output("out") == [Record("a", {"x": 1}, 5)]


class Shouted(penstock.serdes.Serde):
    name = "shouted"

    def encode(self, value):
        return value.upper().encode()

    def decode(self, data):
        return data.decode()


SHOUTED = Shouted()


def test_defaults_that_name_nothing_are_refused():
    topology = Topology().add_source("in", "topic").add_sink("out", "to", "in")
    for setting, name, said in [
        ("default_key_serde", "text", "must be one of str, int, float, bytes, json, or a name such as"),
        ("default_value_serde", "no.such:thing", "No module named"),
        ("default_timestamp_extractor", "Fail", "must be one of FailOnInvalidTimestamp"),
        ("default_timestamp_extractor", "json:dumps", "is no TimestampExtractor"),
    ]:
        with pytest.raises(ConfigError, match=said):
            TopologyTestDriver(topology, **{setting: name})
