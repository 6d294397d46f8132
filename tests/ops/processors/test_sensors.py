"""Metrics of a user's own, and what else a processor may ask of its application (KS-20)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import ProcessingError, Processor, StreamsBuilder
from penstock.serdes import INT, STR
from penstock.testing import TopologyTestDriver
from support.flows import Run, source

pytestmark = pytest.mark.kip("KS-20")


class Sold(Processor):
    def init(self, context):
        self.context = context
        metrics = context.metrics
        every = metrics.add_sensor("all").add("sold-total").add("sold-count", "count")
        self.cents = metrics.add_sensor("cents", "DEBUG", every)
        for stat in ("avg", "min", "max", "value"):
            self.cents.add(f"cents-{stat}", stat, "shop", {"currency": "euro"})

    def process(self, record):
        self.cents.record(record.value)
        self.context.forward(record)


def own(driver: Any) -> dict[tuple[str, str, str], float]:
    return {(m.group, m.name, m.level): figure for m, figure in driver.metrics().items() if m.is_own}


def test_a_sensor_gives_the_figures_that_were_added_to_it_and_tells_its_parents(run: Run):
    builder, stream = source(value=int)
    stream.process(Sold).to("out")
    ran = run(builder, [("tea", 350, 1), ("jam", 410, 2), ("tea", 200, 3)])
    assert own(ran.driver) == {
        ("application", "sold-total", "INFO"): 960,
        ("application", "sold-count", "INFO"): 3,
        ("shop", "cents-avg", "DEBUG"): 320,
        ("shop", "cents-min", "DEBUG"): 200,
        ("shop", "cents-max", "DEBUG"): 410,
        ("shop", "cents-value", "DEBUG"): 200,
    }
    found = {m.name: m.tags for m in ran.driver.metrics() if m.is_own}
    assert {"task-id": "0_0", "currency": "euro"}.items() <= found["cents-max"].items()
    assert "currency" not in found["sold-total"]


def test_a_latency_sensor_has_kafkas_names_group_and_tags():
    class Calls(Processor):
        def init(self, context):
            self.calls = context.metrics.add_latency_rate_total_sensor("shop", "oslo", "call")

        def process(self, record):
            self.calls.record(record.value)

    builder, stream = source(value=int)
    stream.process(Calls)
    driver = TopologyTestDriver(builder.build())
    for millis in (4, 8):
        driver.pipe_input("in", "a", millis)
    figures = {m.name: (m.group, m.tags["shop-id"], f) for m, f in driver.metrics().items() if m.is_own}
    assert figures == {
        "call-total": ("stream-shop-metrics", "oslo", 2),
        "call-latency-avg": ("stream-shop-metrics", "oslo", 6),
        "call-latency-max": ("stream-shop-metrics", "oslo", 8),
    }


def test_a_removed_sensor_records_no_more():
    class Once(Processor):
        def init(self, context):
            self.metrics = context.metrics
            self.seen = self.metrics.add_sensor("seen").add("seen-total")

        def process(self, record):
            self.seen.record()
            self.metrics.remove_sensor(self.seen)

    builder, stream = source(value=int)
    stream.process(Once)
    driver = TopologyTestDriver(builder.build())
    driver.pipe_record_list("in", [("a", 1), ("a", 2)])
    assert own(driver) == {("application", "seen-total", "INFO"): 1}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda m: m.add_sensor("a").add("b", "median"), "the sensor 'a' has no statistic 'median'"),
        (lambda m: m.add_sensor("a", "LOUD"), "must be one of INFO, DEBUG, TRACE; got 'LOUD'"),
        (lambda m: m.add_sensor("a").add("b|c"), "names, groups and tags of figures have letters"),
        (lambda m: m.add_sensor("a").add("b").record(1.5), "records whole numbers of 64 bits"),
    ],
)
def test_what_cannot_be_recorded_is_refused(wrong: Any, message: str):
    class Wrong(Processor):
        def init(self, context):
            wrong(context.metrics)

        def process(self, record):
            pass

    builder, stream = source(value=int)
    stream.process(Wrong)
    with pytest.raises(ProcessingError, match=message):
        TopologyTestDriver(builder.build()).pipe_input("in", "a", 1)


def test_the_context_tells_settings_default_types_and_a_folder(tmp_path: Path):
    seen: list[Any] = []

    class Asks(Processor):
        def init(self, context):
            seen.extend((context.app_configs()["commit_interval"], context.app_configs_with_prefix("default_value_")))
            seen.extend((context.key_serde, context.value_serde))
            (context.state_dir / "model").write_text("weights")
            seen.append((context.state_dir / "model").read_text())

        def process(self, record):
            pass

    builder, stream = source()
    stream.process(Asks)
    driver = TopologyTestDriver(builder.build(), commit_interval="7 s", default_value_serde=int)
    driver.pipe_input("in", "a", 1)
    assert seen == [7000, {"serde": int}, STR, INT, "weights"]


def test_figures_of_a_program_count_each_record_once_after_a_restart_and_its_folder_stays(tmp_path: Path):
    builder = StreamsBuilder()
    builder.stream("in", value=int).process(Sold).to("out")
    from penstock import produce

    for cents in (350, 410):
        produce([("tea", cents)], "in", key=str, value=int, log=str(tmp_path / "log"))
        with builder.build().start(
            "shop", engine="local", log=str(tmp_path / "log"), state_dir=tmp_path / "state", trigger="available-now"
        ) as streams:
            streams.await_termination()
            figures = own(streams)
    assert figures["application", "sold-total", "INFO"] == 760
    assert figures["shop", "cents-value", "DEBUG"] == 410
