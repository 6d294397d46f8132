"""The example of flights that are sent again: what comes out are the flights, each once."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest

from penstock import consume
from penstock.engine.local import LocalApplication
from penstock.log.file.log import FileLog
from penstock.settings import Settings
from penstock.storage.opening import open_storage

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "flights"))

import feed
import resent


@pytest.mark.slow
@pytest.mark.kip("655-02")
def test_flights_that_are_sent_again_come_out_once_and_in_their_order(tmp_path: Path) -> None:
    flights = feed.read()[0].head(50_000)
    sent = resent.resent(flights)
    assert 52_000 < len(sent) < 53_000
    resent.fill(tmp_path / "log", sent)
    log, storage = FileLog(tmp_path / "log"), open_storage(str(tmp_path / "checkpoint"))
    application = LocalApplication(resent.topology, "resent", Settings(commit_max_bytes=1 << 20), log, storage)
    assert application.run_until() == len(sent)
    application.close()

    firsts = sent.drop_duplicates("id")
    out = list(consume("flights", value=dict, log=tmp_path / "log"))
    dropped = list(consume("flights-dropped", value=dict, log=tmp_path / "log"))
    assert len(out) == len(firsts)
    assert len(dropped) == len(sent) - len(firsts)
    for airport in ("EWR", "JFK", "LGA"):
        ids = [record.value["id"] for record in out if record.key == airport]
        assert ids == list(firsts[firsts["origin"] == airport]["id"])
    assert {record.value["id"] for record in dropped} <= set(firsts["id"])


@pytest.mark.slow
def test_one_flight_in_twenty_is_sent_again_behind_others() -> None:
    flights = feed.read()[0].head(10_000)
    sent = resent.resent(flights)
    assert list(sent.drop_duplicates("id")["flight"]) == list(flights["flight"])
    assert pd.Series(sent["id"]).value_counts().max() == 2
    assert 0.04 < len(sent) / len(flights) - 1 < 0.06
