"""The example of aircraft in service, compared with the sessions that pandas finds in the same flights."""

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
import in_service

GAP = pd.Timedelta("10 hours")


def sessions(flights: pd.DataFrame) -> pd.DataFrame:
    """Start, end, flights and longest delay of every session, by aircraft."""
    by_time = flights.sort_values(["tailnum", "departed"], kind="stable")
    pause = by_time.groupby("tailnum")["departed"].diff()
    number = (pause.isna() | (pause > GAP)).cumsum()
    return by_time.groupby(number).agg(
        tailnum=("tailnum", "first"),
        start=("departed", "min"),
        end=("departed", "max"),
        flights=("flight", "size"),
        longest_delay=("dep_delay", lambda delays: max(delays.max(), 0.0)),
    )


@pytest.mark.slow
@pytest.mark.kip("94-02")
@pytest.mark.kip("328-03")
def test_every_session_of_an_aircraft_comes_out_once_when_it_is_over(tmp_path: Path) -> None:
    flights = feed.read()[0].head(20_000)
    in_service.fill(tmp_path / "log", flights)
    log, storage = FileLog(tmp_path / "log"), open_storage(str(tmp_path / "checkpoint"))
    application = LocalApplication(in_service.topology, "service", Settings(commit_max_bytes=1 << 20), log, storage)
    application.run_until()
    application.close()

    found = sessions(flights)
    expected = {
        (row.tailnum, int(row.start.timestamp() * 1000), int(row.end.timestamp() * 1000)): (
            row.flights,
            row.longest_delay,
        )
        for row in found.itertuples()
    }
    out = list(consume("in-service", value=in_service.Service, log=tmp_path / "log"))
    came = {tuple(record.key): (record.value.flights, record.value.longest_delay) for record in out}
    assert len(came) == len(out)
    assert came.items() <= expected.items()
    last = int(flights["departed"].max().timestamp() * 1000)
    still_held = [session for session in expected if session not in came]
    assert all(end > last - 48 * 3_600_000 for _, _, end in still_held)
    assert len(came) > 5_000
    assert max(flown for flown, _ in came.values()) > 2
