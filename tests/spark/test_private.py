"""What Penstock uses of PySpark beyond its documented API is as it was: each test fails when PySpark changes it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from penstock.arrays import murmur2
from penstock.engine.running.engine import connect_session, has_session
from penstock.engine.spark import private
from penstock.serdes import INT


def test_classic_sessions_are_told_from_those_of_connect(spark: SparkSession):
    assert Path(pyspark.__file__).parent.joinpath("sql", "connect", "session.py").is_file()
    connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session", "_jvm": None})
    assert private.is_classic(spark)
    assert not private.is_classic(connect())


@pytest.mark.parametrize("begins", ["before", "after"])
def test_the_client_of_a_lost_server_stops_repeating_its_calls(begins: str, recwarn: pytest.WarningsRecorder):
    """Also the calls that it repeats already, where they would be repeated for ten minutes."""
    grpc = pytest.importorskip("grpc")
    from pyspark.sql.connect.client.retries import DefaultPolicy, Retrying

    class UnavailableError(grpc.RpcError):
        def code(self) -> Any:
            return grpc.StatusCode.UNAVAILABLE

        def trailing_metadata(self) -> None:
            return None

    policies, waits = [DefaultPolicy()], list[float]()
    client = type("Client", (), {"get_retry_policies": lambda self: list(policies)})()
    session = type("SparkSession", (), {"client": client})()

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if begins == "before" and len(waits) == 6:
            private.stop_retrying(session)

    if begins == "after":
        private.stop_retrying(session)
    attempts = Retrying(policies, wait)

    def call() -> None:
        for attempt in attempts:
            with attempt:
                raise UnavailableError

    with pytest.raises(UnavailableError):
        call()
    assert len(waits) == {"before": 6, "after": 3}[begins]
    assert begins == "before" or sum(waits) < 1.5
    assert [str(one.message) for one in recwarn] == []


def test_while_another_thread_imports_pyspark_there_is_no_context_yet(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pyspark.core.context", ModuleType("pyspark.core.context"))
    assert (private.active_context(), private.gateway()) == (None, None)


def test_the_context_and_the_gateway_of_this_process_are_found(spark: SparkSession):
    assert private.active_context() is spark.sparkContext
    gateway = private.gateway()
    assert gateway.jvm.java.lang.System.getProperty("java.version")
    assert gateway.proc.poll() is None


def test_without_pyspark_imported_there_is_neither_and_it_is_not_imported():
    program = (
        "import sys; from penstock.engine.spark import private\n"
        "print(private.active_context(), private.gateway(), 'pyspark' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout == "None None False\n", ran.stderr


def test_a_jvm_is_launched_with_options_and_its_process_is_told_as_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    script = tmp_path / "bin" / "spark-submit"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\necho $@ $PENSTOCK_TOLD\nexit 3\n")
    script.chmod(0o755)
    for name, value in {"SPARK_HOME": str(tmp_path), "PENSTOCK_TOLD": "told", "PYSPARK_SUBMIT_ARGS": "shell"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    begun: list[Any] = []
    with open(tmp_path / "said", "w") as said, pytest.raises(Exception, match="Java gateway process exited"):
        private.launch({"spark.app.name": "a b"}, begun.append, stdout=said)
    assert [process.wait() for process in begun] == [3]
    assert (tmp_path / "said").read_text() == "--conf spark.app.name=a b shell told\n"
    from pyspark import java_gateway

    assert java_gateway.Popen is subprocess.Popen


def test_the_scala_side_of_contexts_and_sessions_answers(spark: SparkSession):
    assert private.jvm_of(spark.sparkContext).java.lang.Math.abs(-3) == 3
    assert private.jvm_of(spark).java.lang.Math.abs(-3) == 3
    assert private.scala_context(spark.sparkContext).isStopped() is False
    assert private.scala_session_state(spark).newHadoopConf() is not None


def test_it_is_known_how_many_tasks_can_run_and_where_those_of_a_job_do(spark: SparkSession, tmp_path: Path):
    context = spark.sparkContext
    tracker = context.statusTracker()
    assert (private.tasks_at_once(context), private.running_tasks(context, [])) == (4, [])
    ends = str(tmp_path / "ends")

    def wait_for(file: str) -> None:  # in the workers, which have no tests
        while not os.path.exists(file):
            time.sleep(0.01)

    def run() -> None:
        context.setJobGroup("some", "")
        context.range(3, numSlices=3).foreach(lambda _: wait_for(ends))

    job = threading.Thread(target=run)
    job.start()
    deadline = time.monotonic() + 60
    while len(tasks := private.running_tasks(context, tracker.getJobIdsForGroup("some"))) < 3:
        assert time.monotonic() < deadline
    assert sorted((task, executor) for task, executor, _ in tasks) == [(task, "driver") for task in range(3)]
    Path(ends).touch()
    job.join()
    assert private.running_tasks(context, tracker.getJobIdsForGroup("some")) == []


def test_accumulators_are_in_the_metrics_of_spark(spark: SparkSession):
    context = spark.sparkContext
    made = private.accumulators_in_metrics(context, ["penstock.test.a", "penstock.test.b"])
    made["penstock.test.a"].add(7)
    assert {name: one.value() for name, one in made.items()} == {"penstock.test.a": 7, "penstock.test.b": 0}
    sources = private.jvm_of(context).org.apache.spark.SparkEnv.get().metricsSystem()
    found = sources.getSourcesByName("AccumulatorSource")
    shown = [str(name) for at in range(found.size()) for name in found.apply(at).metricRegistry().getNames().toArray()]
    assert {"penstock.test.a", "penstock.test.b"} <= set(shown)


def test_events_of_streaming_queries_are_posted_where_somebody_listens(spark: SparkSession):
    assert private.known_session() is not None
    spark.range(1).count()
    post = private.query_events(spark)
    assert post is not None
    id_ = "0b1e9b1e-0000-4000-8000-000000000001"
    known = {"id": id_, "runId": id_, "name": "test", "timestamp": "2026-01-01T00:00:00.000Z"}
    post("QueryStartedEvent", json.dumps({**known, "jobTags": []}))
    post("QueryTerminatedEvent", json.dumps({"id": id_, "runId": id_, "exception": None}))
    assert private.events_of(spark.sparkContext) is None  # neither an event log nor listeners


def test_keys_of_a_dataframe_are_hashed_in_the_jvm_as_kafka_hashes_them(spark: SparkSession):
    chosen = random.Random(7)
    data = [chosen.randbytes(length) for length in range(40)] + [b"\xff" * n for n in range(9)] + [None]
    frame = spark.createDataFrame([(n, one) for n, one in enumerate(data)], "n bigint, data binary")
    hashed = frame.select("data", private.murmur2(spark, f.col("data")).alias("hash")).collect()
    expected = murmur2(pa.array(data, pa.binary())).astype(np.int32).tolist()
    assert [row["hash"] for row in hashed] == [*expected[:-1], None]


def test_numbers_become_the_eight_bytes_of_kafka(spark: SparkSession):
    numbers = [0, 1, -1, 2**63 - 1, -(2**63), 1234567890123, None]
    frame = spark.createDataFrame([(n,) for n in numbers], "n bigint")
    found = [row[0] for row in frame.select(private.eight_bytes(spark, f.col("n"))).collect()]
    assert [None if one is None else bytes(one) for one in found] == [
        None if n is None else INT.encode(n) for n in numbers
    ]


def test_an_rdd_holds_a_value_and_has_a_preferred_executor(spark: SparkSession):
    rdd = private.located(spark.sparkContext, ("a", 7), "executor_here_1")
    assert rdd.collect() == [("a", 7)]
    scala = rdd._jrdd.rdd()
    assert scala.preferredLocations(scala.partitions()[0]).mkString() == "executor_here_1"


def test_the_workers_of_an_rdd_get_the_environment_in_which_it_was_fixed(spark: SparkSession):
    context = spark.sparkContext

    def told(_: int) -> str | None:
        import os

        return os.environ.get("PENSTOCK_TOLD")

    before = dict(context.environment)
    with private.worker_environment(context, {"PENSTOCK_TOLD": "then"}) as fixed:
        rdd = fixed(context.parallelize([1], 1).map(told))
    assert context.environment == before
    with private.worker_environment(context, {"PENSTOCK_TOLD": "now"}):
        assert rdd.collect() == ["then"]


def test_workers_run_with_the_python_that_is_chosen(spark: SparkSession, monkeypatch: pytest.MonkeyPatch):
    context = spark.sparkContext
    monkeypatch.setattr(context, "pythonExec", context.pythonExec)
    private.use_python(context, "/no/such/python3")
    with pytest.raises(Exception, match="/no/such/python3"):
        context.parallelize([1], 1).map(lambda n: n).collect()


def test_the_thread_that_listens_for_accumulators_ends_when_it_is_told(spark: SparkSession):
    from pyspark.accumulators import _start_update_server

    class Context:
        _accumulatorServer = _start_update_server("", False)  # noqa: N815 - PySpark's name

    assert type(spark.sparkContext._accumulatorServer) is type(Context._accumulatorServer)
    [thread] = [
        one
        for one in threading.enumerate()
        if getattr(one, "_target", None) == Context._accumulatorServer.serve_forever
    ]
    private.end_accumulators(Context)
    thread.join(10)
    assert not thread.is_alive()
    Context._accumulatorServer.server_close()


def test_only_the_worker_that_is_given_filters_plans_with_them():
    program = (
        "import importlib, sys; from penstock.engine.spark import private\n"
        "importlib.import_module(f'pyspark.sql.worker.{sys.argv[1]}'); print(private.plans_with_filters())"
    )
    said = {}
    for worker in ("data_source_pushdown_filters", "plan_data_source_read"):
        ran = subprocess.run([sys.executable, "-c", program, worker], capture_output=True, text=True)
        said[worker] = ran.stdout.strip() or ran.stderr
    assert said == {"data_source_pushdown_filters": "True", "plan_data_source_read": "False"}


def test_a_pyspark_that_another_thread_is_importing_has_no_context_yet(monkeypatch: pytest.MonkeyPatch):
    for name in ("pyspark.core.context", "pyspark.sql.connect.session"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert (private.active_context(), private.gateway(), connect_session()) == (None, None, None)
    assert not has_session()
