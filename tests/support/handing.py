"""Records handed on to sinks by the threads of a program, without the program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder, faults, produce
from penstock.engine.sinks.sinks import Sinks
from penstock.log.file.log import FileLog
from penstock.storage.base import LocalStorage


@dataclass
class Order:
    item: str
    count: int
    price: float
    paid: bool
    note: str | None
    tags: list[str]


ORDER = Order("tea", 2, 1.5, True, None, ["hot"])


def sinks_of(builder: StreamsBuilder, folder: Path) -> Sinks:
    """Start the sinks of an application "shop", whose log is in a folder."""
    sinks = Sinks(builder.build().owned_by("shop"), "shop", FileLog(folder / "log"))
    sinks.begin(None, LocalStorage(folder / "checkpoint"), False)
    return sinks


def handed_on(builder: StreamsBuilder, folder: Path) -> None:
    """Hand on what is in the topics of the sinks of that application."""
    sinks = sinks_of(builder, folder)
    try:
        sinks.process_sinks()
    finally:
        sinks.stop()


def put(folder: Path, topic: str, *rows: Any, **types: Any) -> None:
    """Write records into a topic of one partition."""
    produce(rows, topic, log=folder / "log", partitions=1, **types)


def handed_on_by_two(
    first: StreamsBuilder,
    second: StreamsBuilder,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    at: str = "before-sink",
) -> None:
    """Have two programs hand on the same batch: the second one while the first one sleeps in the middle of it."""
    others: list[str] = []

    def meanwhile(point: str) -> None:
        if point == at and not others:
            others.append(point)
            handed_on(second, folder)

    monkeypatch.setattr(faults, "listener", meanwhile)
    handed_on(first, folder)
    assert others
