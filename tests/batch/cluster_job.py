"""A batch of two stages, in whose second one something happens: ``python cluster_job.py MASTER FOLDER WAY [seed]``.

Ways:
    nothing      no task is disturbed.
    killed       the first task that comes to a record kills its executor, with the files of the first stage.
    lost         the first task that comes to a record removes the files of the first stage, of all executors, and dies.
    speculation  the first task that comes to a record waits, until Spark runs it a second time on another executor.

It prints what comes out, as JSON. With ``seed`` it is the state of an application, in FOLDER/WAY.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock import StreamsBuilder, Topology

ROWS = [(f"c{n % 7}", n % 5, n) for n in range(400)]
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms",
}
LONGEST = 100.0


def counts(happens: Callable[[str], str]) -> Topology:
    """Counts by key, and the sum of each value by another key behind a repartition."""
    builder = StreamsBuilder()
    numbers = builder.stream("in", key=str, value=int)
    numbers.group_by_key().count("counts").to_stream().to("counts")
    by_value = numbers.group_by(lambda key, value: f"v{value}", key=str, value=int)
    sums = by_value.reduce(lambda a, b: a + b, "sums")
    sums.to_stream().map(lambda key, value: (happens(key), value), key=str, value=int).to("sums")
    return builder.build()


def once(way: str, folder: Path) -> Callable[[str], str]:
    """What happens at the first record of a key, in the first attempt of its task."""
    marker = folder / f"{way} happened"

    def happens(key: str) -> str:
        if way != "nothing" and key == "v3" and not marker.exists():
            marker.touch()
            if way == "killed":
                os.kill(parent_of(os.getppid()), signal.SIGKILL)  # of PySpark's daemon, which is an executor
            if way == "lost":
                lose_shuffle_files(Path(os.environ["SPARK_LOCAL_DIRS"]))
                os._exit(1)
            time.sleep(LONGEST)
        elif way == "speculation" and key == "v3":
            (folder / "the second attempt ran").touch()
        return key

    return happens


def lose_shuffle_files(folder: Path) -> None:
    """Remove what the first stage has written for the second."""
    files = [file for file in folder.parent.rglob("shuffle_*") if file.is_file()]
    assert files
    for file in files:
        file.unlink()


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def main(master: str, folder: Path, way: str, *rest: str) -> None:
    folder.mkdir(exist_ok=True)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.executor.memory", "512m").config("spark.log.level", "OFF")
    for name, value in SPECULATION.items() if way == "speculation" else ():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    given: dict[str, Any] = {"key": "key", "value": "value", "timestamp": "at", "order": "at", "partitions": 2}
    if rest:
        places = {"log": folder / way / "log", "state_dir": folder / way / "state", "seed": "sums"}
        given |= places | {"stores": ["counts", "sums"]}
    frames = {"in": spark.createDataFrame(ROWS, "key string, value int, at bigint").repartition(4)}
    topology = counts(once(way, folder))
    with topology.run_batch(spark, frames, statestore_cache_max_bytes=0, **given) as result:
        found = {name: sorted(map(list, result.store(name).collect())) for name in result.stores}
        for topic in result.topics:
            rows = result.dataframe(topic).orderBy("partition", "task", "number")
            found[f"topic {topic}"] = [[row["partition"], row["key"], row["value"]] for row in rows.collect()]
    print(json.dumps(found, default=str))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
