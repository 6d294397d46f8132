"""Micro-batches of W1, one file or one append after the other, as a program of its own.

    python -m bench.micro_batch_job frame 100000 FOLDER

Modes:
    floor      a streaming query over files of Parquet whose ``foreachBatch`` only shuffles, sorts and gives its rows
               back through ``mapInArrow``.
    query      the same query whose ``foreachBatch`` does nothing.
    frame      ``builder.stream(frame)`` over the same files, with the engine ``micro-batch``.
    batches    ``topology.batches`` as the ``foreachBatch`` of the same query.
    topic      appends to a topic of the file log, with the engine ``micro-batch``.
    idle       the engine ``micro-batch`` with a trigger of a second and no records.
    idle-query the streaming query with a trigger of a second and no files.

It prints the CPU seconds of all its processes for each batch, and the seconds from the file or append to the commit.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench import data
from bench.batch_job import PARTITIONS, SCHEMA, floor
from bench.measure import session_cpu
from bench.workloads import w1, window_as_json
from penstock import StreamsBuilder, TimeWindows, Topology
from penstock.log.file.log import FileLog

WARM, MEASURED = 6, 12
IDLE_SECONDS = 20.0
COLUMNS: dict[str, Any] = {"key": "key", "value": "value", "timestamp": "timestamp"}

Put = Callable[[int], None]
"""Brings in the records of a batch, by its number, and waits until they are processed."""


def framed(frame: Any) -> Topology:
    """W1 over a DataFrame."""
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_and_grace("60 s", "10 s")
    events = builder.stream(frame, name="events", partitions=PARTITIONS, **COLUMNS)
    counts = events.group_by_key().windowed_by(windows).count("counts")
    counts.to_stream().map(window_as_json, key=str, value=str).to("out")
    return builder.build()


class Job:
    """One run of a mode."""

    def __init__(self, spark: Any, rows: int, folder: Path):
        self._spark, self._rows, self._folder = spark, rows, folder
        self._files = folder / "files"
        self._files.mkdir(parents=True)

    def frame(self) -> Any:
        return self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(self._files))

    def put_file(self, number: int) -> None:
        key, value, timestamp = self._events(number)
        times = pa.array(timestamp).cast(pa.timestamp("ms", "UTC"))
        pq.write_table(pa.table({"key": key.cast("string"), "value": value, "timestamp": times}), self._folder / "new")
        (self._folder / "new").rename(self._files / f"{number}.parquet")

    def _events(self, number: int) -> data.Columns:
        return data.events(self._rows, seed=number + 1, base=data.BASE + number * self._rows)

    def query(self, take: Callable[[Any, int], None], stack: ExitStack, **trigger: str) -> Any:
        writer = self.frame().writeStream.option("checkpointLocation", str(self._folder / "query"))
        query = (writer.trigger(**trigger) if trigger else writer).foreachBatch(take).start()
        stack.callback(query.stop)
        return query

    def over_query(self, take: Callable[[Any, int], None], stack: ExitStack) -> Put:
        query = self.query(take, stack)

        def put(number: int) -> None:
            self.put_file(number)
            query.processAllAvailable()

        return put

    def floor(self, stack: ExitStack) -> Put:
        return self.over_query(shuffled, stack)

    def nothing(self, stack: ExitStack) -> Put:
        return self.over_query(lambda frame, number: None, stack)

    def batches(self, stack: ExitStack) -> Put:
        given: dict[str, Any] = {"log": self._folder / "log", "state_dir": self._folder / "state"}
        take = w1("events", "out").batches("bench", topic="events", partitions=PARTITIONS, **COLUMNS, **given)
        return self.over_query(take, stack)

    def started(self, topology: Topology, stack: ExitStack, **given: Any) -> Any:
        places: dict[str, Any] = {"log": self._folder / "log", "state_dir": self._folder / "state"}
        return stack.enter_context(
            topology.start("bench", engine="micro-batch", spark=self._spark, slots=PARTITIONS, **places, **given)
        )

    def over_frame(self, stack: ExitStack) -> Put:
        streams = self.started(framed(self.frame()), stack)

        def put(number: int) -> None:
            self.put_file(number)
            streams.process_all_available()

        return put

    def topic(self, stack: ExitStack, **given: Any) -> Put:
        log = FileLog(self._folder / "log")
        data.fill(log, "events", self._events(0))
        streams = self.started(w1("events", "out"), stack, **given)

        def put(number: int) -> None:
            data.produce(log, "events", self._events(number + 1))
            streams.process_all_available()

        return put

    def idle(self, stack: ExitStack) -> Put:
        self.topic(stack, trigger="1 second")(0)
        return lambda number: time.sleep(IDLE_SECONDS / MEASURED)

    def idle_query(self, stack: ExitStack) -> Put:
        query = self.query(shuffled, stack, processingTime="1 second")
        self.put_file(0)
        query.processAllAvailable()
        return lambda number: time.sleep(IDLE_SECONDS / MEASURED)


def shuffled(frame: Any, number: int) -> None:
    floor(frame).write.format("noop").mode("append").save()


MODES = {
    "floor": Job.floor,
    "query": Job.nothing,
    "frame": Job.over_frame,
    "batches": Job.batches,
    "topic": Job.topic,
    "idle": Job.idle,
    "idle-query": Job.idle_query,
}


def costs(put: Put) -> Iterator[tuple[float, float]]:
    """CPU seconds and seconds of each measured batch."""
    for number in range(WARM + MEASURED):
        before, began = session_cpu(os.getsid(0)), time.monotonic()
        put(number)
        if number >= WARM:
            yield session_cpu(os.getsid(0)) - before, time.monotonic() - began


@click.command()
@click.argument("mode", type=click.Choice(sorted(MODES)))
@click.argument("rows", type=int)
@click.argument("folder", type=click.Path(path_type=Path))
def main(mode: str, rows: int, folder: Path) -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{PARTITIONS}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", str(PARTITIONS)).config("spark.driver.host", "127.0.0.1")
    spark = builder.config("spark.log.level", "ERROR").getOrCreate()
    with ExitStack() as stack:
        found = list(costs(MODES[mode](Job(spark, rows, folder), stack)))
    cpu, seconds = zip(*found, strict=True)
    print(json.dumps({"mode": mode, "rows": rows, "cpu": round(median(cpu), 3), "seconds": round(median(seconds), 3)}))
    spark.stop()


if __name__ == "__main__":
    main()
