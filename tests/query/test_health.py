"""``/health``: whether an application is well, for supervisors."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder
from penstock.query.application import open_stores
from penstock.query.health import HealthCheck
from penstock.query.server import app
from penstock.watch.server import page_app
from support.watched import SOLD, Shop, shop_topology

testclient = pytest.importorskip("starlette.testclient", reason="comes with penstock-streams[serve]")


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path, shop_topology())
    shop.sell(*SOLD)
    return shop


def asked(served: Any, address: str = "/health") -> tuple[int, dict[str, Any]]:
    answer = testclient.TestClient(served, base_url="http://localhost").get(address)
    return answer.status_code, answer.json()


def test_an_application_that_has_read_all_is_well(shop: Shop):
    status, told = asked(page_app(open_stores(shop.folder), shop.log).app)
    assert (status, told["status"], told["behind"], told["state"], told["application"]) == (200, "ok", 0, None, "shop")


def test_one_that_makes_no_commit_though_records_wait_is_stalled(shop: Shop):
    shop.log_only(("kim", 1.0, 5_000), ("ann", 2.0, 5_000))
    served = page_app(open_stores(shop.folder), shop.log).app
    assert asked(served)[0] == 200  # it has a minute
    status, told = asked(served, "/health?stalled=0 ms")
    assert (status, told["status"], told["behind"]) == (503, "stalled", 2)


def test_one_that_was_idle_has_as_long_for_a_record_as_any_other(shop: Shop, monkeypatch: pytest.MonkeyPatch):
    served = page_app(open_stores(shop.folder), shop.log).app
    later = time.time() + 3600
    monkeypatch.setattr("penstock.query.health.time.time", lambda: later)
    status, told = asked(served)
    assert (status, told["status"], told["behind"], told["stalled_seconds"]) == (200, "ok", 0, 0.0)
    shop.log_only(("kim", 1.0, 5_000))
    for folder in (shop.log.root / "orders" / "data").iterdir():
        os.utime(folder, (later, later))
    for check in (served, page_app(open_stores(shop.folder), shop.log).app):  # that knows, and that looks
        status, told = asked(check)
        assert (status, told["status"], told["behind"], told["commit_age_seconds"] > 3500) == (200, "ok", 1, True)
    monkeypatch.setattr("penstock.query.health.time.time", lambda: later + 61)
    status, told = asked(served)
    assert (status, told["status"], told["stalled_seconds"]) == (503, "stalled", 61.0)


def test_a_look_reads_the_newest_commit_once_and_its_start_at_the_first_look(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    shop.log_only(("kim", 1.0, 5_000))
    stores, read = open_stores(shop.folder), []
    check, storage = HealthCheck(stores, shop.log), stores.commits.storage
    monkeypatch.setattr(storage, "read", lambda name, real=storage.read: (read.append(name), real(name))[1])
    looks = [check.look(), check.look()]
    assert [one.behind for one in looks] == [1, 1]
    assert [name.partition("/")[0] for name in read] == ["manifests", "starts", "manifests"]


def test_prometheus_and_health_have_one_memory_of_when_nothing_waited(shop: Shop, monkeypatch: pytest.MonkeyPatch):
    served = page_app(open_stores(shop.folder), shop.log).app
    later = time.time() + 3600
    monkeypatch.setattr("penstock.query.health.time.time", lambda: later)
    assert asked(served)[1]["behind"] == 0
    shop.log_only(("kim", 1.0, 5_000))  # by the files' times it has waited for an hour
    monkeypatch.setattr("penstock.query.health.time.time", lambda: later + 5)
    assert asked(served)[1]["stalled_seconds"] == 5.0
    metrics = testclient.TestClient(served, base_url="http://localhost").get("/metrics").text
    assert 'penstock_lag_stalled_seconds{application="shop"} 5.0' in metrics.splitlines()


def test_a_commit_that_takes_long_and_moves_is_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    looks: list[tuple[str, str]] = []
    builder = StreamsBuilder()
    builder.stream("orders", key=str, value=float).map_values(lambda value: time.sleep(0.05) or value).to("out")
    shop = Shop(tmp_path, builder.build(), partitions=1, chunk_records=4)
    monkeypatch.setattr("penstock.engine.shared.moved.NOTE_SECONDS", 0.2)
    here = HealthCheck(shop.running.stores(), shop.log)
    outside = HealthCheck(open_stores(shop.folder), shop.log)

    def look() -> None:
        while not over.wait(0.2):
            looks.append((here.look(3_000).status, outside.look(3_500).status))

    over, looking = threading.Event(), threading.Thread(target=look)
    looking.start()
    commit = shop.running.coordinator.manifest.commit
    shop.sell(*[("ann", 1.0, n) for n in range(120)])  # six seconds, at least
    over.set()
    looking.join()
    assert shop.running.coordinator.manifest.commit == commit + 1
    assert len(looks) > 10
    assert set(looks) == {("ok", "ok")}
    assert outside.look(0).status == "ok"


def test_a_program_is_ready_when_it_has_begun_to_work(shop: Shop):
    for state, status in (("REBALANCING", 503), ("RUNNING", 200), ("ERROR", 503)):
        served = page_app(open_stores(shop.folder), shop.log, lambda state=state: state).app
        assert asked(served, "/health/ready")[0] == status
    assert [asked(served, f"/health{one}")[1]["status"] for one in ("", "/live", "/ready")] == ["failed"] * 3
    assert asked(served, "/health/live")[0] == asked(served, "/health")[0] == 503


@pytest.mark.parametrize(
    ("state", "status", "word"),
    [
        ("CREATED", 200, "ok"),
        ("REBALANCING", 200, "ok"),
        ("RUNNING", 200, "ok"),
        ("PENDING_SHUTDOWN", 200, "ok"),
        ("PENDING_ERROR", 503, "failed"),
        ("ERROR", 503, "failed"),
        ("NOT_RUNNING", 503, "ended"),
    ],
)
def test_one_that_runs_here_is_as_its_program_is(shop: Shop, state: str, status: int, word: str):
    stores = open_stores(shop.folder)
    for served in (
        page_app(stores, shop.log, lambda: state).app,
        app(stores, HealthCheck(stores, shop.log, lambda: state)),
    ):
        found = asked(served)
        assert (found[0], found[1]["status"], found[1]["state"]) == (status, word, state)


def test_without_its_topics_its_commits_tell(shop: Shop):
    status, told = asked(app(open_stores(shop.folder)), "/health?stalled=0 ms")
    assert (status, told["status"], told["behind"], told["commit"]) == (200, "ok", None, 1)


def test_a_checkpoint_that_cannot_be_read_is_no_health(shop: Shop):
    served = app(open_stores(shop.folder, max_age=0))
    for file in sorted((shop.folder / "checkpoint" / "manifests").iterdir()):
        file.write_bytes(b"nothing")
    status, told = asked(served)
    assert (status, "error" in told) == (503, True)


def test_a_wrong_duration_is_told(shop: Shop):
    status, told = asked(app(open_stores(shop.folder)), "/health?stalled=soon")
    assert (status, "stalled" in told["error"]) == (400, True)
