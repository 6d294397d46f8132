"""Rows in a real PostgreSQL: columns of all types, appended or by key, each once, whatever becomes of the database."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock import SinkError, StreamsBuilder
from penstock.errors import ConfigError
from penstock.sinks import PostgresSink
from penstock.sinks.postgres.copy_text import copy_text
from penstock.sinks.postgres.types import postgres_type
from support.handing import Order, handed_on, handed_on_by_two, put, sinks_of
from support.postgres import PASSWORD, PostgresServer


@dataclass
class Sized(Order):
    sizes: dict[str, int]


ORDERS = (
    Sized('tea, "green"', 2, 0.1, True, None, ["hot"], {"s": 1}),
    Sized("", -5, 1e300, False, "two\nlines \\. é", [], {}),
)


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """A database of the test's own."""
    return postgres.database()


@pytest.fixture
def ask(postgres: PostgresServer, url: str) -> Callable[[str], list[Any]]:
    return lambda question: postgres.ask(url, question)


def appended(url: str, table: str = "rows", **options: Any) -> StreamsBuilder:
    """A program that appends to a table, from topic shop-rows-sink."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.to_sink(PostgresSink(url, table, timeout="20 s"), "rows", timestamp=None, **options)
    return builder


def totals(url: str, table: str = "totals") -> StreamsBuilder:
    """A program that keeps a table, from topic shop-totals-sink."""
    builder = StreamsBuilder()
    table_ = builder.table("in", key=str, value=int)
    table_.to_sink(PostgresSink(url, table), "totals", key="who", value="n", timestamp=None)
    return builder


def test_each_record_of_a_stream_is_a_row_with_a_column_for_each_field(
    url: str, ask: Callable[[str], list[Any]], tmp_path: Path
):
    builder = StreamsBuilder()
    orders = builder.stream("in", key=str, value=Sized)
    orders.to_sink(PostgresSink(url, "orders"), "orders", key="number")
    rows = [(str(at), order, 5_000 + at) for at, order in enumerate(ORDERS)]
    put(tmp_path, "shop-orders-sink", *rows, key=str, value=Sized)
    handed_on(builder, tmp_path)
    second = datetime.datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)
    assert ask("select * from orders") == [
        ("0", 'tea, "green"', 2, 0.1, True, None, ["hot"], {"s": 1}, second),
        ("1", "", -5, 1e300, False, "two\nlines \\. é", [], {}, second.replace(microsecond=1_000)),
    ]
    assert ask("select id, number from penstock_sinks") == [("shop/orders/0", 2)]


def test_each_key_of_a_table_has_one_row_and_a_deleted_key_none(
    url: str, ask: Callable[[str], list[Any]], tmp_path: Path
):
    changes = [("a", 1), ("b", 1), ("a", 2), ("c", 1), ("b", None), ("d", None)]
    put(tmp_path, "shop-totals-sink", *changes, key=str, value=int)
    handed_on(totals(url), tmp_path)
    assert ask("select * from totals order by who") == [("a", 2), ("c", 1)]
    put(tmp_path, "shop-totals-sink", ("a", None), ("b", 5), ("c", 2), key=str, value=int)
    handed_on(totals(url), tmp_path)
    assert ask("select * from totals order by who") == [("b", 5), ("c", 2)]


def test_bytes_and_numbers_of_all_sizes_arrive_as_they_are(url: str, ask: Callable[[str], list[Any]], tmp_path: Path):
    builder = StreamsBuilder()
    builder.stream("in", key=bytes, value=float).to_sink(PostgresSink(url, "rows"), "rows", timestamp=None)
    rows = [(b"\x00\xff\\", 1.5), (b"", float("-inf")), (None, None), (b'"', 5e-324)]
    put(tmp_path, "shop-rows-sink", *rows, key=bytes, value=float)
    handed_on(builder, tmp_path)
    assert ask("select * from rows") == rows


TYPED: dict[str, tuple[Any, str, list[Any]]] = {
    "small": (pa.int8(), "smallint", [-128, 127]),
    "medium": (pa.uint16(), "integer", [0, 65_535]),
    "large": (pa.uint32(), "bigint", [0, 4_294_967_295]),
    "largest": (pa.uint64(), "numeric", [Decimal(0), Decimal(2**64 - 1)]),
    "single": (pa.float32(), "real", [0.5, float("inf")]),
    "money": (pa.decimal128(9, 2), "numeric", [Decimal("0.10"), Decimal("-1234567.89")]),
    "local": (pa.timestamp("us"), "timestamp without time zone", [datetime.datetime(2026, 1, 2, 3, 4, 5, 6)] * 2),
    "zoned": (
        pa.timestamp("ms", "Europe/Berlin"),
        "timestamp with time zone",
        [datetime.datetime(2026, 1, 2, tzinfo=UTC)] * 2,
    ),
    "day": (pa.date32(), "date", [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    "clock": (pa.time64("us"), "time without time zone", [datetime.time(1, 2, 3, 4), datetime.time(0)]),
    "span": (pa.duration("ms"), "interval", [datetime.timedelta(days=2, milliseconds=5), datetime.timedelta(-1)]),
    "raw": (pa.binary(), "bytea", [b"\x00\\\n", b""]),
    "fixed": (pa.binary(2), "bytea", [b"ab", b"\xff\x00"]),
    "kind": (pa.dictionary(pa.int8(), pa.string()), "text", ["a\tb", "\\N"]),
    "nested": (pa.struct([("day", pa.date32())]), "jsonb", [{"day": "2026-01-02"}, {"day": None}]),
    "nothing": (pa.null(), "text", [None, None]),
}


def test_every_type_of_arrow_has_a_column_that_keeps_its_values(postgres: PostgresServer, url: str):
    import psycopg

    nested = pa.array([{"day": datetime.date(2026, 1, 2)}, {"day": None}], TYPED["nested"][0])
    columns = {
        name: nested if name == "nested" else pa.array(given, type_) for name, (type_, _, given) in TYPED.items()
    }
    batch = pa.record_batch({name: pa.concat_arrays([one, one.slice(0, 0), one]) for name, one in columns.items()})
    made = ", ".join(f'"{name}" {postgres_type(type_)}' for name, (type_, *_) in TYPED.items())
    with psycopg.connect(url) as connection:
        connection.execute("set time zone 'Asia/Tokyo'")
        connection.execute(f"create table typed ({made})")
        with connection.cursor().copy("copy typed from stdin") as copy:
            copy.write(copy_text(batch.slice(1)))
        found = connection.execute("select * from typed").fetchall()
        types = connection.execute(
            "select data_type from information_schema.columns where table_name = 'typed' order by ordinal_position"
        ).fetchall()
    rows = list(zip(*(given for *_, given in TYPED.values())))
    assert found == [rows[1], *rows]
    assert [type_ for (type_,) in types] == [type_ for _, type_, _ in TYPED.values()]


def test_a_table_of_the_users_own_in_a_schema_keeps_its_types_and_other_columns(
    url: str, ask: Callable[[str], list[Any]], tmp_path: Path
):
    ask("create schema shop")
    ask("create table shop.totals (who varchar(9) primary key, n numeric(9, 2), note text default 'new')")
    ask("insert into shop.totals values ('a', 1, 'mine')")
    put(tmp_path, "shop-totals-sink", ("a", 2), ("b", 3), key=str, value=int)
    handed_on(totals(url, "shop.totals"), tmp_path)
    assert ask("select who, n::int, note from shop.totals order by who") == [("a", 2, "mine"), ("b", 3, "new")]
    assert ask("select number from shop.penstock_sinks") == [(2,)]


@dataclass
class Sale:
    price: Decimal
    at: datetime.datetime
    more: Any


def test_a_table_of_the_users_own_reads_the_text_of_fields_as_its_types(
    url: str, ask: Callable[[str], list[Any]], tmp_path: Path
):
    ask("create table sales (key text primary key, price numeric, at timestamptz, more jsonb)")
    builder = StreamsBuilder()
    builder.table("in", key=str, value=Sale).to_sink(PostgresSink(url, "sales"), "sales", timestamp=None)
    at = datetime.datetime(2026, 11, 27, 10, tzinfo=UTC)
    put(tmp_path, "shop-sales-sink", ("a", Sale(Decimal("1.50"), at, {"n": "1"})), key=str, value=Sale)
    handed_on(builder, tmp_path)
    assert ask("select * from sales") == [("a", Decimal("1.50"), at, {"n": "1"})]


def test_keys_that_are_the_same_for_the_database_alone_stop_nothing_and_the_last_one_counts(
    url: str, ask: Callable[[str], list[Any]], tmp_path: Path
):
    ask("create table totals (who char(3) primary key, n bigint)")
    changes = [("a", 1), ("b", 1), ("c", 1), ("b ", 2), ("a ", 2), ("d", 3), ("a  ", 4)]
    put(tmp_path, "shop-totals-sink", *changes, key=str, value=int)
    handed_on(totals(url), tmp_path)
    assert ask("select who, n from totals order by who") == [("a  ", 4), ("b  ", 2), ("c  ", 1), ("d  ", 3)]
    assert ask("select number from penstock_sinks") == [(7,)]


def test_two_programs_that_write_at_once_do_not_double_a_batch(
    url: str, ask: Callable[[str], list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As a program does that sleeps while another one takes over, and wakes in the middle of a batch."""
    put(tmp_path, "shop-rows-sink", ("a", 1), ("a", 2), key=str, value=int)
    handed_on_by_two(appended(url), appended(url), tmp_path, monkeypatch)
    assert ask("select value from rows") == [(1,), (2,)]


def test_a_database_that_is_away_is_told_without_its_password_and_gets_everything_later(
    postgres: PostgresServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    url = postgres.database()
    put(tmp_path, "shop-rows-sink", ("a", 1), key=str, value=int)
    sinks = sinks_of(appended(url), tmp_path)
    try:
        sinks.process_sinks()
        postgres.stop()
        put(tmp_path, "shop-rows-sink", ("a", 2), key=str, value=int)
        said = until(lambda: sinks.now()[0].error)
        postgres.start()
        sinks.process_sinks()
        assert sinks.now()[0].error == ""
    finally:
        sinks.stop()
        postgres.start_if_stopped()
    assert said.startswith("OperationalError: ")
    assert postgres.ask(url, "select value from rows") == [(1,), (2,)]
    assert not [text for text in (said, caplog.text) if holds_secret(text)]


def test_a_database_that_does_not_answer_is_left_after_the_timeout(
    postgres: PostgresServer, url: str, ask: Callable[[str], list[Any]], tmp_path: Path
):
    ask("create table rows (key text, value bigint)")
    put(tmp_path, "shop-rows-sink", ("a", 1), key=str, value=int)
    builder = StreamsBuilder()
    sink = PostgresSink(url, "rows", timeout="200 ms")
    builder.stream("in", key=str, value=int).to_sink(sink, "rows", timestamp=None)
    with postgres.locked(url, "rows"):
        sinks = sinks_of(builder, tmp_path)
        try:
            said = until(lambda: sinks.now()[0].error)
        finally:
            sinks.stop()
    assert said == "TimeoutError: the database did not answer within 200 ms"
    handed_on(appended(url), tmp_path)
    assert ask("select * from rows") == [("a", 1)]


def test_a_database_that_is_full_is_told_and_gets_everything_when_there_is_room(
    url: str, ask: Callable[[str], list[Any]], tmp_path: Path
):
    """A trigger says what PostgreSQL says of a full disk."""
    ask("create table rows (key text, value bigint)")
    ask(
        "create function full_disk() returns trigger language plpgsql as "
        "$$ begin raise exception 'could not extend file: No space left on device' using errcode = '53100'; end $$"
    )
    ask("create trigger full_disk before insert on rows for each row execute function full_disk()")
    put(tmp_path, "shop-rows-sink", ("a", 1), key=str, value=int)
    sinks = sinks_of(appended(url), tmp_path)
    try:
        said = until(lambda: sinks.now()[0].error)
        ask("drop trigger full_disk on rows")
        sinks.process_sinks()
    finally:
        sinks.stop()
    assert said.startswith("DiskFull: could not extend file: No space left on device")
    assert ask("select * from rows") == [("a", 1)]


def test_a_database_that_was_restored_from_an_older_copy_is_told_and_gets_what_it_lacks(
    postgres: PostgresServer, url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    put(tmp_path, "shop-totals-sink", ("a", 1), ("b", 1), key=str, value=int)
    handed_on(totals(url), tmp_path)
    older = postgres.copy_of(url)
    put(tmp_path, "shop-totals-sink", ("a", 2), ("b", None), ("c", 3), key=str, value=int)
    handed_on(totals(url), tmp_path)
    handed_on(totals(older), tmp_path)
    rows = "select * from totals order by who"
    assert postgres.ask(older, rows) == postgres.ask(url, rows) == [("a", 2), ("c", 3)]
    assert "the sink has number 2 and had 5 before: it was restored from an older copy" in caplog.text


LASTING: dict[str, tuple[str, str]] = {
    "a column is missing": ("create table rows (key text)", 'column "value" of relation "rows" does not exist'),
    "a type does not fit": ("create table rows (key int, value int)", "invalid input syntax for type integer"),
    "a rule forbids the row": (
        "create table rows (key text, value int check (value > 9))",
        "violates check constraint",
    ),
}


@pytest.mark.parametrize("what", LASTING)
def test_what_no_retry_mends_ends_the_program_at_once(
    what: str, url: str, ask: Callable[[str], list[Any]], tmp_path: Path
):
    statement, said = LASTING[what]
    ask(statement)
    put(tmp_path, "shop-rows-sink", ("a", 1), key=str, value=int)
    with pytest.raises(SinkError, match=said):
        handed_on(appended(url, retry_for="1 hour"), tmp_path)
    assert ask("select count(*) from rows") == [(0,)]


def test_a_table_of_the_users_own_without_a_unique_key_is_refused(
    url: str, ask: Callable[[str], list[Any]], tmp_path: Path
):
    ask("create table totals (who text, n bigint)")
    put(tmp_path, "shop-totals-sink", ("a", 1), key=str, value=int)
    with pytest.raises(SinkError, match="there is no unique or exclusion constraint"):
        handed_on(totals(url), tmp_path)


def test_the_password_is_in_no_plan_name_error_or_note(url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    wrong = url.replace("dragon", "wrong-dragon")
    put(tmp_path, "shop-rows-sink", ("a", 1), key=str, value=int)
    builder = appended(wrong, retry_for="1 ms")
    with pytest.raises(SinkError, match="password authentication failed") as raised:
        handed_on(builder, tmp_path)
    sink = PostgresSink(f"host=127.0.0.1 dbname=shop user=me password='{PASSWORD}'", "rows")
    texts = [str(raised.value), repr(raised.value.__cause__), caplog.text, repr(sink), sink.shown]
    texts += [builder.build().describe(), builder.build().describe("mermaid")]
    texts += [path.read_text(errors="replace") for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert len(texts) > 7
    assert not [text for text in texts if holds_secret(text)]
    assert sink.shown == "PostgreSQL table rows in shop at 127.0.0.1"


REFUSED: dict[str, str] = {
    "PostgresSink(5, 'rows')": "PostgresSink: conninfo is a connection string or URL of PostgreSQL, .*; got 5",
    "PostgresSink('swordfish', 'rows')": "PostgresSink: conninfo is not a connection string or URL of PostgreSQL",
    "PostgresSink('', 'a b')": "PostgresSink: table is a name, such as 'totals' or 'shop.totals'; got 'a b'",
    "PostgresSink('', 'rows', timeout='soon')": "PostgresSink: timeout",
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_cannot_be_meant_is_refused_where_it_is_said(call: str):
    with pytest.raises(ConfigError, match=REFUSED[call]) as raised:
        eval(call, {"PostgresSink": PostgresSink})
    assert "swordfish" not in f"{raised.value} {raised.value.__cause__}"


def holds_secret(text: str) -> bool:
    return any(part in text for part in ("dragon", "fish word", "fish%20word"))


def until(look: Callable[[], Any]) -> Any:
    """Wait until something is so, and return it."""
    deadline = time.monotonic() + 60
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found
