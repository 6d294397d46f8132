"""A program whose clicks are files that appear in a folder, counted by user; or rows of the outbox in the PostgreSQL
whose URL is in the variable ``OUTBOX``; or requests to the port in the variable ``PORT``, until so many are counted as
``WANTED`` says.

python sources.py FOLDER --fill COUNT   put the files in place
python sources.py FOLDER --bring-in     bring them into the topic of the source, as a thread of a program does
python sources.py FOLDER --listen       take requests in until so many records are there as ``--fill`` would give files
python sources.py FOLDER --slots        process them in slots of this machine
python sources.py FOLDER --spark        process them on Spark
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

import program

from penstock import StreamsBuilder, Topology, consume
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


def source(folder: Path) -> Source:
    if PORT in os.environ:
        return HttpSource(int(os.environ[PORT]), key="user")
    url = os.environ.get(OUTBOX)
    return Files(folder / "lake", key="user") if url is None else Outbox(url, every="20 ms")


def topology(folder: Path) -> Topology:
    """The clicks, and how many each user has made."""
    builder = StreamsBuilder()
    clicks = builder.source(source(folder), "clicks", key=str, value=dict, partitions=2)
    clicks.group_by_key().count("counts").to_stream().to("counts")
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
    return sorted(one.value["n"] for one in consume(TOPIC, key=str, value=dict, log=folder / "log"))


def counts_in(folder: Path) -> dict[str, int]:
    """The last count of each user that the program has put out."""
    return {one.key: one.value for one in consume("counts", key=str, value=int, log=folder / "log")}


def is_counted(folder: Path) -> bool:
    """Whether as many requests are counted as are wanted."""
    return (folder / "log" / "counts").exists() and sum(counts_in(folder).values()) >= int(os.environ[WANTED])


def expected_counts(count: int) -> dict[str, int]:
    """How many clicks each user has."""
    return dict(Counter(f"user-{n * n % 37}" for n in range(count)))


if __name__ == "__main__":
    folder, mode, *rest = sys.argv[1:]
    if mode == "--fill":
        fill(Path(folder), int(rest[0]))
    elif mode == "--bring-in":
        bring_in(Path(folder))
    elif mode == "--listen":
        listen(Path(folder))
    elif PORT in os.environ:
        program.MODES[mode](Path(folder), topology(Path(folder)), is_done=lambda: is_counted(Path(folder)))
    else:
        program.MODES[mode](Path(folder), topology(Path(folder)))
