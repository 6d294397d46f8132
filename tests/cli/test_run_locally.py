"""``penstock run --engine local``: its page, its answers over HTTP, rescale and reset, in processes of this machine."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Penstock
from cli.test_run import Running, said
from penstock import produce
from penstock.testing.broker import free_ports

pytestmark = pytest.mark.slow

PROGRAM = """
from penstock import StreamsBuilder

builder = StreamsBuilder()
builder.stream("flights", key=str, value=str).group_by_key().count("counts").to_stream().to("totals")
"""


@pytest.fixture(autouse=True)
def app(folder: Path) -> None:
    (folder / "flights.py").write_text(PROGRAM)
    produce([("JFK", "UA"), ("LAX", "UA"), ("JFK", "DL")], "flights", key=str, value=str)


def answer(url: str) -> Any:
    for _ in range(200):
        try:
            with urllib.request.urlopen(url) as response:
                return response.read()
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"nothing at {url}")


def test_its_page_and_its_stores_are_there_while_it_runs(penstock: Penstock):
    ui, serve = free_ports(2)
    ports = "--ui", "--ui-port", str(ui), "--serve", "--serve-port", str(serve)
    running = Running("flights.py:builder", "--engine", "local", "--slots", "2", *ports)
    running.wait_for_records("totals", 2)
    found = json.loads(answer(f"http://127.0.0.1:{serve}/stores/counts/JFK"))
    assert (found["row"]["key"], found["row"]["value"]) == ("JFK", 2)
    assert json.loads(answer(f"http://127.0.0.1:{serve}/health"))["status"] == "ok"
    assert b"<title>" in answer(f"http://127.0.0.1:{ui}/")
    status = json.loads("\n".join(penstock("status", "flights", "--json").out))
    assert (status["application_id"], len(status["slots"])) == ("flights", 2)
    running.ctrl_c()
    assert running.end()[0] == 0


def test_it_goes_on_behind_a_rescale_and_begins_anew_behind_a_reset(penstock: Penstock):
    run = "flights.py:builder", "--engine", "local", "--available-now"
    assert Running(*run).end()[0] == 0
    assert sorted(said("totals")) == [("JFK", 2), ("LAX", 1)]
    assert penstock("topics", "repartition", "flights", "--partitions", "4").code == 0
    assert penstock("rescale", "flights", "--partitions", "4", "--execute").code == 0
    produce([("JFK", "UA"), ("ORD", "UA")], "flights")
    assert Running(*run).end()[0] == 0
    assert sorted(said("totals")) == [("JFK", 2), ("JFK", 3), ("LAX", 1), ("ORD", 1)]
    assert penstock("reset", "flights", "--empty-outputs", "--execute").code == 0
    assert Running(*run).end()[0] == 0
    totals = sorted(said("totals"))  # what was there before the topic was divided stays in its partition
    assert totals == [("JFK", 1), ("JFK", 2), ("LAX", 1), ("ORD", 1)]
