"""Records that meet what they send themselves, where the tasks of a cycle are in several processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import JoinWindows, StreamsBuilder, Topology, consume, produce
from penstock.testing import TopologyTestDriver

pytestmark = pytest.mark.slow


def payments() -> Topology:
    """Who pays and who is paid within 10 ms, and how often the one who pays was paid before."""
    builder = StreamsBuilder()
    paid = builder.stream("payments", value=str)
    receivers = paid.select_key(lambda sender, receiver: receiver, key=str)
    windows = JoinWindows.of_time_difference_and_grace(10, 0)
    paid.join(receivers, lambda to, who: f"{to} {who}", windows, value=str).to("met")
    counts = receivers.group_by_key().count("counts")
    paid.left_join(counts, lambda to, count: f"{to} {count}", value=str).to("counted")
    return builder.build()


def test_a_backlog_gives_what_the_test_driver_gives(engine: dict[str, Any], tmp_path: Path) -> None:
    rows = [(f"k{number % 7}", f"k{(number * 3 + 1) % 7}", number * 7) for number in range(300)]
    with TopologyTestDriver(payments()) as driver:
        for row in rows:
            driver.pipe_input("payments", *row)
        expected = {topic: sorted(driver.read_output(topic)) for topic in ("met", "counted")}
    assert [len(records) for records in expected.values()] == [128, 300]
    produce(rows, "payments", value=str, log=tmp_path / "log", partitions=3)
    streams = payments().start(
        application_id="app",
        log=tmp_path / "log",
        state_dir=tmp_path / "state",
        **engine,
        trigger="available-now",
        slots=2,
    )
    assert streams.await_termination()
    for topic, records in expected.items():
        found = sorted((record.key, record.value, record.timestamp) for record in consume(topic, log=tmp_path / "log"))
        assert found == [(record.key, record.value, record.timestamp) for record in records]
