"""Sources at work without a program, and files for them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock import SourceError, StreamsBuilder, consume
from penstock.engine.sources.sources import Sources
from penstock.log.base import Log
from penstock.log.file.log import FileLog
from penstock.sources import FileSource, Source
from penstock.storage.base import LocalStorage

TOPIC = "shop-rows-source"


def sources_of(
    folder: Path, source: Source, key: Any = str, value: Any = int, log: Log | None = None, **options: Any
) -> Sources:
    """The source of an application "shop", whose log is in a folder."""
    builder = StreamsBuilder()
    given = {"retry_for": "10 s", "partitions": 1, **options}
    builder.source(source, "rows", key=key, value=value, **given).to("out")
    topology = builder.build().owned_by("shop")
    return Sources(topology, "shop", log or FileLog(folder / "log"))


@contextmanager
def running(
    folder: Path,
    source: Source,
    committed: Callable[[], Mapping[str, Sequence[int]]] = dict,
    **options: Any,
) -> Iterator[Sources]:
    sources = sources_of(folder, source, **options)
    sources.prepare()
    sources.committed = committed
    sources.begin(None, LocalStorage(folder / "checkpoint"), False)
    try:
        yield sources
    finally:
        sources.stop()


def brought_in(folder: Path, source: Source, **options: Any) -> None:
    """Bring in what a source has now."""
    with running(folder, source, **options) as sources:
        sources.process_sources()


def records(folder: Path, **types: Any) -> list[tuple[Any, Any]]:
    """Key and value of what is in the topic of that source."""
    given = {"key": str, "value": int, **types}
    return [(one.key, one.value) for one in consume(TOPIC, log=folder / "log", **given)]


def until(is_so: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def put(path: Path, data: str | bytes, at: int = 0) -> None:
    """Put a file in its place as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    hidden.write_bytes(data.encode() if isinstance(data, str) else data)
    if at:
        os.utime(hidden, (at, at))
    hidden.rename(path)


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


class OneBatch(FileSource):
    """Gives two records of a batch, and then fails; the last time it gives all."""

    def __init__(self, lake: Path, batch: int, encoding: str = "utf-8"):
        super().__init__(lake, key="id", encoding=encoding)
        self._is_last = batch == 3

    def open(self, context: Any) -> Any:
        reader, given = super().open(context), []
        read = reader.read

        def one(offset: Any, most: int) -> Any:
            if given and not self._is_last:
                raise SourceError("enough")
            batch = read(offset, 2)
            given.append(batch)
            return batch

        reader.read = one  # type: ignore[method-assign]
        return reader
