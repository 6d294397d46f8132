"""Figures for other tools: OpenTelemetry, and a dashboard of Grafana's that asks for what there is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.shared.places import SlotPlace
from penstock.errors import ConfigError
from penstock.figures.metrics import DEAD_LETTERS, SKIPPED
from penstock.query.application import open_stores
from penstock.watch.figures import Application
from penstock.watch.opentelemetry import observe
from penstock.watch.prometheus import exposition, prometheus_name
from support.watched import SOLD, Shop, shop_topology

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana-dashboard.json"


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path, shop_topology())
    shop.sell(*SOLD)
    return shop


def test_opentelemetry_collects_the_figures_of_the_newest_commit(shop: Shop):
    export = pytest.importorskip("opentelemetry.sdk.metrics.export", reason="comes with penstock-streams[dev]")
    from opentelemetry.sdk.metrics import MeterProvider

    reader = export.InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    observe(shop.folder, shop.folder / "log", provider.get_meter("test"))

    def collected() -> dict[str, list[Any]]:
        metrics = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
        return {one.name: list(one.data.data_points) for one in metrics}

    first = collected()
    [dropped] = first["penstock.dropped.records"]
    assert (dropped.value, dict(dropped.attributes)["node"]) == (1, "by-minute")
    assert sum(point.value for point in first["penstock.process"] if point.attributes["node"] == "orders") == 5
    shop.sell(("kim", 1.0, 5_000))
    again = collected()
    assert sum(point.value for point in again["penstock.process"] if point.attributes["node"] == "orders") == 6
    assert again["penstock.commit"][0].value == first["penstock.commit"][0].value + 1
    provider.shutdown()


def reads_of_commits(shop: Shop, monkeypatch: pytest.MonkeyPatch, stores: Any) -> list[str]:
    """The names of the commits that are read from now on."""
    storage, read = stores.commits.storage, []
    monkeypatch.setattr(storage, "read", lambda name, real=storage.read: (read.append(name), real(name))[1])
    return read


def test_opentelemetry_reads_a_commit_a_few_times_however_many_figures_there_are(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    export = pytest.importorskip("opentelemetry.sdk.metrics.export", reason="comes with penstock-streams[dev]")
    from opentelemetry.sdk.metrics import MeterProvider

    reader, stores = export.InMemoryMetricReader(), open_stores(shop.folder)
    provider = MeterProvider(metric_readers=[reader])
    observe(stores, shop.folder / "log", provider.get_meter("test"))
    reader.get_metrics_data()
    read = reads_of_commits(shop, monkeypatch, stores)
    reader.get_metrics_data()
    assert len(read) <= 3
    provider.shutdown()


def test_prometheus_reads_a_commit_once_for_the_figures_and_once_for_the_health(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("prometheus_client", reason="comes with penstock-streams[prometheus]")
    stores = open_stores(shop.folder)
    application = Application(stores, shop.log)
    application.figures()  # has read the commits before, and is fresh
    read = reads_of_commits(shop, monkeypatch, stores)
    exposition(application)
    assert len(read) == 2


def test_opentelemetry_of_an_application_that_is_not_there_is_refused(tmp_path: Path):
    pytest.importorskip("opentelemetry.metrics", reason="comes with penstock-streams[opentelemetry]")
    with pytest.raises(ConfigError, match="found no commit of an application"):
        observe(tmp_path / "nothing")


def test_the_dashboard_asks_for_figures_that_prometheus_gets(shop: Shop):
    pytest.importorskip("prometheus_client", reason="comes with penstock-streams[prometheus]")
    text = exposition(Application(open_stores(shop.folder), shop.log))[0].decode()
    there = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    there |= {prometheus_name(name) for name in (SKIPPED, DEAD_LETTERS)}  # nothing failed here
    asked = {
        name
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        for target in panel["targets"]
        for name in re.findall(r"penstock_[a-z_]+", target["expr"])
    }
    assert len(asked) >= 12
    assert asked <= there


def test_figures_and_prometheus_say_where_slots_live(shop: Shop, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("prometheus_client", reason="comes with penstock-streams[prometheus]")
    assert Application(open_stores(shop.folder), shop.log).figures()["places"] == {
        "slots": [], "moved": 0, "moved_total": 0
    }  # fmt: skip
    places = [SlotPlace("1", "here", copy="there"), SlotPlace("2", "there")]
    monkeypatch.setattr(type(shop.running), "places", places)
    shop.sell(("kim", 1.0, 5_000))
    found = Application(open_stores(shop.folder), shop.log)
    assert found.figures()["places"]["slots"][0] == {"executor": "1", "host": "here", "tasks": 1, "copy": "there"}
    lines = exposition(found)[0].decode().splitlines()
    assert 'penstock_slot_tasks{application="shop",executor="1",host="here",slot="0"} 1.0' in lines
    assert 'penstock_slot_copied{application="shop",executor="2",host="there",slot="1"} 0.0' in lines
    assert 'penstock_moved_tasks{application="shop"} 0.0' in lines
