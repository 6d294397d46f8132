"""What the page asks for: the topology, figures, what is held back, topics; and what it refuses."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from penstock import StreamsBuilder
from penstock.log.base import TopicInfo
from penstock.query.application import open_stores
from penstock.query.guard import Guarded
from penstock.query.server import StateServer
from penstock.watch import figures, server
from penstock.watch.figures import Application
from penstock.watch.samples import Samples
from penstock.watch.server import page_app
from penstock.watch.why import Replays
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
        (
            "/api/held/orders",
            400,
            "there is no step 'orders' that holds anything back; `penstock topology` names the steps",
        ),
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
    scripts = ("theme", "app", "charts", "graph", "panel", "text", "why")
    for name in ("", "page.css", *(f"{script}.js" for script in scripts)):
        text = client.get(f"/{name}").text.replace("http://www.w3.org/2000/svg", "")
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


def test_the_history_keeps_rate_lag_latency_and_state_in_a_bounded_number_of_points(tmp_path: Path):
    shop = Shop(tmp_path, shop_topology())
    now = int(time.time() * 1000)
    shop.sell(("ann", 1.0, now - 500), ("ann", 2.0, now + 90_000))
    shop.log_only(("ann", 1.0, now + 91_000))
    client = TestClient(page_app(open_stores(shop.folder), shop.log).app, base_url="http://localhost")
    figures = client.get("/api/figures").json()
    minutes = client.get("/api/history/minutes").json()
    assert (minutes["step"], minutes["points"]) == (2_000, 300)
    assert minutes["lag"] == [1]
    assert minutes["rate"] == [round(figures["rate"], 2)]
    assert minutes["state"] == [sum(one["bytes"] for one in figures["stores"].values())]
    assert minutes["latency"] == [round(figures["latency"], 1)]  # of the window that has closed
    assert client.get("/api/history/day").json()["lag"] == [1]
    assert client.get("/api/history/year").json() == {"error": "span is one of minutes, day; got 'year'"}


def test_points_of_a_stretch_are_one_and_the_oldest_go():
    samples = Samples()
    for second in range(1, 2_001):
        samples.add(second * 1_000, float(second % 2), second, None if second % 2 else 10.0 * second, second)
    minutes, day = samples.series("minutes"), samples.series("day")
    assert minutes["at"] == list(range(1_402_000, 2_000_001, 2_000))
    assert minutes["rate"][:-1] == [0.5] * 299
    assert (minutes["lag"][-1], minutes["latency"][-1], minutes["state"][-1]) == (2_000, 20_000.0, 2_000)
    assert day["at"] == list(range(0, 1_800_001, 300_000))
    assert day["lag"] == [299, 599, 899, 1_199, 1_499, 1_799, 2_000]


def test_a_history_goes_on_when_the_wall_clock_is_set_back():
    samples = Samples()
    samples.add(10_000, 1.0, None, None, 5)
    samples.add(3_000, 3.0, 7, 4.0, 6)
    found = samples.series("minutes")
    assert (found["at"], found["rate"], found["lag"], found["latency"], found["state"]) == (
        [10_000],
        [2.0],
        [7],
        [4.0],
        [6],
    )


def test_a_server_takes_the_history_of_its_application_though_no_page_is_open(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("uvicorn", reason="comes with penstock-streams[serve]")
    monkeypatch.setattr(server, "_SAMPLE_SECONDS", 0.05)
    with StateServer(open_stores(shop.folder), "127.0.0.1", 0, page_app(open_stores(shop.folder), shop.log)) as served:
        deadline = time.monotonic() + 60
        while not (points := asked(f"{served.url}/api/history/minutes")["at"]) and time.monotonic() < deadline:
            time.sleep(0.05)
    assert points


def asked(url: str) -> Any:
    with urlopen(url) as answer:
        return json.load(answer)


SECRET = "https://me:hidden@shop.example/orders?token=hidden2"


def failing(folder: Path, on_error: str) -> Shop:
    """A shop in which orders of less than 0 fail."""

    def checked(order: float) -> float:
        if order < 0:
            raise ValueError(f"an order of {order}, see {SECRET}")
        return order

    builder = StreamsBuilder()
    orders = builder.stream("orders", key=str, value=float)
    orders.map_values(checked, name="check", value=float).to("checked")
    shop = Shop(folder, builder.build(), on_error=on_error)
    shop.sell(("ann", 1.0, 1_000), ("ann", -2.0, 2_000), ("ann", -3.0, 3_000))
    return shop


def test_a_dead_letter_tells_its_record_its_step_and_its_error_without_secrets(tmp_path: Path):
    shop = failing(tmp_path, "dead_letter:failed")
    client = TestClient(page_app(open_stores(shop.folder), shop.log).app, base_url="http://localhost")
    assert client.get("/api/picture").json()["dead_letters"] == ["failed"]
    answer = client.get("/api/letters?limit=1")
    assert "hidden" not in answer.text
    found = answer.json()
    [letter] = found["rows"]
    assert (found["topic"], found["records"]) == ("failed", 2)
    assert "checked at " in letter.pop("function")
    assert letter.pop("stack").startswith("Traceback")
    assert letter == {
        "node": "check",
        "error": "ValueError: an order of -3.0, see https://****@shop.example/orders?token=****",
        "exception": "ValueError",
        "topic": "orders",
        "partition": str(letter["letter"]["partition"]),
        "offset": "2",
        "key": "ann",
        "value": -3.0,
        "letter": {"partition": letter["letter"]["partition"], "offset": 1, "timestamp": 3_000},
    }
    assert [row["timestamp"] for row in client.get("/api/topics/failed").json()["rows"]] == [3_000, 2_000]


def test_skipped_records_are_counted_by_step_and_error_where_there_are_no_dead_letters(tmp_path: Path):
    shop = failing(tmp_path, "skip")
    client = TestClient(page_app(open_stores(shop.folder), shop.log).app, base_url="http://localhost")
    assert client.get("/api/letters").json() == {"topic": None, "records": 0, "rows": []}
    [loss] = client.get("/api/figures").json()["losses"]
    assert (loss["node"], loss["reason"], loss["records"], loss["done"]) == ("check", "ValueError", 2, "skipped")


PROGRAM = """
from support.watched import shop_topology

topology = shop_topology()
"""


@pytest.mark.slow
def test_why_tells_the_windows_of_a_key_their_records_and_what_was_late(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "shop_to_ask.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    replays = Replays(str(tmp_path / "shop_to_ask.py"), shop.log.url)
    client = TestClient(page_app(open_stores(shop.folder), shop.log, replays=replays).app, base_url="http://localhost")
    asks = {"penstock-page": "1"}
    [line] = client.get("/api/why/by-minute/ann", headers=asks).json()["lines"]
    first, last = [0, MINUTE], [2 * MINUTE, 3 * MINUTE]
    assert (line["key"], line["windows"], line["late"], line["of_key"]) == ("ann", [first, last], 1, 3)
    assert (line["read"], line["present"], line["grace_ms"], line["stream_time"]) == (5, 5, 10_000, 2 * MINUTE)
    rows = [(one["timestamp"], one["value"], one["windows"], one["closed"], one["offset"]) for one in line["records"]]
    assert sorted(rows) == [(1_000, 5.0, [first], [], 0), (1_000, 9.0, [], [first], 2), (120_000, 1.0, [last], [], 1)]
    [late] = [one for one in line["records"] if one["late"]]
    assert late["told"].startswith("late: stream time was 1970-01-01T00:02:00Z, and its window ")
    assert {one["topic"] for one in line["records"]} == {"orders"}
    [newest] = client.get("/api/why/by-minute/ann?limit=2", headers=asks).json()["lines"]
    assert (newest["read"], newest["present"]) == (2, 5)
    wrong = client.get("/api/why/orders/ann", headers=asks)
    assert wrong.status_code == 400
    assert "'orders' is not a step that aggregates in windows; they are: by-minute" in wrong.json()["error"]


def test_a_replay_is_refused_to_pages_of_other_sites_and_where_the_program_is_not_known(client: Any):
    answer = client.get("/api/why/by-minute/ann")
    assert (answer.status_code, "penstock-page" in answer.json()["error"]) == (403, True)
    answer = client.get("/api/why/by-minute/ann", headers={"penstock-page": "1"})
    assert (answer.status_code, "--program" in answer.json()["error"]) == (404, True)


def test_all_applications_of_a_log_are_listed_with_their_state_and_have_pages(tmp_path: Path):
    shop = Shop(tmp_path / "shop", shop_topology(), log=tmp_path / "log")
    shop.sell(("ann", 1.0, 1_000))
    other = StreamsBuilder()
    other.stream("orders", key=str, value=float).group_by_key().count("all").to_stream().to("counts")
    billing = Shop(tmp_path / "billing", other.build(), log=tmp_path / "log", name="billing")
    billing.running.run_until()
    stranger = Shop(tmp_path / "stranger", shop_topology(), log=tmp_path / "other-log", name="stranger")
    stranger.sell(("ann", 1.0, 1_000))
    shop.log_only(("ann", 2.0, 2_000))
    stores = open_stores(shop.folder)

    def names(client: Any, at: str = "") -> list[tuple[str, str | None, int]]:
        return [(one["name"], one["address"], one["behind"]) for one in client.get(f"{at}/api/applications").json()]

    client = TestClient(page_app(stores, shop.log, shows_others=True).app, base_url="http://localhost")
    assert names(client) == [("billing", "/applications/billing/", 1), ("shop", "/", 1)]
    assert names(client, "/applications/billing") == names(client)
    assert client.get("/applications/billing/api/figures").json()["application"] == "billing"
    assert client.get("/applications/billing/stores/all/ann").json()["row"]["value"] == 1
    assert client.get("/applications/billing/").text == client.get("/").text
    assert client.get("/applications/stranger/api/figures").status_code == 404
    assert client.get("/applications/..%2fshop/api/figures").status_code == 404
    alone = TestClient(page_app(stores, shop.log).app, base_url="http://localhost")
    assert names(alone) == [("billing", None, 1), ("shop", "/", 1)]
    assert alone.get("/applications/billing/api/figures").status_code == 404


def test_new_addresses_need_the_token_as_all_others(shop: Shop):
    served = page_app(open_stores(shop.folder), shop.log, shows_others=True)
    client = TestClient(Guarded(served.app, "0.0.0.0", "a" * 16), base_url="http://localhost")
    for address in ("history/minutes", "letters", "applications", "why/by-minute/ann"):
        assert client.get(f"/api/{address}").status_code == 401
    assert client.get("/applications/shop/api/figures").status_code == 401
    local = TestClient(Guarded(served.app, "localhost"), base_url="http://evil.example")
    for address in ("history/minutes", "letters", "applications", "why/by-minute/ann"):
        assert local.get(f"/api/{address}").status_code == 421


def test_figures_are_told_while_another_thread_takes_the_picture_of_a_new_start(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    seen, note = Application(open_stores(shop.folder), shop.log), figures.History.note

    def noted(self: figures.History, newest: Any) -> None:
        seen._history = None  # as the other thread does
        note(self, newest)

    monkeypatch.setattr(figures.History, "note", noted)
    assert seen.figures()["commit"] == shop.running.coordinator.manifest.commit
