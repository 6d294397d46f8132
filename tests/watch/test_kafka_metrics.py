"""Figures under the names, groups, tags and recording levels of Kafka Streams 4.4 (KS-16)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock import (
    STREAM_TIME,
    BufferConfig,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    Topology,
    produce,
)
from penstock.engine.local import LocalApplication
from penstock.engine.task import task
from penstock.errors import ConfigError
from penstock.figures import metrics
from penstock.figures.metric_names import GROUPS, NOT_GIVEN, OF_KAFKA, OF_THE_TEXTS, RECORDING_LEVELS, names
from penstock.figures.metrics import Metric
from penstock.log.file.log import FileLog
from penstock.query.application import open_stores
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from penstock.watch.figures import Application
from penstock.watch.opentelemetry import observe
from penstock.watch.prometheus import exposition

pytestmark = pytest.mark.kip("KS-16")

KAFKA = json.loads(Path(__file__).with_name("kafka-4.4-metrics.json").read_text())
PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"

RECORDS = [
    ("k1", "a", 0),
    ("k1", "b", 5),
    ("k1", "c", 12),
    ("k1", "d", 8),
    ("k2", "e", 20),
    ("k1", "f", 2),
    ("k2", "g", 28),
    ("k1", "h", 15),
    ("k1", "i", 60),
    ("k2", "j", 30),
]
"""Those of the case that the figures of Kafka Streams are from; the last one is late."""


def sessions() -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    windowed = grouped.windowed_by(SessionWindows.of_inactivity_gap_and_grace(5, 10))

    def append(key: str, value: str, before: str) -> str:
        return f"{before},{value}" if before else value

    table = windowed.aggregate(lambda: "", append, lambda key, a, b: ",".join(filter(None, (a, b))), str, "agg")
    table.to_stream().to("raw")
    table.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())).to_stream().to("final")
    return builder.build()


class Running:
    """An application over the records, and its figures as they are seen from outside."""

    def __init__(self, folder: Path, topology: Topology, **settings: object):
        self.folder, self.log = folder, FileLog(folder / "log")
        produce(RECORDS, "in", str, str, self.log, partitions=1)
        given = Settings(statestore_cache_max_bytes=0, **settings)
        storage = LocalStorage(folder / "checkpoint")
        self.application = LocalApplication(topology, "app", given, self.log, storage)
        self.application.run_until()
        self.seen = Application(open_stores(folder), self.log)

    def again(self) -> None:
        produce([("k9", "z", 61)], "in", str, str, self.log)
        self.application.run_until()


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    monkeypatch.setattr(task, "wall_clock_ms", lambda: 0)  # that of Kafka Streams' test driver
    return Running(tmp_path, sessions(), metrics_recording_level="TRACE")


def kafkas(figures: dict[Metric, float]) -> dict[Metric, float]:
    return {metric: figure for metric, figure in figures.items() if metric.is_of_kafka}


def test_every_name_is_one_of_kafka_streams_with_its_group_and_recording_level():
    for scope, given in OF_KAFKA.items():
        assert given.items() <= KAFKA[GROUPS[scope]]["names"].items()


def test_figures_are_those_of_kafka_streams_with_its_groups_and_tags(running: Running):
    figures = kafkas(running.seen.metrics())
    found = {(metric.name, *sorted(metric.tags.items())): figure for metric, figure in figures.items()}
    thread = {"thread-id": "app-StreamThread-1"}
    for name, tags, figure in KAFKA["figures"]:
        assert found[name, *sorted((thread | tags).items())] == pytest.approx(figure), name
    for metric in figures:
        tags = [name if not name.endswith("-state-id") else "-state-id" for name in metric.tags]
        assert tags == KAFKA[metric.group]["tags"], metric
        assert KAFKA[metric.group]["names"][metric.name] == metric.level
    assert found["recording-level", ("client-id", "app")] == 2
    [session] = [m for m in figures if m.name == "estimate-num-keys" and m.node == "agg"]
    assert "rocksdb-session-state-id" in session.tags


def test_all_that_is_named_is_given_but_for_what_did_not_happen(running: Running):
    running.again()  # the first commit's latency
    given = {(metric.scope, metric.name) for metric in kafkas(running.seen.metrics())}
    rare = {
        "punctuate-total",
        "punctuate-rate",
        "window-aggregate-final-emit-total",
        "window-aggregate-final-emit-rate",
    }
    wanted = {(scope if scope != "node" else "", name) for scope, names in OF_KAFKA.items() for name in names}
    assert {(scope, name) for scope, name in wanted - given} == {
        (scope, name) for scope, name in wanted if name in rare
    }


def test_bytes_and_latencies_are_measured(running: Running):
    running.again()
    figures = {(m.scope, m.name, m.reason): figure for m, figure in running.seen.metrics().items()}
    assert figures["topic", "bytes-consumed-total", "in"] > 10 * len("k1a")
    assert figures["topic", "bytes-produced-total", "final"] > 4 * len("k1")
    assert figures["task", "process-latency-max", ""] >= figures["task", "process-latency-avg", ""] > 0
    assert figures["thread", "commit-latency-max", ""] >= figures["thread", "commit-latency-avg", ""] >= 0
    assert figures["thread", "commit-total", ""] == 2
    assert figures["thread", "process-total", ""] == 11
    assert figures["state", "record-e2e-latency-min", "rocksdb-session"] == -61


def test_punctuations_are_counted(tmp_path: Path):
    class Ticks:
        def init(self, context):
            context.schedule(20, STREAM_TIME, lambda now: None)

        def process(self, record):
            pass

        def close(self):
            pass

    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).process(Ticks)
    figures = Running(tmp_path, builder.build()).seen.metrics()
    found = {metric.scope: figure for metric, figure in figures.items() if metric.name == "punctuate-total"}
    assert found == {"task": 3, "thread": 3}


@pytest.mark.kip("328-10")
@pytest.mark.kip("328-12")
def test_counts_of_late_records_are_given_at_info_and_how_late_they_and_full_the_buffers_are_at_debug(tmp_path: Path):
    """As KIP-328 has it."""
    at_info, at_debug = (
        {m.name for m in Running(tmp_path / level, sessions(), metrics_recording_level=level).seen.metrics()}
        for level in ("INFO", "DEBUG")
    )
    counts = {"late-record-drop-total", "late-record-drop-rate"}
    measures = {f"record-lateness-{figure}" for figure in ("avg", "max")}
    measures |= {
        f"suppression-buffer-{of}-{figure}" for of in ("size", "count") for figure in ("current", "avg", "max")
    }
    assert counts <= at_info
    assert not measures & at_info
    assert counts | measures <= at_debug


@pytest.mark.parametrize(
    ("level", "less", "more"),
    [("INFO", set(), {"DEBUG", "TRACE"}), ("DEBUG", {"INFO"}, {"TRACE"}), ("TRACE", {"INFO", "DEBUG"}, set())],
)
def test_the_recording_level_says_which_figures_are_given(tmp_path: Path, level: str, less: set[str], more: set[str]):
    figures = Running(tmp_path, sessions(), metrics_recording_level=level).seen.metrics()
    levels = {metric.level for metric in figures}
    assert levels == less | {level}
    assert not levels & more


def test_another_recording_level_is_refused():
    with pytest.raises(ConfigError, match="metrics_recording_level must be one of INFO, DEBUG, TRACE"):
        Settings(metrics_recording_level="ALL")


def test_totals_have_rates_where_kafka_streams_has_them(running: Running, monkeypatch: pytest.MonkeyPatch):
    now = 100.0
    monkeypatch.setattr(metrics.time, "monotonic", lambda: now)
    running.seen._rates = metrics.Rates({}, lambda: now)
    now += 10
    rates = {(m.scope, m.name): one for m, one in running.seen.metrics().items() if m.name.endswith("-rate")}
    assert rates["task", "process-rate"] == 1.0
    assert rates["task", "dropped-records-rate"] == 0.1
    assert rates["", "suppression-emit-rate"] == 0.4
    assert rates["", "late-record-drop-rate"] == 0.1
    assert not [scope for scope, _ in rates if scope == "topic"]


def test_the_program_and_the_exporters_give_the_same(running: Running):
    exposed = pytest.importorskip("prometheus_client.parser", reason="comes with penstock-streams[prometheus]")
    export = pytest.importorskip("opentelemetry.sdk.metrics.export", reason="comes with penstock-streams[dev]")
    from opentelemetry.sdk.metrics import MeterProvider

    figures = {m: figure for m, figure in running.seen.metrics().items() if not m.name.endswith("-rate")}
    text = exposition(running.seen)[0].decode()
    samples = [s for family in exposed.text_string_to_metric_families(text) for s in family.samples]
    prometheus = sorted((s.name, s.value) for s in samples if "rate" not in s.name.split("_")[-1])
    of_app = ("penstock_commit", "penstock_lag", "penstock_stream_time", "penstock_moved_tasks")
    assert [one for one in prometheus if not one[0].startswith(of_app)] == sorted(
        ("_".join(filter(None, ("penstock", m.scope, m.name.removesuffix("-current").replace("-", "_")))), figure)
        for m, figure in figures.items()
    )
    reader = export.InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    observe(running.folder, running.folder / "log", provider.get_meter("test"))
    [scope] = reader.get_metrics_data().resource_metrics[0].scope_metrics
    provider.shutdown()
    collected = {one.name: sorted(point.value for point in one.data.data_points) for one in scope.metrics}
    expected: dict[str, list[float]] = {}
    for m, figure in figures.items():
        words = m.name.removesuffix("-current").removesuffix("-total").replace("-", ".")
        expected.setdefault(".".join(filter(None, ("penstock", m.scope, words))), []).append(figure)
    assert {name: collected[name] for name in expected} == {name: sorted(one) for name, one in expected.items()}


def test_names_that_only_the_texts_know_stay_under_their_groups(running: Running):
    found = {(m.name, m.group): m.tags for m in running.seen.metrics() if not m.is_of_kafka}
    of_task = {"client-id": "app", "task-id": "0_0"}
    assert found["late-record-drop-total", "stream-processor-node-metrics"] == {
        **of_task,
        "processor-node-id": "KSTREAM-AGGREGATE-0000000001",
    }
    buffer = found["suppression-buffer-count-current", "stream-buffer-metrics"]
    assert buffer == {**of_task, "buffer-id": "KTABLE-SUPPRESS-STATE-STORE-0000000005"}
    assert {(m.scope, m.name) for m in running.seen.metrics()} <= set(names())


def test_the_page_lists_what_there_is_what_only_the_texts_know_and_what_there_is_not():
    rows = [
        [cell.strip().replace("`", "") for cell in line.strip("|\n").split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("| `")
    ]
    measured = [row.pop() for row in rows if row[1] in RECORDING_LEVELS]
    assert len(measured) == len(OF_THE_TEXTS)
    assert all(measured)
    of_kafka = [[GROUPS[scope], name, level] for scope, every in OF_KAFKA.items() for name, level in every.items()]
    of_texts = [[f"{name}{{{','.join(ends)}}}", level] for name, (level, ends) in OF_THE_TEXTS.items()]
    assert rows == of_kafka + of_texts + [[name, why.replace("`", "")] for name, why in NOT_GIVEN.items()]
