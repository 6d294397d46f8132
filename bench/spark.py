"""Spark's own operators beside Penstock: the same records, read and written in the way that costs Spark least.

That is Parquet: Spark reads and writes it in the JVM by itself, column by column, without a broker and without Python.
One batch takes all records, so there are no costs per batch, and the state is kept in memory; with several batches, or
with RocksDB, the same query costs more.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench import data
from bench.digest import Pairs, digest
from bench.engines import Run
from bench.measure import run
from bench.spark_job import QUERIES
from bench.workloads import Inputs, Workload

_FILE_RECORDS = 500_000


class SparkOperators:
    """Spark's own operators, ``bench.spark_job`` in a process of its own.

    Args:
        work: a folder for inputs, which stay, outputs and state.
    """

    name = "Spark's own operator"
    scale = 1

    def __init__(self, work: Path):
        self._work = work.resolve() / "spark"

    def runs(self, workload: Workload) -> bool:
        return workload.name in QUERIES

    def expected(self, workload: Workload) -> str:
        return "W4 by Spark" if workload.name == "W4" else workload.name

    def at_least(self, workload: Workload) -> float:
        return 1.0

    def run(self, workload: Workload, inputs: Inputs) -> Run:
        folder = self._work / "run"
        shutil.rmtree(folder, ignore_errors=True)
        sources = [str(self.filled(name, count)) for name, count in inputs.items()]
        command = [sys.executable, "-m", "bench.spark_job", workload.name, *sources, "--work", str(folder)]
        cost = run(command)
        found = digest(workload.result, _content(folder / "out"))
        shutil.rmtree(folder)
        return Run(cost, found)

    def filled(self, name: str, count: int) -> Path:
        """A folder with a set of so many records, made when it is not there."""
        folder = self._work / f"{name}-{count}"
        if not folder.exists():
            made = folder.with_suffix(".part")
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir(parents=True)
            key, value, timestamp = data.SETS[name](count)
            times = pa.array(timestamp).cast(pa.timestamp("ms", "UTC"))
            records = pa.table({"key": key.cast("string"), "value": value.cast("string"), "timestamp": times})
            for start in range(0, count, _FILE_RECORDS):
                pq.write_table(records.slice(start, _FILE_RECORDS), made / f"{start:012d}.parquet")
            made.rename(folder)
        return folder


def _content(folder: Path) -> Iterator[Pairs]:
    """The records of an output, file by file."""
    for file in sorted(folder.glob("*.parquet")):
        records = pq.read_table(file, schema=pa.schema({"key": pa.binary(), "value": pa.binary()}))
        for batch in records.combine_chunks().to_batches():
            yield batch["key"], batch["value"]
