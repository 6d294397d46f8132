"""What the page asks for: the topology, figures, what is held back, topics; and what it refuses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder
from penstock.log.base import TopicInfo
from penstock.query.application import open_stores
from penstock.query.guard import Guarded
from penstock.watch import figures
from penstock.watch.figures import Application
from penstock.watch.server import page_app
from support.watched import Shop, open_shop, shop_topology
from support.world import World

TestClient: Any = pytest.importorskip("starlette.testclient", reason="comes with penstock-streams[serve]").TestClient

MINUTE = 60_000


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with open_shop() as shop:
        yield shop


@pytest.fixture(scope="module")
def client(shop: Shop) -> Any:
    page = Guarded(page_app(open_stores(shop.folder), shop.log).app, "localhost")
    return TestClient(page, base_url="http://localhost")


def test_the_picture_has_sub_topologies_with_their_steps_topics_and_stores(client: Any):
    picture = client.get("/api/picture").json()
    assert picture["application"] == "shop"
    steps = {part["name"]: part for sub in picture["subs"] for part in sub["parts"]}
    assert steps["final"]["predecessors"] == ["by-minute"]
    assert steps["final"]["holds"] == {"store": "final-store", "wait_ms": 10_000, "windows": True}
    assert [sub["tasks"] for sub in picture["subs"]] == [2]
    assert picture["partitions"] == {"orders": 2, "finals": 2}
    assert picture["stores"]["minutes"]["kind"] == "WindowStore"


def test_figures_are_those_of_the_newest_commit(client: Any, shop: Shop):
    figures = client.get("/api/figures").json()
    nodes = figures["nodes"]
    assert figures["commit"] == shop.running.coordinator.manifest.commit
    assert nodes["orders"]["records"] == nodes["by-minute"]["records"] == 5
    assert nodes["by-minute"]["drops"] == {"expired-window": 1}
    assert max(nodes["final"]["stream_time"]) == 2 * MINUTE
    assert figures["stores"]["minutes"]["rows"] == 2
    assert figures["topics"]["orders"] == {"read": 5, "ends": 5, "lag": [0, 0], "lag_ms": 0}
    [loss] = figures["losses"]
    assert (loss["node"], loss["records"], loss["done"]) == ("by-minute", 1, "dropped as late")
    assert sum(one["records"] for one in figures["commits"]) == 5


def test_all_tasks_are_counted_as_the_sub_topologies_show_them_though_few_have_processed_anything(tmp_path: Path):
    builder = StreamsBuilder()
    builder.stream("in", value=str).group_by(lambda key, value: value, key=str).count("counts").to_stream().to("out")
    world = World(tmp_path, builder.build())
    world.log.create_topic(TopicInfo("in", 8, "str", "str"))
    world.run("a")
    seen = Application(open_stores(tmp_path), world.log)
    assert [sub["tasks"] for sub in seen.picture()["subs"]] == [8, 8]
    assert seen.figures()["tasks"] == 16


def test_what_waits_is_said_in_records_and_in_their_time(tmp_path: Path):
    shop = Shop(tmp_path, shop_topology())
    shop.sell(("ann", 1.0, 1_000))
    shop.log_only(("ann", 1.0, 5_000), ("ann", 1.0, 65_000))
    client = TestClient(page_app(open_stores(shop.folder), shop.log).app, base_url="http://localhost")
    orders = client.get("/api/figures").json()["topics"]["orders"]
    assert sorted(orders["lag"]) == [0, 2]
    assert orders["lag_ms"] == 60_000


def test_a_step_tells_what_it_holds_back_and_what_that_waits_for(client: Any):
    held = client.get("/api/held/final").json()
    assert held["count"] == 2
    first, last = held["rows"]
    assert first["key"] == {"key": "gus", "start": 0, "end": MINUTE}
    assert (first["goes_at"], first["stream_time"]) == (70_000, 3_000)
    assert (last["key"]["key"], last["goes_at"], last["stream_time"]) == ("ann", 190_000, 2 * MINUTE)


def test_the_newest_records_of_a_topic_come_first(client: Any):
    found = client.get("/api/topics/orders?limit=2").json()
    assert [(row["key"], row["value"], row["timestamp"]) for row in found["rows"]] == [
        ("ann", 1.0, 2 * MINUTE),
        ("gus", 2.0, 3_000),
    ]
    assert found["types"] == {"key": "str", "value": "float"}


@pytest.mark.parametrize(
    ("address", "status", "said"),
    [
        ("/api/topics/nothing", 400, "the application has no topic 'nothing'; it has orders, finals"),
        ("/api/topics/orders?limit=0", 400, "limit is a number from 1 to 1000, got '0'"),
        ("/api/held/orders", 400, "there is no step 'orders' that holds anything back"),
        ("/stores/nothing", 404, "there is no store 'nothing'"),
        ("/etc/passwd", 404, "there is nothing at /etc/passwd"),
    ],
)
def test_what_cannot_be_answered_is_told(client: Any, address: str, status: int, said: str):
    answer = client.get(address)
    assert answer.status_code == status
    assert said in answer.json()["error"]


def test_pages_from_elsewhere_cannot_reach_it_under_a_name_of_theirs(client: Any):
    answer = client.get("/stores/minutes", headers={"host": "evil.example:8093"})
    assert answer.status_code == 421
    assert "no server of 'evil.example:8093'" in answer.json()["error"]


def test_the_page_takes_nothing_from_elsewhere(client: Any):
    answer = client.get("/")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    for name in ("/", "/page.css", "/theme.js", "/app.js", "/graph.js", "/panel.js", "/text.js"):
        text = client.get(name).text.replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text
        assert "https://" not in text


def test_prometheus_gets_every_figure_under_its_kafka_name(client: Any):
    pytest.importorskip("prometheus_client", reason="comes with penstock-streams[prometheus]")
    lines = client.get("/metrics").text.splitlines()
    own = 'application="shop",node="by-minute",reason="expired-window"'
    [dropped] = [line for line in lines if line.startswith("penstock_dropped_records_total{" + own)]
    assert dropped.endswith(" 1.0")
    assert 'penstock_lag_records{application="shop",partition="0",topic="orders"} 0.0' in lines
    assert any(line.startswith('penstock_process_total{application="shop",node="final"') for line in lines)
    assert any(line.startswith("penstock_commit_age_seconds") for line in lines)
    assert 'penstock_lag_stalled_seconds{application="shop"} 0.0' in lines


def test_prometheus_is_told_for_how_long_nothing_has_moved(tmp_path: Path):
    pytest.importorskip("prometheus_client", reason="comes with penstock-streams[prometheus]")
    shop = Shop(tmp_path, shop_topology())
    shop.sell(("ann", 1.0, 1_000))
    shop.log_only(("ann", 1.0, 5_000))
    time.sleep(0.3)
    page = page_app(open_stores(shop.folder), shop.log).app
    lines = TestClient(page, base_url="http://localhost").get("/metrics").text.splitlines()
    [stalled] = [line for line in lines if line.startswith("penstock_lag_stalled_seconds{")]
    assert 0.2 < float(stalled.rpartition(" ")[2]) < 60


def test_looking_takes_a_fiftieth_of_the_time_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shop = Shop(tmp_path, shop_topology())
    shop.sell(("ann", 1.0, 1_000))
    clock = iter([0.0, 100.0])  # a look of a hundred seconds
    monkeypatch.setattr(figures.time, "thread_time", lambda: next(clock))
    seen = Application(open_stores(shop.folder), shop.log)
    first = seen.figures()
    monkeypatch.setattr(figures, "_FRESH_SECONDS", 0.0)
    shop.sell(("ann", 1.0, 2_000))
    assert seen.figures() is first
    assert seen._fresh == 5_000.0
