"""Records handed on to sinks by the threads of a program, without the program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock import StreamsBuilder, produce
from penstock.engine.sinks.sinks import Sinks
from penstock.log.file.log import FileLog
from penstock.storage.base import LocalStorage


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
