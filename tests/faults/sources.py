"""A program whose clicks are files that appear in a folder, counted by user; or rows of the outbox in the PostgreSQL
whose URL is in the variable ``OUTBOX``; or requests to the port in the variable ``PORT``, until so many are counted as
``WANTED`` says. Topics are in the broker at ``KAFKA``, if the variable is set; their names begin with ``APPLICATION``.

python sources.py FOLDER --bring-in     bring them into the topic of the source, as a thread of a program does
python sources.py FOLDER --listen       take requests in until so many records are there as ``WANTED`` says
python sources.py FOLDER --slots        process them in slots of this machine
python sources.py FOLDER --spark        process them on Spark
python sources.py FOLDER --micro        process them in Spark's micro-batches
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import program

from penstock import Kafka, StreamsBuilder, Topology, consume
from penstock.engine.sources.sources import Sources
from penstock.log.file.log import FileLog
from penstock.sources import FileSource, HttpSource, PostgresOutbox, Source, SourceBatch, SourceReader
from penstock.sources.protocol import SourceContext
from penstock.storage.base import LocalStorage

TOPIC = f"{program.APPLICATION}-clicks-source"
_FEW = 150


class Few(Source):
    """A source in batches of a few records."""

    def open(self, context: SourceContext) -> SourceReader:
        reader = super().open(context)  # type: ignore[safe-super]
        read = reader.read

        def few(offset: object, most: int) -> SourceBatch | None:
            return read(offset, min(most, _FEW))

        reader.read = few  # type: ignore[method-assign]
        return reader


class Files(Few, FileSource):
    pass


class Outbox(Few, PostgresOutbox):
    pass


PORT, WANTED, OUTBOX = "PORT", "WANTED", "OUTBOX"
KAFKA, APPLICATION = "KAFKA", "APPLICATION"


def place_of(folder: Path) -> dict[str, Any]:
    """The application and the log, as ``start`` takes them."""
    if KAFKA in os.environ:
        return {"application_id": os.environ[APPLICATION], "log": Kafka(os.environ[KAFKA])}
    return {"application_id": program.APPLICATION, "log": folder / "log"}


def counts_topic() -> str:
    """The topic of the counts."""
    return f"{os.environ[APPLICATION]}-counts" if KAFKA in os.environ else "counts"


def source(folder: Path) -> Source:
    if PORT in os.environ:
        return HttpSource(int(os.environ[PORT]), key="user")
    url = os.environ.get(OUTBOX)
    return Files(folder / "lake", key="user") if url is None else Outbox(url, every="20 ms")


def topology(folder: Path) -> Topology:
    """The clicks, and how many each user has made."""
    builder = StreamsBuilder()
    clicks = builder.source(source(folder), "clicks", key=str, value=dict, partitions=2)
    clicks.group_by_key().count("counts").to_stream().to(counts_topic())
    return builder.build()


def fill(folder: Path, count: int) -> None:
    """Put files of 400 lines in place."""
    lake = folder / "lake"
    lake.mkdir(parents=True)
    (folder / "log").mkdir()
    for start in range(0, count, 400):
        rows = [{"user": f"user-{n * n % 37}", "n": n} for n in range(start, min(start + 400, count))]
        (lake / f"{start:08d}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def bring_in(folder: Path) -> None:
    """Bring in what is there."""
    sources = Sources(topology(folder).owned_by(program.APPLICATION), program.APPLICATION, FileLog(folder / "log"))
    sources.prepare()
    sources.begin(None, LocalStorage(folder / "state" / "checkpoint"), False)
    sources.process_sources()
    sources.stop()


def listen(folder: Path) -> None:
    """Take requests in at the port in the variable ``PORT`` until the topic has as many records as ``WANTED`` says."""
    builder = StreamsBuilder()
    source = HttpSource(int(os.environ[PORT]), key="user")
    builder.source(source, "clicks", key=str, value=dict, partitions=2).to("out")
    log = FileLog(folder / "log")
    sources = Sources(builder.build().owned_by(program.APPLICATION), program.APPLICATION, log)
    sources.prepare()
    sources.begin(None, LocalStorage(folder / "state" / "checkpoint"), False)
    while sum(log.end_offsets(TOPIC)) < int(os.environ[WANTED]):
        sources.check_running()
        time.sleep(0.02)
    sources.stop()


def numbers_in(folder: Path) -> list[int]:
    """The numbers of the clicks in the topic of the source."""
    place = place_of(folder)
    found = consume(f"{place['application_id']}-clicks-source", key=str, value=dict, log=place["log"])
    return sorted(one.value["n"] for one in found)


def counts_in(folder: Path) -> dict[str, int]:
    """The last count of each user that the program has put out."""
    found = consume(counts_topic(), key=str, value=int, log=place_of(folder)["log"])
    return {one.key: one.value for one in found}


def is_counted(folder: Path) -> bool:
    """Whether as many requests are counted as are wanted."""
    is_there = KAFKA in os.environ or (folder / "log" / "counts").exists()
    return is_there and sum(counts_in(folder).values()) >= int(os.environ[WANTED])


def expected_counts(count: int) -> dict[str, int]:
    """How many clicks each user has."""
    return dict(Counter(f"user-{n * n % 37}" for n in range(count)))


if __name__ == "__main__":
    folder, mode = sys.argv[1:]
    if mode == "--bring-in":
        bring_in(Path(folder))
    elif mode == "--listen":
        listen(Path(folder))
    else:
        is_done = (lambda: is_counted(Path(folder))) if PORT in os.environ else None
        program.MODES[mode](Path(folder), topology(Path(folder)), is_done=is_done, **place_of(Path(folder)))
