"""A program on each engine whose topics are in a real Kafka broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import Kafka, StreamsBuilder, produce
from support.kafka import Cluster

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("engine", ["local", "spark", "micro-batch"])
def test_tasks_read_from_kafka_and_results_are_there_once_over_two_starts(
    engine: str, cluster: Cluster, tmp_path: Path
):
    source, out = cluster.topic("in", 2), cluster.topic("out", 2)
    builder = StreamsBuilder()
    counts = builder.stream(source, value=int).group_by(lambda key, value: value, key=int).count("counts")
    counts.to_stream().map_values(str, value=str).to(out)
    topology, log = builder.build(), Kafka(cluster.servers)

    for start in range(2):
        produce([(f"k{n}", n % 3, n + 1) for n in range(30)], source, key=str, value=int, log=cluster.log)
        cluster.log.end_offsets(source)  # waits until it shows
        given = {"engine": engine, "trigger": "available-now", "slots": 2, "statestore_cache_max_bytes": 0}
        streams = topology.start(cluster.name, log=log, state_dir=tmp_path, **given)
        assert streams.await_termination(120)
        streams.stop()
        expected = sorted((key, b"%d" % n) for key in range(3) for n in range(1, 10 * (start + 1) + 1))
        cluster.wait_for_records(out, len(expected))
        assert sorted(row[:2] for row in cluster.rows(out, key=int)) == expected
