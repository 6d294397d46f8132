"""Strangers at the driver's port: a program with a slot that is killed goes on, whoever stands at the door."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from penstock import Streams, StreamsBuilder, Topology, consume, produce
from penstock.testing.chaos.processes import own
from support.strangers import KINDS, strangers

WORDS = ["a", "b", "a", "c", "a", "b"]
STRANGERS = 100
"""More than there may be handshakes at once."""


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def counting() -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("words", value=str)
    words.group_by(lambda key, word: word).count("counts").to_stream().to("counts")
    return builder.build()


def fill(times: int) -> None:
    records = [(f"key-{number}", word) for number, word in enumerate(WORDS * times)]
    produce(records, "words", value=str, partitions=4)


def counted() -> dict[Any, Any]:
    """How often each word came, where each count was put out exactly once."""
    counts: dict[Any, list[int]] = {}
    for record in consume("counts"):
        counts.setdefault(record[0], []).append(record[1])
    for numbers in counts.values():
        assert numbers == list(range(1, len(numbers) + 1))
    return {word: numbers[-1] for word, numbers in sorted(counts.items())}


def slots_of_this_process() -> list[int]:
    return own("slot")


def kill_a_slot() -> None:
    os.kill(slots_of_this_process()[0], signal.SIGKILL)


def address_of(streams: Streams) -> tuple[str, int]:
    host, port, _ = streams._slots._door.address
    return host, port


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_slot_comes_back_through_a_crowd_of_strangers(kind: str):
    fill(50)
    with counting().start("words", engine="local", slots=2, statestore_cache_max_bytes=0) as streams:
        streams.process_all_available()
        with strangers(*address_of(streams), kind, STRANGERS):
            for _ in range(2):
                kill_a_slot()
                fill(1)
                began = time.monotonic()
                streams.process_all_available()
                assert time.monotonic() - began < 30
        assert counted() == {"a": 156, "b": 104, "c": 52}
        assert streams.exception() is None
    assert slots_of_this_process() == []
