"""``Topology.run_batch`` as the next commit of an application, and as the state that one begins with, on Spark."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from batch import job
from batch.job import COLUMNS, shop
from penstock import consume, open_store, produce
from penstock.errors import ConfigError

pytestmark = pytest.mark.slow

JOB = Path(job.__file__)
MORNING = [("ann", "tea", 1), ("bob", "tea", 2), ("ann", "milk", 3)]
NOON = [("ann", "tea", 4), ("cid", "milk", 5)]


class World:
    """A log and a folder of an application, and batches that it takes."""

    def __init__(self, spark: Any, folder: Path):
        self.spark, self.folder, self.log = spark, folder, folder / "log"
        self.topology = shop()

    def batch(self, rows: list[Any], **arguments: Any) -> Any:
        frames = {"orders": self.spark.createDataFrame(rows, COLUMNS)} if rows else {}
        columns = {"key": "customer", "timestamp": "at"} if rows else {}
        return self.topology.run_batch(
            self.spark, frames, **columns, log=self.log, state_dir=self.folder / "state", partitions=2, **arguments
        )

    def live(self) -> None:
        streams = self.topology.start(
            "shop", log=self.log, spark=self.spark, trigger="available-now", state_dir=self.folder / "state"
        )
        streams.await_termination()

    def last(self, topic: str) -> dict[str, int]:
        return {record.key: record.value for record in consume(topic, log=self.log)}

    def every(self, topic: str) -> list[tuple[str, int]]:
        return sorted((record.key, record.value) for record in consume(topic, log=self.log))


@pytest.fixture
def world(spark: Any, tmp_path: Path) -> World:
    return World(spark, tmp_path)


def test_named_batches_go_on_with_the_state_of_the_last_one_and_count_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    first = world.batch(MORNING, application_id="shop", batch="morning")
    assert not first.is_repeated
    assert world.last("totals") == {"ann": 2, "bob": 1}
    world.batch(NOON, application_id="shop", batch="noon")
    assert world.last("totals") == {"ann": 3, "bob": 1, "cid": 1}
    assert world.last("items") == {"tea": 3, "milk": 2}
    with caplog.at_level(logging.WARNING):
        again = world.batch(MORNING, application_id="shop", batch="morning")
    assert again.is_repeated
    assert "application 'shop': batch 'morning' counts already" in caplog.text
    assert world.last("totals") == {"ann": 3, "bob": 1, "cid": 1}
    assert sorted(tuple(row) for row in again.store("counts").select("key", "value").collect()) == [
        ("ann", 3),
        ("bob", 1),
        ("cid", 1),
    ]


def order(customer: str, item: str, at: int) -> tuple[str, dict[str, Any], int]:
    """A row as the topic has it, whose schema is that of the first batch."""
    return customer, {"customer": customer, "item": item, "at": at}, at


def test_a_batch_takes_what_is_new_in_the_topics_and_a_live_program_goes_on_behind_it(world: World) -> None:
    world.batch(MORNING, application_id="shop", batch="morning")
    produce([order("ann", "tea", 6), order("dan", "milk", 7)], "orders", log=world.log)
    world.batch([], application_id="shop")
    assert world.last("totals") == {"ann": 3, "bob": 1, "dan": 1}
    produce([order("ann", "tea", 8)], "orders", log=world.log)
    world.live()
    assert world.last("totals") == {"ann": 4, "bob": 1, "dan": 1}
    world.batch(NOON, application_id="shop", batch="noon")
    assert world.last("totals") == {"ann": 5, "bob": 1, "dan": 1, "cid": 1}
    assert world.last("items") == {"tea": 5, "milk": 3}


def test_a_seed_leaves_state_and_positions_and_a_live_program_goes_on_at_the_seam(world: World) -> None:
    produce([("ann", {"item": "tea"}, 1), ("bob", {"item": "tea"}, 2)], "orders", log=world.log, partitions=2, key=str)
    ends = [sum(1 for r in consume("orders", log=world.log) if r.partition == p) for p in range(2)]
    produce([("ann", {"item": "milk"}, 3), ("cid", {"item": "milk"}, 5)], "orders", log=world.log)
    with world.batch(MORNING[:2], seed="shop", then={"orders": ends}) as seeded:
        assert sorted(tuple(r) for r in seeded.dataframe("totals").select("key", "value").collect()) == [
            ("ann", 1),
            ("bob", 1),
        ]
        assert seeded.commit == 1
    world.live()
    assert world.every("totals") == [("ann", 2), ("cid", 1)]
    assert world.last("items") == {"milk": 2}


def test_what_says_of_which_application_a_batch_is_has_to_go_together(world: World) -> None:
    wrong = {
        "got both": {"application_id": "shop", "seed": "shop"},
        "name the application, too: application_id=": {"batch": "morning"},
        "need a name under which they count once": {"application_id": "shop"},
        "then= says where a live program continues after a seed": {"application_id": "shop", "batch": "a", "then": {}},
        "a name for the rows of this batch": {"application_id": "shop", "batch": ""},
        "cannot be an application.s id": {"application_id": "a/b", "batch": "a"},
        "stores= is only for batches without": {"application_id": "shop", "batch": "a", "stores": ["counts"]},
    }
    for says, arguments in wrong.items():
        with pytest.raises(Exception, match=says):
            world.batch(MORNING, **arguments)
    assert not world.log.exists()


def test_a_seed_wants_to_know_what_the_topic_has_of_its_rows_and_a_new_application(world: World) -> None:
    produce([("ann", {"item": "tea"}, 1)], "orders", log=world.log, key=str)
    with pytest.raises(ConfigError, match="nothing says which of them the DataFrame has already"):
        world.batch(MORNING, seed="shop")
    with pytest.raises(ConfigError, match="partition 0 has offsets from 0 to 1; got 7"):
        world.batch(MORNING, seed="shop", then={"orders": [7]})
    world.batch(MORNING, seed="shop", then={"orders": "latest"})
    with pytest.raises(ConfigError, match="cannot be seeded: it has made commits already"):
        world.batch(MORNING, seed="shop", then={"orders": "latest"})


def test_the_batches_of_a_streaming_dataframe_count_once_by_query_and_number(world: World, tmp_path: Path) -> None:
    files, checkpoint = tmp_path / "files", str(tmp_path / "query")
    taken: list[int] = []
    take = world.topology.batches(
        "shop", key="customer", timestamp="at", log=world.log, state_dir=tmp_path / "state", partitions=2
    )

    def take_twice(frame: Any, number: int) -> None:
        take(frame, number)
        take(frame, number)  # as Spark does when the driver is killed before it has noted that the batch is done
        taken.append(number)

    for rows in (MORNING, NOON):
        world.spark.createDataFrame(rows, COLUMNS).coalesce(1).write.mode("append").json(str(files))
        stream = world.spark.readStream.schema("customer string, item string, at bigint").json(str(files))
        writer = stream.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        writer.foreachBatch(take_twice).start().awaitTermination()
    assert taken == [0, 1]
    assert world.last("totals") == {"ann": 3, "bob": 1, "cid": 1}
    assert world.last("items") == {"tea": 3, "milk": 2}


def test_outside_of_a_query_its_name_is_wanted(world: World) -> None:
    frame = world.spark.createDataFrame(MORNING, COLUMNS)
    given = {"key": "customer", "timestamp": "at", "log": world.log, "state_dir": world.folder / "state"}
    with pytest.raises(ConfigError, match="this batch does not say of which query it is"):
        world.topology.batches("shop", **given)(frame, 0)
    for _ in range(2):
        world.topology.batches("shop", name="orders", **given)(frame, 0)
    assert world.last("totals") == {"ann": 2, "bob": 1}


def test_a_batch_of_an_application_shows_what_it_put_out(world: World) -> None:
    world.batch(MORNING, application_id="shop", batch="morning")
    noon = world.batch(NOON, application_id="shop", batch="noon")
    assert sorted((row["key"], row["value"]) for row in noon.dataframe("totals").collect()) == [("ann", 3), ("cid", 1)]
    chosen = noon.dataframe("totals", ["value", "key"])
    assert sorted(tuple(row) for row in chosen.collect()) == [(1, "cid"), (3, "ann")]
    with pytest.raises(ConfigError, match="columns: there is no column 'keys'"):
        noon.dataframe("totals", ["keys"])
    assert noon.records == len(NOON)
    with pytest.raises(ConfigError, match=r"no topic 'total' was written \(did you mean 'totals'"):
        noon.dataframe("total")


def test_the_command_line_makes_a_commit_and_says_which(world: World, tmp_path: Path) -> None:
    world.spark.createDataFrame(MORNING, COLUMNS).write.parquet(str(tmp_path / "morning.parquet"))
    command = [sys.executable, "-m", "penstock", "batch", f"{JOB}:shop", "--application-id", "shop"]
    files = ["--input", f"orders={tmp_path / 'morning.parquet'}", "--key", "customer", "--timestamp", "at"]
    given = [*files, "--batch", "morning", "--log", str(world.log), "--state-dir", str(tmp_path / "state")]
    first = subprocess.run([*command, *given], capture_output=True, text=True, cwd=tmp_path)
    assert (first.returncode, first.stdout) == (0, "")
    assert re.fullmatch(r"starting Spark \.\.\.\nshop: commit 1, 3 records, \d+\.\d s\n", first.stderr)
    again = subprocess.run([*command, *given, "--json"], capture_output=True, text=True, cwd=tmp_path)
    told = json.loads(again.stdout)
    assert (told["batch"], told["is_repeated"], told["records"]) == ("morning", True, 0)
    assert world.last("totals") == {"ann": 2, "bob": 1}
    nothing = subprocess.run([*command, *given[8:]], capture_output=True, text=True, cwd=tmp_path)
    assert "shop: there is nothing new; the application is at commit" in nothing.stderr
    wrong = subprocess.run([*command, "--input", "orders"], capture_output=True, text=True, cwd=tmp_path)
    assert "write it like --input orders=lake/orders" in wrong.stderr


def ran(folder: Path, what: str, crash_at: str = "") -> int:
    """The exit status of a job, which may be killed at a point."""
    env = {**os.environ, "PENSTOCK_CRASH_AT": crash_at}
    return subprocess.run([sys.executable, str(JOB), str(folder), what], env=env, stderr=subprocess.DEVNULL).returncode


def results(folder: Path) -> dict[str, list[tuple[str, int]]]:
    return {
        topic: sorted((record.key, record.value) for record in consume(topic, log=folder / "log"))
        for topic in ("totals", "items")
    }


def counted(rows: list[tuple[str, str, int]], column: int) -> dict[str, int]:
    return dict(Counter(row[column] for row in rows))


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("after-take-over:2", id="the driver, as the second batch begins"),
        pytest.param("before-manifest:2", id="the driver, with all tasks done"),
        pytest.param("after-manifest:2", id="the driver, before anybody sees the results"),
        pytest.param("after-delta:3:{folder}/once", id="a worker, with its state written"),
    ],
)
def test_a_job_that_is_killed_and_repeated_gives_what_one_gives_that_was_not(point: str, tmp_path: Path) -> None:
    at = point.format(folder=tmp_path)
    status = ran(tmp_path, "batches", at)
    assert status == (0 if "delta" in at else -signal.SIGKILL)
    assert ran(tmp_path, "batches") == 0
    found = results(tmp_path)
    every = [*job.MORNING, *job.NOON]
    assert dict(found["totals"]) == counted(every, 0)
    assert dict(found["items"]) == counted(every, 1)
    assert len(found["totals"]) == 7 + 5  # the last update of each key, of each batch
    assert len(found["items"]) == 3 + 4


def test_a_seed_that_is_killed_is_not_there_and_can_be_made_again(tmp_path: Path) -> None:
    assert ran(tmp_path, "seed", "before-manifest:1") == -signal.SIGKILL
    with open_store(tmp_path / "state" / "checkpoint", "counts") as store:
        assert list(store.all()) == []
    assert ran(tmp_path, "seed") == 0
    with open_store(tmp_path / "state" / "checkpoint", "counts") as store:
        assert {key: value for key, value, _ in store.all()} == counted(job.MORNING, 0)
