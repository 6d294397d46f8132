"""Streaming queries into topics: each batch once, known by its query's id and not by where its checkpoint lies."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import consume
from penstock.errors import ConfigError
from penstock.log.file.log import FileLog

pytestmark = pytest.mark.slow


class Work:
    """A folder of JSON files that a query reads one a batch, and a log that it writes into."""

    def __init__(self, spark: Any, folder: Path):
        self.spark = spark
        self.log = folder / "log"
        self.checkpoint = folder / "ck"
        self._folder = folder

    def files(self, name: str, count: int) -> Any:
        """A stream of so many batches, each of one record: ``name0``, ``name1``, ..."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        for number in range(count):
            file = folder / f"{number}.json"
            if not file.exists():
                file.write_text(json.dumps({"key": f"{name}{number}", "value": "v"}))
                time.sleep(0.02)
        return (
            self.spark.readStream.schema("key string, value string").option("maxFilesPerTrigger", 1).json(str(folder))
        )

    def write(self, stream: Any, checkpoint: Any = None) -> None:
        _to_its_end(penstock.write(stream, "t", "key", "value", log=self.log, checkpoint=checkpoint or self.checkpoint))

    def write_raw(self, stream: Any) -> None:
        writer = stream.writeStream.format("penstock").option("topic", "t").option("log", str(self.log))
        _to_its_end(writer.option("checkpointLocation", str(self.checkpoint)).start())

    def keys(self) -> list[Any]:
        return [record.key for record in consume("t", log=self.log)]

    def forget_end_of(self, batch: int) -> None:
        """As after kill -9 behind the sink's commit and before Spark has noted it."""
        for file in (self.checkpoint / "commits").glob(f"*{batch}*"):
            file.unlink()

    def name_by_path(self) -> str:
        """Have the topic know the query's batches under the name that earlier versions gave; that name."""
        query = json.loads((self.checkpoint / "metadata").read_text())["id"]
        log, former = FileLog(self.log), f"spark:{self.checkpoint.resolve()}:t"
        log.append("t", [], former, log.last_sequence("t", f"spark-{query}"))
        log.forget_producer("t", f"spark-{query}")
        return former


def _to_its_end(query: Any) -> None:
    query.processAllAvailable()
    query.stop()


@pytest.fixture
def work(spark: Any, tmp_path: Path) -> Work:
    return Work(spark, tmp_path)


WAYS = pytest.mark.parametrize("write", [Work.write, Work.write_raw], ids=["write", "format"])


@WAYS
def test_a_checkpoint_that_is_begun_anew_at_the_same_place_loses_nothing(work: Work, write: Callable[..., None]):
    write(work, work.files("a", 3))
    shutil.rmtree(work.checkpoint)
    write(work, work.files("b", 5))
    assert work.keys() == ["a0", "a1", "a2", "b0", "b1", "b2", "b3", "b4"]


@WAYS
def test_a_batch_that_spark_repeats_comes_once(work: Work, write: Callable[..., None]):
    write(work, work.files("a", 2))
    work.forget_end_of(1)
    write(work, work.files("a", 3))
    assert work.keys() == ["a0", "a1", "a2"]


def killed_while_it_planned_its_first_batch(checkpoint: Path) -> None:
    """Leave what kill -9 leaves where Spark has begun to write a query's first offsets."""
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    if not (checkpoint / "metadata").exists():
        (checkpoint / "metadata").write_text(json.dumps({"id": "278528c4-8802-4cf5-be95-863c5688aa65"}))
    for name in (".0.c9ec4793-0444-45f8-9098-751e75874da1.tmp", "..0.c9ec4793-0444-45f8-9098-751e75874da1.tmp.crc"):
        (checkpoint / "offsets" / name).write_text("v1")


def test_a_query_killed_while_it_planned_its_first_batch_starts_again(work: Work):
    killed_while_it_planned_its_first_batch(work.checkpoint)
    work.write(work.files("a", 2))
    assert work.keys() == ["a0", "a1"]


def test_a_query_of_a_program_killed_while_it_planned_its_first_batch_starts_again(work: Work, tmp_path: Path):
    for rows in (0, 2):
        builder = penstock.StreamsBuilder()
        builder.stream(work.files("a", rows), name="rows", key="key", value="value", partitions=1).to("t")
        given = {"log": work.log, "state_dir": tmp_path / "state", "spark": work.spark, "slots": 1}
        with builder.build().start("shop", query_checkpoint=str(tmp_path / "queries"), **given) as streams:
            streams.process_all_available()
        if not rows:
            killed_while_it_planned_its_first_batch(tmp_path / "queries" / "rows-source")
    assert work.keys() == ["a0", "a1"]


def test_the_same_path_on_two_machines_is_two_queries(work: Work, tmp_path: Path):
    """Each machine has a folder of its own at the path; the log is shared."""
    for machine in ("a", "b"):
        work.write(work.files(machine, 2))
        work.checkpoint.rename(tmp_path / f"disk of {machine}")
    assert work.keys() == ["a0", "a1", "b0", "b1"]


def test_a_checkpoint_begun_by_an_earlier_version_repeats_and_loses_nothing(work: Work):
    work.write(work.files("a", 2))
    former = work.name_by_path()
    work.forget_end_of(1)
    work.write(work.files("a", 3))
    work.write(work.files("a", 4))
    assert work.keys() == ["a0", "a1", "a2", "a3"]
    assert FileLog(work.log).last_sequence("t", former) == -1


def test_a_checkpoint_begun_anew_after_an_earlier_version_loses_nothing(work: Work):
    work.write(work.files("a", 1))
    work.name_by_path()
    shutil.rmtree(work.checkpoint)
    stream = work.files("b", 1)
    work.write(stream)
    work.forget_end_of(0)
    work.write(stream)
    assert work.keys() == ["a0", "b0"]


def test_a_checkpoint_begun_anew_by_an_earlier_version_loses_nothing_from_now_on(work: Work):
    """Its batches up to that number were dropped; the ones to come are not."""
    work.write(work.files("a", 3))
    former = work.name_by_path()
    shutil.rmtree(work.checkpoint)
    work.write(work.files("b", 1))
    log = FileLog(work.log)
    log.append("t", [], former, 2)
    work.write(work.files("b", 4))
    assert work.keys() == ["a0", "a1", "a2", "b0", "b1", "b2", "b3"]


def test_a_checkpoint_may_be_a_url(work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    url = f"file://{tmp_path}/url"
    work.write(work.files("a", 1), url)
    work.write(work.files("a", 2), url)
    assert work.keys() == ["a0", "a1"]
    assert (tmp_path / "url" / "metadata").exists()
    assert not list(tmp_path.glob("*:"))


def test_a_url_goes_to_spark_as_it_is(work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception, match="checkpoint file manager for path=s3a://bucket/ck"):
        work.write(work.files("a", 1), "s3a://bucket/ck")
    assert not list(tmp_path.glob("*:"))


def test_progress_that_an_earlier_version_kept_in_a_folder_of_the_urls_name_is_not_forgotten(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    left = tmp_path / "s3a:" / "bucket" / "ck"
    left.mkdir(parents=True)
    (left / "metadata").write_text("{}")
    with pytest.raises(ConfigError, match=f"kept this query's progress in the folder {left}"):
        work.write(work.files("a", 1), "s3a://bucket/ck")


def test_a_checkpoint_where_spark_cannot_write_is_refused(work: Work):
    with pytest.raises(ConfigError, match="write: checkpoint: Spark cannot keep its progress in 'kafka://host:1'"):
        work.write(work.files("a", 1), "kafka://host:1")
