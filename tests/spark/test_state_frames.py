"""State stores as DataFrames: ``spark.read.format("penstock-state")``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder, TimeWindows, produce
from penstock.engine.local import LocalApplication
from penstock.frames.state_frames import make_known
from penstock.log.file.log import FileLog
from penstock.settings import Settings
from penstock.storage.base import LocalStorage

pytestmark = pytest.mark.slow


def process(folder: Path, count: int) -> None:
    """Counts of nine keys in three partitions, all and in windows."""
    log, storage = FileLog(folder / "log"), LocalStorage(folder / "checkpoint")
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    grouped.count("counts")
    grouped.windowed_by(TimeWindows.of_size_and_grace(10, 1000)).count("windows")
    produce([(str(number % 9), 1, number) for number in range(count)], "in", str, int, log, partitions=3)
    application = LocalApplication(builder.build(), "app", Settings(), log, storage)
    application.run_until()
    application.close()


def test_a_store_is_a_data_frame_of_all_tasks_as_of_one_commit(spark: Any, tmp_path: Path):
    process(tmp_path, 90)
    make_known(spark)
    frame = spark.read.format("penstock-state").option("application", str(tmp_path)).load("counts")
    assert frame.dtypes == [("key", "string"), ("value", "bigint"), ("timestamp", "timestamp")]
    assert frame.rdd.getNumPartitions() == 3
    rows = frame.selectExpr("key", "value", "unix_millis(timestamp)").orderBy("key").collect()
    assert [tuple(row) for row in rows] == [(str(number), 10, 81 + number) for number in range(9)]
    windows = spark.read.format("penstock-state").option("application", str(tmp_path)).option("store", "windows").load()
    assert windows.where("window_start = timestamp_millis(20)").groupBy().sum("value").collect()[0][0] == 10


def test_what_is_wrong_with_the_options_is_told(spark: Any, tmp_path: Path):
    make_known(spark)
    process(tmp_path, 9)
    for options, said in [
        ({"application": str(tmp_path), "store": "count"}, "there is no store 'count'; the stores are counts, windows"),
        ({"application": "nobody", "store": "counts"}, "found no commit of an application 'nobody'"),
        ({"store": "counts"}, 'needs .option("application", its id or checkpoint)'),
        ({"application": str(tmp_path), "store": "counts", "topic": "in"}, "has no option 'topic'"),
    ]:
        with pytest.raises(Exception, match="(?s)" + said.replace("(", r"\(").replace(")", r"\)")):
            spark.read.format("penstock-state").options(**options).load()
