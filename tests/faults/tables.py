"""A program between files and tables that crash tests kill: a DataFrame in, tables of three kinds out.

python tables.py FOLDER --fill N    make files of N rows
python tables.py FOLDER --spark     take them in, count them, keep the tables equal, and end
python tables.py FOLDER --read      print what is in the tables, as JSON

Each count of a key is appended to Parquet; those that are no multiples of three are merged into a database, and, where
the variable DELTA_JARS says where Delta Lake is, into a table of its.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
from penstock import StreamsBuilder, Topology
from support.delta import with_delta

KEYS = 7
FILES = 12
JARS = os.environ.get("DELTA_JARS", "")


def fill(folder: Path, count: int) -> None:
    (folder / "log").mkdir(parents=True)  # the rows lie where the harness looks for input
    for number in range(FILES):
        rows = [{"k": f"k{n % KEYS}", "n": n} for n in range(number, count, FILES)]
        (folder / "log" / f"rows-{number:02d}.json").write_text("\n".join(map(json.dumps, rows)))


def expected(folder: Path) -> dict[str, Any]:
    """What is to be in the tables."""
    files = (folder / "log").glob("rows-*.json")
    counts = Counter(json.loads(line)["k"] for file in files for line in file.read_text().splitlines())
    merged = sorted([key, n] for key, n in counts.items() if n % 3)
    appended = sorted([key, one] for key, n in counts.items() for one in range(1, n + 1))
    return {"appended": appended, "database": merged, "delta": merged if JARS else None}


def session(folder: Path) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[4]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.log.level", "OFF").config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.driver.extraJavaOptions", f"-Dderby.stream.error.file={folder}/derby.log")
    return (with_delta(builder, JARS) if JARS else builder).getOrCreate()


def database(folder: Path) -> str:
    return f"jdbc:derby:{folder}/database;create=true"


def topology(folder: Path, spark: Any) -> Topology:
    builder = StreamsBuilder()
    rows = spark.readStream.schema("k string, n int").option("maxFilesPerTrigger", 1).json(str(folder / "log"))
    counts = builder.stream(rows, name="rows", key="k", partitions=2).group_by_key().count("counts")
    some = counts.filter(lambda key, n: n % 3 != 0)
    given: dict[str, Any] = {"key": "k", "value": "n", "trigger": "0 ms"}
    counts.to_stream().to_spark_table(path=folder / "appended", format="parquet", name="appended", **given)
    options = {"url": database(folder)}
    some.to_spark_table("counts", format="jdbc", name="database", options=options, **given)
    if JARS:
        some.to_spark_table(path=folder / "delta", format="delta", name="delta", **given)
    return builder.build()


def run(folder: Path, spark: Any) -> None:
    streams = topology(folder, spark).start(
        "tables",
        log=folder / "topics",
        state_dir=folder / "state",
        spark=spark,
        slots=1,
        statestore_cache_max_bytes=0,
        on_progress=lambda progress: print(progress.commit, flush=True),
    )
    streams.process_all_available()
    streams.stop()
    print("done", flush=True)


def read(folder: Path, spark: Any) -> None:
    appended = spark.read.parquet(str(folder / "appended"))
    merged = spark.read.format("jdbc").options(url=database(folder), dbtable="counts").load()
    delta = spark.read.format("delta").load(str(folder / "delta")) if JARS else None
    found = {"appended": appended, "database": merged, "delta": delta}
    print(json.dumps({name: None if one is None else sorted(map(list, one.collect())) for name, one in found.items()}))


def main() -> None:
    folder, mode, *rest = sys.argv[1:]
    if mode == "--fill":
        fill(Path(folder), int(rest[0]))
        return
    spark = session(Path(folder))
    (run if mode == "--spark" else read)(Path(folder), spark)
    spark.stop()


if __name__ == "__main__":
    main()
