"""The broker to try programs with."""

from __future__ import annotations

from pathlib import Path

from penstock.testing.broker import Broker


def test_a_broker_is_at_the_port_that_it_is_given_or_at_a_free_one(kafka: str, tmp_path: Path):
    assert Broker(tmp_path / "one", port=19_092).url == "kafka://127.0.0.1:19092"
    other = Broker(tmp_path / "other")
    assert other.ports["PLAINTEXT"] not in (0, int(kafka.rpartition(":")[2]))
