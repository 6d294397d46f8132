"""Time that goes on without records (KIP-328)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder, Suppressed, TimeWindows, Windowed, consume, produce

pytestmark = [pytest.mark.slow, pytest.mark.kip("328-17")]


def comes_to_rest(streams: Any) -> bool:
    """Whether there is no commit any more for three times as long as the time between two wake-ups."""
    for _ in range(20):  # the commit of records is reported some time after they are visible
        before = streams.last_progress.commit
        time.sleep(0.6)
        if streams.last_progress.commit == before:
            return True
    return False


def test_the_last_window_closes_by_itself(engine: dict[str, Any], tmp_path: Path):
    builder = StreamsBuilder()
    counts = builder.stream("in", value=str).group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(300)).count()
    final = Suppressed.until_window_closes().with_idle_advance("200 ms")
    counts.suppress(final).to_stream().to("out")
    log = tmp_path / "log"
    produce([("a", "x", 100), ("a", "x", 200), ("b", "x", 200)], "in", value=str, log=log)
    with builder.build().start(
        application_id="idle", log=log, state_dir=tmp_path / "state", trigger="100 ms", slots=1, **engine
    ) as streams:
        streams.process_all_available()
        deadline = time.monotonic() + 60
        while not list(consume("out", log=log)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert comes_to_rest(streams)  # nothing is held any more: no more wake-ups
        assert streams.exception() is None
    assert [(record.key, record.value) for record in consume("out", log=log)] == [
        (Windowed("a", 0, 300), 2),
        (Windowed("b", 0, 300), 1),
    ]
