"""Latency: each count that is read belongs to one record that was appended."""

import sys

import numpy as np
import pyarrow as pa
import pytest
from bench.latency import APPEND, Stream
from bench.measure import RunError
from bench.running import running, wait_for
from bench.workloads import w1

from bench import data
from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog
from penstock.testing import TopologyTestDriver


def test_a_record_waits_until_its_own_count_is_read(tmp_path):
    log = FileLog(tmp_path)
    for topic in ("in", "out"):
        log.create_topic(TopicInfo(topic, data.PARTITIONS, "str", "json"))
    stream = Stream(log)
    driver = TopologyTestDriver(w1("in", "out"), statestore_cache_max_bytes=0)
    stream.read()
    for _ in range(2):
        stream.append()
    assert [log.size("in"), stream.waits] == [2 * APPEND, []]
    for partition, end in enumerate(log.end_offsets("in")):
        for records in log.read("in", partition, 0, end):
            for key, value, time in zip(records.key.to_pylist(), records.value.to_pylist(), records.timestamp.tolist()):
                driver.pipe_input("in", key.decode(), value, time)
    counts = [(record.key.encode(), record.value.encode(), record.timestamp) for record in driver.read_output("out")]
    key, value, time = zip(*counts)
    data.produce(log, "out", (pa.array(key), pa.array(value), np.array(time)))

    stream.read()

    assert len(stream.waits) == 2 * APPEND
    assert all(0 < wait < 60 for wait in stream.waits)
    stream.read()
    assert len(stream.waits) == 2 * APPEND


def test_a_program_that_ends_before_it_has_written_is_an_error_that_says_why(tmp_path):
    with (
        running([sys.executable, "-c", "raise SystemExit('no such topic')"]) as process,
        pytest.raises(RunError, match="ended by itself:\nno such topic"),
    ):
        wait_for(process, FileLog(tmp_path), "out", 1)
