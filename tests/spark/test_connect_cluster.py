"""A Connect server whose executors are on two machines of a cluster: programs, DataFrames, queries, and what dies."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import harness
import pytest

import penstock
from penstock import consume
from penstock.testing.broker import free_ports
from support.connect import KEYS, connect_server, counting, put, remote_session
from support.spark_classes import prepared_jvm
from support.standalone import StandaloneCluster

pytestmark = pytest.mark.slow

_COME_SECONDS = 30.0
HOSTS = {"127.0.0.2", "127.0.0.3"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("cluster"), workers=2, cores=2) as started:
        yield started


@pytest.fixture(scope="module")
def pages() -> str:
    """Where the server shows Spark's pages."""
    return f"http://127.0.0.1:{free_ports(1)[0]}"


@pytest.fixture(scope="module")
def remote(cluster: StandaloneCluster, pages: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    given = {
        "spark_executor_extraJavaOptions": prepared_jvm(),
        "spark_executor_memory": "600m",
        "spark_ui_enabled": "true",
        "spark_ui_port": pages.rpartition(":")[2],
    }
    folder = tmp_path_factory.mktemp("server")
    with connect_server(folder, cluster.url, **given) as server, remote_session(server) as session:
        yield session


def start(remote: Any, folder: Path, **given: Any) -> Any:
    places = {"log": folder / "log", "state_dir": folder / "state", "checkpoint": str(folder / "checkpoint")}
    return counting().start(folder.name, spark=remote, statestore_cache_max_bytes=0, **places, **given)


def put_and_process(streams: Any, folder: Path, numbers: range) -> None:
    put(folder, numbers)
    streams.process_all_available()


def check_outputs(folder: Path, records: int) -> None:
    """Each record has one result, and each key all of its counts in order."""
    tens = [record.value for record in consume("tens", str, int, log=folder / "log")]
    assert sorted(tens) == [n * 10 for n in range(records)]
    totals = [(record.key, record.value) for record in consume("totals", str, int, log=folder / "log")]
    for key in KEYS:
        assert [n for of, n in totals if of == key] == list(range(1, records // len(KEYS) + 1))


def slot_pids(cluster: StandaloneCluster, application: str) -> dict[int, int]:
    """The processes that are slots now, with the machine of each."""
    states = {machine: cluster.state_of(machine) / application for machine in range(cluster.workers)}
    return {pid: machine for machine, state in states.items() for pid in harness.slot_pids(state)}


def check_slots_on(cluster: StandaloneCluster, application: str, machines: list[int]) -> None:
    """The slots are on these machines, as soon as all of them have come: work begins with some of them."""
    until = time.monotonic() + _COME_SECONDS
    while (found := sorted(slot_pids(cluster, application).values())) != machines and time.monotonic() < until:
        time.sleep(0.1)
    assert found == machines


def test_a_program_runs_on_both_machines_and_is_asked_and_goes_on_after_a_stop(
    remote: Any, cluster: StandaloneCluster, tmp_path: Path
):
    for turn in (1, 2):
        put(tmp_path, range(90 * (turn - 1), 90 * turn))
        with start(remote, tmp_path, slots=4) as streams:
            streams.process_all_available()
            check_slots_on(cluster, tmp_path.name, [0, 0, 1, 1])
            assert {key: streams.store("counts").get(key) for key in KEYS} == dict.fromkeys(KEYS, 10 * turn)
    check_outputs(tmp_path, 180)
    assert slot_pids(cluster, tmp_path.name) == {}
    with penstock.open_store(tmp_path / "checkpoint", "counts") as counts:
        assert {key: counts.get(key) for key in KEYS} == dict.fromkeys(KEYS, 20)


def test_data_frames_go_in_and_come_out_and_are_a_batch(remote: Any, tmp_path: Path):
    rows = [(KEYS[n % len(KEYS)], n, 1_000 * n) for n in range(18)]
    frame = remote.createDataFrame(rows, "key string, n long, at long").repartition(4)
    columns = {"key": "key", "value": "n", "timestamp": "at"}
    penstock.write(frame, "rows", "key", "n", "at", log=tmp_path, partitions=4)
    assert sorted((r.key, r.value, r.timestamp) for r in consume("rows", str, int, log=tmp_path)) == sorted(rows)
    read = remote.read.format("penstock").option("topic", "rows").option("log", str(tmp_path)).option("typed", "true")
    found = read.load().selectExpr("key", "value", "int(double(timestamp) * 1000) AS at").collect()
    assert sorted(tuple(row) for row in found) == sorted(rows)
    with counting().run_batch(remote, {"numbers": frame}, **columns) as result:
        tens = sorted((row.key, row.value) for row in result.dataframe("tens").collect())
        counts = {row.key: row.value for row in result.store("counts").collect()}
    assert (tens, counts) == (sorted((key, 10 * n) for key, n, _ in rows), dict.fromkeys(KEYS, 2))


def test_streams_of_rows_go_from_topic_to_topic_once(remote: Any, tmp_path: Path):
    put(tmp_path, range(90))
    stream = remote.readStream.format("penstock").option("topic", "numbers").option("log", str(tmp_path / "log"))
    rows = stream.option("typed", "true").load().selectExpr("key", "value * 10 AS value", "timestamp")
    for turn in (1, 2):
        query = penstock.write(
            rows, "tens", "key", "value", "timestamp", log=tmp_path / "log", checkpoint=tmp_path / "q"
        )
        assert query is not None
        query.processAllAvailable()
        query.stop()
        assert sorted(r.value for r in consume("tens", str, int, log=tmp_path / "log")) == list(
            range(0, 900 * turn, 10)
        )
        put(tmp_path, range(90 * turn, 90 * (turn + 1)))


def shown(pages: str, what: str) -> list[Any]:
    """What Spark's REST API has of the server's only application."""
    with urlopen(f"{pages}/api/v1/applications") as answer:
        [application] = json.load(answer)
    with urlopen(f"{pages}/api/v1/applications/{application['id']}/{what}") as answer:
        found: list[Any] = json.load(answer)
    return found


def test_the_tags_and_the_plan_of_the_job_name_the_program(remote: Any, pages: str, tmp_path: Path):
    """Its description is the server's own, which no client sets."""
    put(tmp_path, range(9))
    with start(remote, tmp_path, slots=2) as streams:
        streams.process_all_available()
        [job] = shown(pages, "jobs?status=running")
        assert f"penstock {tmp_path.name}: 1 sub-topology in 2 slots until it stops" in {
            tag.rpartition("_Tag_")[2] for tag in job["jobTags"]
        }
        [query] = [one for one in shown(pages, "sql?length=1000") if one["status"] == "RUNNING"]
        assert f"Arguments: penstock_{tmp_path.name}(" in query["planDescription"]


def test_a_killed_slot_costs_an_attempt_and_no_result(remote: Any, cluster: StandaloneCluster, tmp_path: Path):
    put(tmp_path, range(90))
    with start(remote, tmp_path, slots=2) as streams:
        streams.process_all_available()
        for turn in (1, 2):
            before = slot_pids(cluster, tmp_path.name)
            os.kill(min(before), signal.SIGKILL)
            put_and_process(streams, tmp_path, range(90 * turn, 90 * (turn + 1)))
            assert min(before) not in slot_pids(cluster, tmp_path.name)
        assert {key: streams.store("counts").get(key) for key in KEYS} == dict.fromkeys(KEYS, 30)
    check_outputs(tmp_path, 270)


def test_a_lost_machine_costs_an_attempt_and_no_result(remote: Any, cluster: StandaloneCluster, tmp_path: Path):
    """Last, since the cluster has one machine less afterwards, until that one comes back."""
    put(tmp_path, range(90))
    with start(remote, tmp_path, slots=4) as streams:
        streams.process_all_available()
        check_slots_on(cluster, tmp_path.name, [0, 0, 1, 1])
        cluster.kill_machine(0)
        put_and_process(streams, tmp_path, range(90, 180))
        assert set(slot_pids(cluster, tmp_path.name).values()) == {1}
        cluster.add_worker(0)
        put_and_process(streams, tmp_path, range(180, 270))
        assert {key: streams.store("counts").get(key) for key in KEYS} == dict.fromkeys(KEYS, 30)
    check_outputs(tmp_path, 270)
