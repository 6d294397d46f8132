"""Spark's own tools show a program: listeners, event log, pages and metrics take it for a streaming query."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder, Topology, produce

pytestmark = pytest.mark.slow

ENGINES = ["spark", "micro-batch"]


def counting() -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("words", key=str, value=str).group_by(lambda _, word: word)
    words.count("counts").to_stream().to("totals")
    return builder.build()


def put(folder: Path, *words: str) -> None:
    produce([("a", word) for word in words], "words", key=str, value=str, partitions=1, log=folder)


def started(spark: Any, folder: Path, engine: str, **given: Any) -> Any:
    places = {"log": folder, "state_dir": folder / "state", "engine": engine, "slots": 1}
    return counting().start("shop", spark=spark, statestore_cache_max_bytes=0, **places, **given)


def wait_for(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while not (it := found()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return it


# --- listeners -------------------------------------------------------------------------------------------------------


@pytest.fixture
def heard(spark: Any) -> Any:
    """What a listener of the user's hears, in order."""
    from pyspark.sql.streaming import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def __init__(self) -> None:
            self.events: list[tuple[str, Any]] = []

        def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
            self.events.append(("started", (str(event.id), str(event.runId), event.name)))

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            self.events.append(("progress", json.loads(event.progress.json)))

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            self.events.append(("terminated", (str(event.id), str(event.runId), event.exception)))

    spark.range(1).count()  # a session that has loaded Spark SQL
    listener = Listener()
    spark.streams.addListener(listener)
    yield listener.events
    spark.streams.removeListener(listener)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_listener_hears_of_a_program_as_of_a_streaming_query(spark: Any, heard: Any, tmp_path: Path, engine: str):
    put(tmp_path, "x", "y", "x")
    with started(spark, tmp_path, engine) as streams:
        streams.process_all_available()
        wait_for(lambda: [kind for kind, _ in heard] == ["started", "progress"])
        put(tmp_path, "z")
        streams.process_all_available()
        commit = streams.last_progress.commit
    wait_for(lambda: len(heard) >= 4)
    assert [kind for kind, _ in heard] == ["started", "progress", "progress", "terminated"]
    (id_, run, name), (_, _, error) = heard[0][1], heard[-1][1]
    assert (name, error) == ("shop", None)
    first, last = heard[1][1], heard[2][1]
    assert all((one["id"], one["runId"], one["name"]) == (id_, run, "shop") for one in (first, last))
    assert [one["numInputRows"] for one in (first, last)] == [3, 1]
    assert [one["sink"]["numOutputRows"] for one in (first, last)] == [3, 1]
    assert min(first[of] for of in ("inputRowsPerSecond", "processedRowsPerSecond", "batchDuration")) > 0
    assert (last["batchId"], last["sink"]["description"]) == (commit, "topics totals")
    [source] = last["sources"]
    assert (source["description"], source["metrics"]) == ("topic words", {"lagRecords": "0"})
    assert [source[of] for of in ("startOffset", "endOffset", "latestOffset")] == [
        {"words": {"0": 3}},
        {"words": {"0": 4}},
        {"words": {"0": 4}},
    ]
    [store] = last["stateOperators"]
    assert (store["operatorName"], store["numRowsTotal"]) == ("counts", 3)
    figures = last["sink"]["metrics"]
    assert {name: figures[name] for name in ("records-read", "records-written", "lag-records", "state-rows")} == {
        "records-read": "4",
        "records-written": "4",
        "lag-records": "0",
        "state-rows": "3",
    }
    assert (figures["slot-0.records"], int(figures["slot-0.bytes"]) > 0) == ("8", True)


def test_the_query_of_a_program_has_the_same_id_after_a_restart_and_another_run(spark: Any, heard: Any, tmp_path: Path):
    put(tmp_path, "x")
    for _ in range(2):
        with started(spark, tmp_path, "spark", trigger="available-now") as streams:
            streams.await_termination()
    wait_for(lambda: [kind for kind, _ in heard].count("terminated") == 2)
    first, second = (event for kind, event in heard if kind == "started")
    assert (first[0] == second[0], first[1] == second[1]) == (True, False)


def test_a_listener_hears_why_a_program_failed(spark: Any, heard: Any, tmp_path: Path):
    put(tmp_path, "x")
    builder = StreamsBuilder()
    builder.stream("words", key=str, value=str).map_values(lambda word: 1 // len(word[1:])).to("out")
    places = {"log": tmp_path, "state_dir": tmp_path / "state", "slots": 1}
    streams = builder.build().start("shop", spark=spark, **places)
    with pytest.raises(Exception, match="ZeroDivisionError"):
        streams.await_termination()
    wait_for(lambda: [kind for kind, _ in heard][-1:] == ["terminated"])
    assert "ZeroDivisionError" in heard[-1][1][2]


# --- event log, pages, metrics of a session of its own ---------------------------------------------------------------

SESSION = """
import json, sys, time, urllib.request
from pathlib import Path
from pyspark.sql import SparkSession
sys.path.insert(0, sys.argv[2])
from test_listeners import counting, put, started

folder, engine = Path(sys.argv[1]), sys.argv[3]
(folder / "metrics.properties").write_text(
    "*.sink.prometheusServlet.class=org.apache.spark.metrics.sink.PrometheusServlet\\n"
    "*.sink.prometheusServlet.path=/metrics/prometheus\\n*.sink.jmx.class=org.apache.spark.metrics.sink.JmxSink\\n"
)
conf = {"eventLog.enabled": "true", "eventLog.dir": folder.as_uri(), "eventLog.rolling.enabled": "false",
        "eventLog.compress": "false", "metrics.conf": str(folder / "metrics.properties"), "ui.port": "0",
        "driver.host": "localhost", "driver.bindAddress": "127.0.0.1"}
builder = SparkSession.builder.master("local[3]")
for name, value in conf.items():
    builder = builder.config(f"spark.{name}", value)
spark = builder.getOrCreate()
spark.range(1).count()
put(folder, "x", "y", "x")

def read(path):
    return urllib.request.urlopen(spark.sparkContext.uiWebUrl + path).read().decode()

with started(spark, folder, engine, page="http://127.0.0.1:4044") as streams:
    streams.process_all_available()
    deadline = time.monotonic() + 60
    while "penstock_shop_commit" not in read("/metrics/prometheus/") and time.monotonic() < deadline:
        time.sleep(0.1)
    jvm = spark._jvm
    beans = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    new, name_of = spark.sparkContext._gateway.new_array, jvm.java.lang.Class.forName
    kinds = new(jvm.java.lang.Class, 2)
    kinds[0], kinds[1] = name_of("javax.management.ObjectName"), name_of("javax.management.QueryExp")
    names = name_of("javax.management.MBeanServer").getMethod("queryNames", kinds)
    jmx = [str(name) for name in names.invoke(beans, new(jvm.java.lang.Object, 2)).toArray()]
    application = json.loads(read("/api/v1/applications"))[0]["id"]
    found = {"prometheus": read("/metrics/prometheus/"), "jmx": [one for one in jmx if "penstock.shop" in one],
             "jobs": json.loads(read(f"/api/v1/applications/{application}/jobs")), "page": read("/StreamingQuery/")}
spark.stop()
(folder / "found.json").write_text(json.dumps({"application": application, **found}))
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_event_log_pages_and_metrics_show_a_program(tmp_path: Path, engine: str):
    script = tmp_path / "session.py"
    script.write_text(SESSION)
    given = [str(script), str(tmp_path), str(Path(__file__).parent), engine]
    ran = subprocess.run([sys.executable, *given], capture_output=True, text=True, timeout=300, env=os.environ)
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())

    about = {
        "spark": ["penstock shop: 2 sub-topologies in 1 slot until it stops; its page: http://127.0.0.1:4044"],
        "micro-batch": [
            f"penstock shop: commit 1, stage {number} of 2; its page: http://127.0.0.1:4044" for number in (1, 2)
        ],
    }[engine]
    jobs = [job for job in found["jobs"] if job.get("jobGroup") == "penstock-shop"]
    assert sorted(job["description"] for job in jobs) == about
    assert "shop" in found["page"]

    gauges = dict(re.findall(r"AccumulatorSource_penstock_shop_(\w+)_Value\S* (\d+)", found["prometheus"]))
    assert {name: gauges[name] for name in ("commit", "records_read", "records_written", "slot_0_records")} == {
        "commit": "1",
        "records_read": "3",
        "records_written": "3",
        "slot_0_records": "6",
    }
    assert len(found["jmx"]) == len(gauges)

    lines = [json.loads(line) for line in (tmp_path / found["application"]).read_text().splitlines()]
    begun = [line for line in lines if line["Event"] == "SparkListenerJobStart"]
    logged = [line["Properties"].get("spark.job.description") for line in begun]
    assert [said for said in logged if said and said.startswith("penstock shop")] == about
    events = [line for line in lines if "StreamingQueryListener" in line["Event"]]
    assert [line["Event"].rpartition("$")[2] for line in events] == [
        "QueryStartedEvent",
        "QueryProgressEvent",
        "QueryTerminatedEvent",
    ]
    assert events[1]["progress"]["sources"][0]["numInputRows"] == 3
