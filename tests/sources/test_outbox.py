"""The outbox in a real PostgreSQL: each committed row once and in order, whatever its transactions do."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock import ConfigError, SourceError, consume
from penstock.serdes import JSON, STR
from penstock.sources import PostgresOutbox, SourceContext
from penstock.sources import outbox as module
from penstock.values.decoding import from_json
from support.postgres import PASSWORD, PostgresServer
from support.sourcing import TOPIC, brought_in, running, until

Ask = Callable[[str], list[Any]]


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """A database of the test's own."""
    return postgres.database()


@pytest.fixture
def ask(postgres: PostgresServer, url: str) -> Ask:
    return lambda question: postgres.ask(url, question)


def outbox(url: str, **options: Any) -> PostgresOutbox:
    return PostgresOutbox(url, **{"every": "10 ms", "timeout": "20 s", **options})


def found(folder: Path, value: Any = dict, key: Any = str) -> list[tuple[Any, Any]]:
    return [(one.key, one.value) for one in consume(TOPIC, key=key, value=value, log=folder / "log")]


def made(folder: Path, url: str) -> None:
    """Have the table made."""
    brought_in(folder, outbox(url), value=dict)


def insert(*numbers: int) -> str:
    return "; ".join(f"""INSERT INTO outbox (key, value) VALUES ('k{n % 2}', '{{"n": {n}}}')""" for n in numbers)


def test_rows_come_with_their_keys_and_are_deleted_when_they_are_in_the_log(url: str, ask: Ask, tmp_path: Path):
    made(tmp_path, url)
    ask(insert(1, 2))
    ask("INSERT INTO outbox (key, value) VALUES (NULL, NULL)")
    brought_in(tmp_path, outbox(url), value=dict)
    ask(insert(3))
    brought_in(tmp_path, outbox(url), value=dict)
    assert found(tmp_path) == [("k1", {"n": 1}), ("k0", {"n": 2}), (None, None), ("k1", {"n": 3})]
    assert ask("SELECT count(*) FROM outbox") == [(0,)]


def test_rows_that_stay_are_not_read_again(url: str, ask: Ask, tmp_path: Path):
    made(tmp_path, url)
    ask(insert(1, 2))
    for _ in range(2):
        brought_in(tmp_path, outbox(url, delete=False), value=dict)
    ask(insert(3))
    brought_in(tmp_path, outbox(url, delete=False), value=dict)
    assert [row["n"] for _, row in found(tmp_path)] == [1, 2, 3]
    assert ask("SELECT count(*) FROM outbox") == [(3,)]


def test_a_transaction_that_commits_late_is_not_missed_and_holds_nobody_up(url: str, ask: Ask, tmp_path: Path):
    made(tmp_path, url)
    with running(tmp_path, outbox(url), value=dict) as sources, psycopg.connect(url) as early:
        early.execute(insert(1))
        ask(insert(2))
        sources.process_sources()
        assert [row["n"] for _, row in found(tmp_path)] == [2]
        with psycopg.connect(url) as undone:
            undone.execute(insert(9))
            undone.rollback()
        early.commit()
        sources.process_sources()
        ask(insert(3))
        sources.process_sources()
    assert [row["n"] for _, row in found(tmp_path)] == [2, 1, 3]


def test_a_start_continues_between_the_snapshots_where_another_one_ended(url: str, ask: Ask, tmp_path: Path):
    made(tmp_path, url)
    with psycopg.connect(url) as early:
        early.execute(insert(1))
        ask(insert(2))
        for n in (3, 4):
            brought_in(tmp_path, outbox(url, delete=False), value=dict)
            ask(insert(n))
        early.commit()
    for _ in range(2):
        brought_in(tmp_path, outbox(url, delete=False), value=dict)
    assert [row["n"] for _, row in found(tmp_path)] == [2, 3, 1, 4]


def test_the_rest_of_a_reading_comes_where_the_snapshots_differ_by_one_transaction_alone(
    url: str, ask: Ask, tmp_path: Path
):
    made(tmp_path, url)
    reader = outbox(url).open(SourceContext("shop", "rows", STR, JSON))
    offset, came = None, []
    with psycopg.connect(url) as one, psycopg.connect(url) as other:
        one.execute(insert(1))
        one.execute(insert(2))
        other.execute(insert(9))
        ask(insert(0))
        for at in range(6):
            batch = reader.read(offset, 1)
            if batch is not None:
                offset = batch.offset
                came += [from_json(value, dict[str, int])["n"] for value in batch.records["value"].to_pylist()]
            if at == 1:
                one.commit()
        reader.close()
    assert came == [0, 1, 2]


def test_whatever_many_writers_do_each_committed_row_comes_once_and_those_of_a_key_in_order(
    url: str, ask: Ask, tmp_path: Path
):
    made(tmp_path, url)
    ask("CREATE TABLE things (name text PRIMARY KEY, version int)")
    ask("INSERT INTO things SELECT 't' || n, 0 FROM generate_series(0, 4) n")

    def write(seed: int) -> None:
        rng = random.Random(seed)
        with psycopg.connect(url) as own:
            for _ in range(25):
                thing = f"t{rng.randrange(5)}"
                if rng.random() < 0.3:
                    own.execute("SELECT pg_current_xact_id()")  # has its number before it waits for the lock
                change = "UPDATE things SET version = version + 1 WHERE name = %s RETURNING version"
                [version] = own.execute(change, (thing,)).fetchone()
                put = "INSERT INTO outbox (key, value) VALUES (%s, jsonb_build_object('version', %s::int))"
                own.execute(put, (thing, version))
                time.sleep(rng.choice([0, 0.002]))
                own.rollback() if rng.random() < 0.2 else own.commit()

    with running(tmp_path, outbox(url), value=dict) as sources:
        writers = [threading.Thread(target=write, args=(seed,)) for seed in range(4)]
        for one in writers:
            one.start()
        for one in writers:
            one.join()
        sources.process_sources()
    versions = dict(ask("SELECT name, version FROM things"))
    came: dict[str, list[int]] = {}
    for key, row in found(tmp_path):
        came.setdefault(key, []).append(row["version"])
    assert came == {thing: list(range(1, last + 1)) for thing, last in versions.items() if last}


def test_large_outboxes_come_in_batches(url: str, ask: Ask, tmp_path: Path):
    made(tmp_path, url)
    ask("INSERT INTO outbox (key, value) SELECT 'k', to_jsonb(n) FROM generate_series(1, 40000) n")
    ask("INSERT INTO outbox (key, value) SELECT 'k', to_jsonb(n) FROM generate_series(40001, 40010) n")
    with running(tmp_path, outbox(url), value=Any) as sources:
        sources.process_sources()
        assert sources.now()[0].batch >= 1
    assert [value for _, value in found(tmp_path, Any)] == list(range(1, 40_011))
    assert ask("SELECT count(*) FROM outbox") == [(0,)]


def test_a_table_of_ones_own_has_other_columns_and_types(url: str, ask: Ask, tmp_path: Path):
    ask("CREATE SCHEMA shop")
    ask(
        "CREATE TABLE shop.events (id int PRIMARY KEY, transaction xid8 NOT NULL DEFAULT pg_current_xact_id(), "
        "aggregate bigint, payload bytea, at timestamptz)"
    )
    ask("INSERT INTO shop.events VALUES (1, DEFAULT, 7, '\\x00ff', '2026-11-27 10:00:00.5+00')")
    source = outbox(url, table="shop.events", key="aggregate", value="payload", timestamp="at")
    brought_in(tmp_path, source, key=int, value=bytes)
    [record] = consume(TOPIC, key=int, value=bytes, log=tmp_path / "log")
    assert (record.key, record.value, record.timestamp) == (7, b"\x00\xff", 1_795_773_600_500)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("id int, key text, value text", "has no column transaction of type xid8, .* ADD COLUMN transaction xid8"),
        ("id int, transaction xid8, key text", "has no column 'value'; its columns are id, transaction, key"),
        ("id text, transaction xid8, key text, value text", "column id of table outbox is of type text"),
    ],
)
def test_a_table_that_does_not_do_is_refused(table: str, why: str, url: str, ask: Ask, tmp_path: Path):
    ask(f"CREATE TABLE outbox ({table})")
    with running(tmp_path, outbox(url), value=dict) as sources, pytest.raises(SourceError, match=why):
        sources.process_sources()


def test_a_column_that_exists_in_no_made_table_is_refused(url: str, tmp_path: Path):
    source = outbox(url, key="customer")
    with running(tmp_path, source, value=dict) as sources, pytest.raises(SourceError, match="there is no table outbox"):
        sources.process_sources()


def test_another_database_is_noticed(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made(tmp_path, url)
    opened = PostgresOutbox.open

    def ahead(self: PostgresOutbox, context: Any) -> Any:
        reader = opened(self, context)
        read = reader.read
        offset = {"before": [], "until": [1 << 40, 1 << 40], "after": 1}
        reader.read = lambda _, most: read(offset, most)  # type: ignore[method-assign]
        return reader

    monkeypatch.setattr(PostgresOutbox, "open", ahead)
    with running(tmp_path, outbox(url), value=dict) as sources, pytest.raises(SourceError, match="is at transaction"):
        sources.process_sources()


def test_more_writers_than_an_offset_has_room_for_are_waited_for(
    url: str, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made(tmp_path, url)
    monkeypatch.setattr(module, "_LONGEST_SNAPSHOT", 10)
    ask(insert(1))
    with running(tmp_path, outbox(url), value=dict, retry_for="1 minute") as sources, psycopg.connect(url) as open_:
        open_.execute(insert(2))
        ask(insert(3))  # behind one that runs
        until(lambda: "transactions are writing, more than an offset can list" in sources.now()[0].error)
        open_.commit()
        monkeypatch.setattr(module, "_LONGEST_SNAPSHOT", 1_000)
        until(lambda: len(found(tmp_path)) == 3)


def test_a_database_that_is_away_is_tried_again_and_no_password_is_shown(
    postgres: PostgresServer, url: str, ask: Ask, tmp_path: Path
):
    made(tmp_path, url)
    ask(insert(1))
    try:
        with running(tmp_path, outbox(url), value=dict, retry_for="1 minute") as sources:
            sources.process_sources()
            postgres.stop()
            until(lambda: sources.now()[0].error)
            assert PASSWORD not in sources.now()[0].error
            postgres.start()
            ask(insert(2))
            until(lambda: len(found(tmp_path)) == 2)
    finally:
        postgres.start_if_stopped()
    assert [row["n"] for _, row in found(tmp_path)] == [1, 2]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"conninfo": 5}, "PostgresOutbox: conninfo is a connection string or URL of PostgreSQL"),
        ({"table": 'a"b'}, "PostgresOutbox: table is a name"),
        ({"value": None}, "PostgresOutbox: value is the name of a column; got None"),
        ({"key": 5}, "PostgresOutbox: key is the name of a column; got 5"),
        ({"delete": 1}, "PostgresOutbox: delete is True or False; got 1"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused(options: Any, why: str):
    with pytest.raises(ConfigError, match=why):
        PostgresOutbox(**{"conninfo": "postgresql://db.example/shop", **options})
