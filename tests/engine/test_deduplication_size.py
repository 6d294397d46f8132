"""The size of a deduplication's store follows the interval, not the history: in memory, on disk, in the state."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import Deduplicated, StreamsBuilder
from penstock.engine.local import LocalApplication
from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog
from penstock.log.produce import produce
from penstock.settings import Settings
from penstock.storage.base import LocalStorage

INTERVAL = 500
INTERVALS = 20
TINY = {"hot_max_bytes": 20_000, "flush_rows": 1, "flush_commits": 1}
"""All commits go to disk, and little stays in memory."""


@pytest.mark.kip("655-10")
@pytest.mark.parametrize("settings", [{}, TINY], ids=["in memory", "on disk"])
def test_a_run_over_twenty_intervals_ends_with_the_entries_of_little_more_than_one(tmp_path: Path, settings):
    log = FileLog(tmp_path / "log")
    log.create_topic(TopicInfo("in", 2, "str", "int"))
    rows = [(f"id-{time}", time, time) for time in range(INTERVALS * INTERVAL)]
    produce(rows, "in", key=str, value=int, log=log)
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.deduplicate_by_key(INTERVAL, Deduplicated(store_name="ids")).to("out")
    storage = LocalStorage(tmp_path / "checkpoint")
    chosen = Settings.load(environment={}, commit_max_bytes=4_000, chunk_records=100, **settings)
    application = LocalApplication(builder.build(), "app", chosen, log, storage, tmp_path / "state")

    assert application.run_until() == len(rows)

    stores = [task.state.stores["ids"] for task in application.host.tasks()]
    last = {row[0].encode() for row in rows[-INTERVAL - 1 :]}
    assert last <= {id_ for store in stores for id_, _, _ in store.rows()}
    held = [id_ for store in stores for piece in store.pieces() for id_, _, _ in piece.scan()]
    assert len(last) <= len(held) <= 1.3 * len(last)
    assert application.coordinator.manifest.commit > INTERVALS
    application.close()
