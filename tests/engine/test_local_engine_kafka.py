"""A program without Spark over topics of a real Kafka broker: its slots are killed, and each result is there once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from penstock.testing.chaos import processes
from support.kafka import Cluster
from support.kafka_case import Case

pytestmark = pytest.mark.slow


def test_slots_that_are_killed_change_nothing_over_kafka(cluster: Cluster, tmp_path: Path):
    case = Case(cluster, tmp_path)
    case.log = cluster.log
    case.fill(200)
    places = {"log": f"kafka://{cluster.servers}", "state_dir": tmp_path / "state"}
    with case.topology().start(
        cluster.name, engine="local", slots=2, statestore_cache_max_bytes=0, **places
    ) as streams:
        streams.process_all_available()
        for victim in (0, 1):
            os.kill(processes.own("slot")[victim], signal.SIGKILL)
            case.fill(100, first=200 + 100 * victim)
            streams.process_all_available()
        assert streams.exception() is None
    assert case.results() == [(key, str(count).encode()) for key in range(5) for count in range(1, 81)]
