"""A foreign-key join over topics of several partitions: its table is right when nothing is under way."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from penstock import StreamsBuilder
from penstock.arrays import partitions
from penstock.engine.local import LocalApplication
from penstock.log.base import TopicInfo
from penstock.log.memory import MemoryLog
from penstock.serdes import STR
from penstock.settings import Settings
from penstock.storage.base import LocalStorage

pytestmark = pytest.mark.slow

SETTINGS = {"one commit": {}, "small commits": {"commit_max_bytes": 400}}
PARTITIONS = {"orders": 3, "customers": 2, "out": 2}


def write(log: MemoryLog, topic: str, rows: list[tuple[str, str | None]], attempt: str) -> None:
    """Append rows, each to the partition of its key."""
    keys = STR.encode_all([key for key, _ in rows])
    placed = partitions(keys, PARTITIONS[topic], 0)
    with log.writer(topic, attempt) as writer:
        for partition in np.unique(placed).tolist():
            mine = np.flatnonzero(placed == partition).tolist()
            columns = (STR.encode_all([rows[i][column] for i in mine]) for column in (0, 1))
            writer.write(partition, *columns, np.array(mine), None)
    log.append(topic, writer.segments())


def read(log: MemoryLog, topic: str) -> dict[str, str]:
    """The newest value of every key."""
    table: dict[str, str | None] = {}
    for partition in range(PARTITIONS[topic]):
        for records in log.read(topic, partition, 0, log.end_offsets(topic)[partition]):
            table.update(zip(STR.decode_all(records.key), STR.decode_all(records.value), strict=True))
    return {key: value for key, value in table.items() if value is not None}


@pytest.mark.parametrize("method", ["join", "left_join"])
@pytest.mark.parametrize("commits", ["one commit", "small commits"])
@pytest.mark.parametrize(("digits", "seed"), [(9, 1), (9, 2), (1, 3), (1, 4)])
def test_the_table_is_right_when_all_is_done(method: str, commits: str, digits: int, seed: int, tmp_path: Path) -> None:
    """Orders of few digits change often before responses to them come; "z" names no customer."""
    chosen = random.Random(f"{method}-{seed}")
    builder = StreamsBuilder()
    orders, customers = (builder.table(topic, value=str) for topic in ("orders", "customers"))
    pairs = getattr(orders, method)(
        customers,
        lambda order, customer: f"{order} {customer}",
        value=str,
        foreign_key=lambda order: None if order[0] == "z" else order[0],
    )
    pairs.to_stream().to("out")
    log = MemoryLog()
    for topic, count in PARTITIONS.items():
        log.create_topic(TopicInfo(topic, count))
    settings = Settings.load(
        environment={}, statestore_cache_max_bytes=0, chunk_records=5, flush_rows=1, **SETTINGS[commits]
    )
    storage = LocalStorage(tmp_path / "checkpoint")
    application = LocalApplication(builder.build(), "join", settings, log, storage, tmp_path / "state")
    tables: dict[str, dict[str, str | None]] = {"orders": {}, "customers": {}}
    for commit in range(6):
        for topic in ("orders", "customers"):
            rows = [
                (
                    chosen.choice("abcdef") + (str(chosen.randint(0, digits)) if topic == "orders" else ""),
                    None if chosen.random() < 0.2 else chosen.choice("abcdefz") + str(chosen.randint(0, 99)),
                )
                for _ in range(24)
            ]
            tables[topic].update(rows)
            write(log, topic, rows, f"commit-{commit}")
        application.run_until()
        expected = {
            key: f"{order} {tables['customers'].get(order[0])}"
            for key, order in tables["orders"].items()
            if order is not None and (method == "left_join" or tables["customers"].get(order[0]) is not None)
        }
        assert read(log, "out") == expected
    application.close()
