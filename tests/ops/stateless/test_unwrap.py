"""``format=``: change data of Debezium and Maxwell, CloudEvents and JSON lines become the rows in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from penstock import (
    Change,
    Consumed,
    StreamsBuilder,
    TimestampExtractor,
    TopologyError,
    cloud_event,
    debezium,
    json_lines,
    maxwell,
)
from penstock.errors import ConfigError, ProcessingError
from penstock.testing import TopologyTestDriver
from support.flows import Run, of_rows


@dataclass
class Order:
    id: int
    cents: int


OLD, NEW = {"id": 7, "cents": 250}, {"id": 7, "cents": 300}
KEY = {"id": 7}


def with_schema(payload: Any) -> dict[str, Any]:
    return {"schema": {"type": "struct", "optional": False}, "payload": payload}


def change(op: str, before: Any = None, after: Any = None, **others: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "source": {"db": "shop", "ts_ms": 77}, "op": op, "ts_ms": 99} | others


def orders(format: Any, **types: Any) -> StreamsBuilder:
    """A table of orders from the topic ``in``, and its updates."""
    builder = StreamsBuilder()
    builder.table("in", format=format, **types).to_stream().to("out")
    return builder


# --- debezium --------------------------------------------------------------------------------------------------------

LIFE = [
    (change("r", after=OLD), Order(7, 250)),
    (change("u", OLD, NEW), Order(7, 300)),
    (change("d", NEW), None),
    (None, None),
    (change("c", after=OLD), Order(7, 250)),
]
"""A row that a snapshot reads, its update, its deletion with the tombstone behind it, and the same row made anew."""


@pytest.mark.parametrize("wrap", [lambda payload: payload, with_schema], ids=["plain", "with schema"])
def test_a_table_follows_snapshots_updates_deletions_and_tombstones(run: Run, wrap: Any):
    builder = orders(debezium(Order), key=int)
    rows = [(wrap(KEY), None if given is None else wrap(given), time) for time, (given, _) in enumerate(LIFE)]
    assert run(builder, rows).output() == [(7, wanted, time) for time, (_, wanted) in enumerate(LIFE)]


def test_a_deletion_leaves_no_row_in_the_store(run: Run):
    builder = orders(debezium(Order), key=int, store="orders")
    ran = run(
        builder, [(KEY, change("c", after=OLD), 1), ({"id": 8}, change("c", after=NEW), 2), (KEY, change("d"), 3)]
    )
    assert ran.store("orders") == [(8, Order(7, 300), 2)]


def test_a_table_of_change_data_is_joined_by_the_key_of_a_plain_topic(run: Run):
    builder = StreamsBuilder()
    table = builder.table("in", key=int, format=debezium(Order))
    visits = builder.stream("visits", key=int, value=str)
    visits.join(table, lambda visit, order: f"{visit} {order.cents}", value=str).to("out")
    rows = [(KEY, change("c", after=OLD), 1), ("visits", 7, "seen", 2), (KEY, change("d", OLD), 3)]
    assert run(builder, [*rows, ("visits", 7, "again", 4)]).output() == [(7, "seen 250", 2)]


def test_a_table_is_repartitioned_where_keys_lose_their_envelopes_and_not_otherwise():
    def topics(**types: Any) -> list[str]:
        return sorted(orders(debezium(Order), **types).build().internal_topics)

    assert topics(key=bytes) == []
    assert topics(key=int) == ["KSTREAM-TOTABLE-0000000002-repartition"]


KEYS = [
    (int, KEY, 7),
    (int, with_schema(KEY), 7),
    (int, 7, 7),
    (str, {"code": "a"}, "a"),
    (str, with_schema({"code": "a"}), "a"),
    (str, KEY, "7"),
    (float, {"x": 1}, 1.0),
    (dict, {"id": 7, "shop": "a"}, {"id": 7, "shop": "a"}),
    (dict, with_schema({"id": 7, "shop": "a"}), {"id": 7, "shop": "a"}),
    (bytes, b"as it is", b"as it is"),
]


@pytest.mark.parametrize(("kind", "given", "wanted"), KEYS)
def test_keys_lose_their_envelope(run: Run, kind: Any, given: Any, wanted: Any):
    builder = StreamsBuilder()
    builder.stream("in", key=kind, format=debezium(dict)).to("out")
    assert run(builder, [(given, change("c", after=OLD), 1)]).output() == [(wanted, OLD, 1)]


def test_keys_that_are_plain_text_are_text():
    builder = StreamsBuilder()
    builder.stream("in", format=debezium(dict)).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.create_input_topic("in", bytes, bytes).pipe_input(b"order-7", msgspec.json.encode(change("c", after=OLD)))
    assert driver.read_output("out")[0].key == "order-7"


WRONG_KEYS = [
    (
        int,
        {"id": 7, "shop": "a"},
        """the key has 2 fields, b'{"id":7,"shop":"a"}', where one is expected for key=int""",
    ),
    (int, {"id": "a"}, "is no int; say key=str"),
]


@pytest.mark.parametrize(("kind", "given", "says"), WRONG_KEYS)
def test_a_key_of_another_form_fails(run: Run, kind: Any, given: Any, says: str):
    builder = StreamsBuilder()
    builder.stream("in", key=kind, format=debezium(dict)).to("out")
    with pytest.raises(ProcessingError) as failure:
        run(builder, [(given, change("c", after=OLD), 1)]).output()
    assert says in str(failure.value)


WRONG = [
    (change("t"), "debezium[Order]: the change has op 't', a truncate of the whole table"),
    (change("m"), "a message of the database's log"),
    (change("x"), "the unknown op 'x'; expected c, u, d or r"),
    (change("c"), "the change has op 'c', but no row in 'after'"),
    (OLD, "the value has no field 'op', so it is no change"),
    ([1], "Expected `object`, got `array`"),
    (with_schema({"op": 5}), "Expected `str | null`, got `int` - at `$.payload.op`"),
    (change("c", after={"id": "seven"}), "Expected `int`, got `str` - at `$.id`"),
    (
        change("u", after={"id": 7, "note": "__debezium_unavailable_value", "cents": 1}),
        "placeholder for a large value that an update did not change, so its value is not known: 'note'",
    ),
    (
        with_schema(change("u", after={"id": 7, "scan": "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="})),
        "its value is not known: 'scan'. Have the database tell whole rows: ALTER TABLE ... REPLICA IDENTITY FULL",
    ),
]


@pytest.mark.parametrize(("given", "says"), WRONG, ids=range(len(WRONG)))
def test_what_is_no_change_of_a_row_fails_and_names_the_record(run: Run, given: Any, says: str):
    builder = StreamsBuilder()
    builder.stream("in", key=int, format=debezium(Order)).filter(lambda key, order: order.cents > 0).to("out")
    with pytest.raises(ProcessingError) as failure:
        run(builder, [(KEY, change("c", after=OLD), 1), (KEY, given, 2)]).output()
    assert says in str(failure.value)
    assert "KSTREAM-UNWRAP-0000000001 failed on the record at topic 'in', partition 0, offset 1" in str(failure.value)


@pytest.mark.parametrize("given", [given for given, _ in WRONG], ids=range(len(WRONG)))
@pytest.mark.parametrize("answer", ["skip", "dead_letter:dead"])
def test_what_is_no_change_of_a_row_goes_the_way_of_on_error(run: Run, given: Any, answer: str):
    builder = StreamsBuilder()
    builder.stream("in", key=int, format=debezium(Order)).filter(lambda key, order: order.cents > 0).to("out")
    rows = [(KEY, change("c", after=OLD), 1), (KEY, given, 2), (KEY, change("u", OLD, NEW), 3)]
    ran = run(builder, rows, on_error=answer)
    assert ran.output() == [(7, Order(7, 250), 1), (7, Order(7, 300), 3)]
    counted = "skipped-records-total" if answer == "skip" else "dead-letter-records-total"
    assert sum(ran.counted(counted).values()) == 1
    if answer != "skip":
        [(key, value, _)] = ran.output("dead")
        assert (key, value) == (msgspec.json.encode(KEY), msgspec.json.encode(given))


def test_a_stream_gives_the_changes_themselves_and_leaves_tombstones_out(run: Run):
    builder = StreamsBuilder()
    changes = builder.stream("in", key=int, format=debezium(Order, changes=True))
    changes.map_values(lambda change: [change.op, change.before and change.before.cents], value=list).to("out")
    rows = [(KEY, change("u", OLD, NEW), 1), (KEY, change("d", NEW), 2), (KEY, None, 3)]
    assert run(builder, rows).output() == [(7, ["u", 250], 1), (7, ["d", 300], 2)]


def test_changes_are_of_the_class_that_users_name(run: Run):
    builder = StreamsBuilder()
    builder.stream("in", key=int, format=debezium(Order, changes=True)).to("out")
    rows = [(KEY, with_schema(change("u", OLD, NEW)), 1), (KEY, change("d", NEW), 2)]
    assert run(builder, rows).output() == [
        (7, Change("u", Order(7, 250), Order(7, 300), 99), 1),
        (7, Change("d", Order(7, 300), None, 99), 2),
    ]


TIMES = [
    (debezium(Order, event_time=True), {}, [77, 77, 3]),
    (debezium(Order), {"timestamp": "id"}, [7, 2, 3]),
    (debezium(Order), {"timestamp": "id", "timestamp_unit": "s"}, [7000, 2, 3]),
    (debezium(Order), {}, [1, 2, 3]),
]


@pytest.mark.parametrize(("format", "given", "wanted"), TIMES)
def test_times_come_from_the_envelope_the_row_or_the_record(run: Run, format: Any, given: Any, wanted: list[int]):
    builder = orders(format, key=int, **given)
    rows = [(KEY, change("c", after=OLD), 1), (KEY, change("d"), 2), (KEY, None, 3)]
    assert [time for _, _, time in run(builder, rows).output()] == wanted


def test_an_extractor_gets_the_envelope(run: Run):
    class OfConnector(TimestampExtractor):
        def extract(self, record: Any, partition_time: int) -> int:
            return record.value["ts_ms"]

    builder = StreamsBuilder()
    builder.stream("in", key=int, timestamp=OfConnector(), format=debezium(Order)).to("out")
    assert run(builder, [(KEY, change("c", after=OLD), 1)]).output() == [(7, Order(7, 250), 99)]


# --- maxwell ---------------------------------------------------------------------------------------------------------


def flat(kind: str, data: Any = None, table: str = "orders") -> dict[str, Any]:
    return {"database": "shop", "table": table, "type": kind, "ts": 5, "data": {} if data is None else data}


PK = {"database": "shop", "table": "orders", "pk.id": 7}


def test_a_table_follows_flat_rows(run: Run):
    builder = orders(maxwell(Order), key=int)
    rows = [flat("bootstrap-start"), flat("bootstrap-insert", OLD), flat("bootstrap-complete"), flat("update", NEW)]
    rows += [flat("delete", NEW), flat("insert", OLD)]
    assert run(builder, [(PK, row, time) for time, row in enumerate(rows)]).output() == [
        (7, Order(7, 250), 1),
        (7, Order(7, 300), 3),
        (7, None, 4),
        (7, Order(7, 250), 5),
    ]


def test_flat_rows_of_other_tables_are_left_out(run: Run):
    builder = orders(maxwell(Order, table="orders", event_time=True), key=dict)
    other = {"database": "shop", "table": "shops", "pk.code": "a", "pk.id": 1}
    rows = [(other, flat("insert", {"name": "a"}, "shops"), 1), (PK, flat("insert", OLD), 2)]
    assert run(builder, rows).output() == [({"id": 7}, Order(7, 250), 5000)]


def test_a_flat_row_about_a_schema_fails(run: Run):
    builder = orders(maxwell(Order), key=int)
    with pytest.raises(ProcessingError, match="the row has type 'table-alter', which is no change of a row"):
        run(builder, [(PK, flat("table-alter"), 1)]).output()


# --- cloud events ----------------------------------------------------------------------------------------------------

IN_HEADERS = [
    ("ce_specversion", b"1.0"),
    ("ce_id", b"1"),
    ("ce_source", b"/shop"),
    ("ce_type", b"order"),
    ("ce_time", b"1970-01-01T00:00:06Z"),
]
EVENT = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order", "time": "1970-01-01T00:00:05Z"}


def test_the_data_of_events_are_values_and_their_times_the_records_if_asked_for(run: Run):
    builder = StreamsBuilder()
    builder.stream("in", format=cloud_event(Order)).to("out")
    builder.stream("timed", format=cloud_event(Order, event_time=True)).to("timed-out")
    rows = [(topic, "a", EVENT | {"data": OLD}, 1) for topic in ("in", "timed")]
    untimed = {name: value for name, value in EVENT.items() if name != "time"}
    ran = run(builder, [*rows, ("timed", "b", untimed, 2)])
    assert ran.output() == [("a", Order(7, 250), 1)]
    assert ran.output("timed-out") == [("a", Order(7, 250), 5000), ("b", None, 2)]


def test_events_with_their_attributes_in_headers():
    builder = StreamsBuilder()
    builder.stream("in", format=cloud_event(Order, event_time=True)).to("out")
    driver = TopologyTestDriver(builder.build())
    whole = [("content-type", b"application/cloudevents+json; charset=utf-8"), ("ce_specversion", b"1.0")]
    driver.pipe_input("in", "a", OLD, 1, headers=[*IN_HEADERS, ("content-type", b"application/json")])
    driver.pipe_input("in", "b", EVENT | {"data": NEW}, 2)
    driver.pipe_input("in", "c", EVENT | {"data": NEW}, 3, headers=whole)
    driver.pipe_input("in", "d", None, 4, headers=IN_HEADERS)
    assert [record[:3] for record in driver.read_output("out")] == [
        ("a", Order(7, 250), 6000),
        ("b", Order(7, 300), 5000),
        ("c", Order(7, 300), 5000),
        ("d", None, 6000),
    ]


@pytest.mark.parametrize("missing", ["specversion", "id", "source", "type"])
def test_headers_that_lack_an_attribute_are_no_event(missing: str):
    builder = StreamsBuilder()
    builder.stream("in", format=cloud_event(Order)).to("out")
    driver = TopologyTestDriver(builder.build())
    headers = [(name, value) for name, value in IN_HEADERS if name != f"ce_{missing}"]
    with pytest.raises(ProcessingError, match=f"the headers have no 'ce_{missing}', so the record is no event"):
        driver.pipe_input("in", "a", OLD, 1, headers=headers)


NO_EVENTS = [
    (OLD, "the value has no 'specversion', 'source', 'type', so it is no event"),
    (EVENT | {"data_base64": "AA=="}, "the event has its data in 'data_base64', which is not JSON"),
]


@pytest.mark.parametrize(("given", "says"), NO_EVENTS)
def test_what_is_no_event_fails_or_is_left_out(run: Run, given: Any, says: str):
    builder = StreamsBuilder()
    builder.stream("in", format=cloud_event(dict)).to("out")
    rows = [("a", given | {"id": 5 if given is OLD else "1"}, 1), ("b", EVENT | {"data": NEW}, 2)]
    says = says.replace("'specversion', 'source'", "'specversion', 'id', 'source'")
    with pytest.raises(ProcessingError) as failure:
        run(builder, rows).output()
    assert says in str(failure.value)
    assert run(builder, rows, on_error="skip").output() == [("b", NEW, 2)]


# --- json lines ------------------------------------------------------------------------------------------------------


def test_each_line_is_a_record_with_the_time_in_its_field(run: Run):
    builder = StreamsBuilder()
    builder.stream("in", timestamp="at", format=json_lines(dict)).to("out")
    rows = [("a", b'{"at": 9, "n": 1}\n\n{"at": 8, "n": 2}\n', 1), ("b", b'{"at": 3, "n": 3}', 2), ("c", None, 4)]
    assert run(builder, rows).output() == [
        ("a", {"at": 9, "n": 1}, 9),
        ("a", {"at": 8, "n": 2}, 8),
        ("b", {"at": 3, "n": 3}, 3),
        ("c", None, 4),
    ]


def test_a_line_that_is_not_json_sends_its_record_the_way_of_on_error(run: Run):
    builder = StreamsBuilder()
    builder.stream("in", format=json_lines(dict)).to("out")
    rows = [("a", b'{"n": 1}\nfive\n', 1), ("b", b'{"n": 3}', 2)]
    assert run(builder, rows, on_error="skip").output() == [("b", {"n": 3}, 2)]


# --- what is refused when it is built --------------------------------------------------------------------------------


def build(**given: Any) -> None:
    StreamsBuilder().stream("in", **given)


REFUSED: list[Any] = [
    (lambda: build(format="debezium"), "format= of stream at HERE must be of type Format; got 'debezium' of type str"),
    (lambda: build(format=debezium), "format= of stream at HERE must be of type Format; got the function debezium"),
    (lambda: build(value=Order, format=debezium(Order)), "format=debezium[Order] says what values are, and value="),
    (
        lambda: StreamsBuilder().table("in", format=json_lines(dict)),
        "values of json_lines[dict] are no rows of a table",
    ),
    (
        lambda: StreamsBuilder().table("in", format=debezium(dict, changes=True)),
        "are no rows of a table; read it with stream(...)",
    ),
    (
        lambda: build(timestamp=lambda value: 5, format=debezium(dict)),
        "with format=debezium[dict], timestamp= is the name of a field of the rows",
    ),
    (
        lambda: build(timestamp="at", format=debezium(dict, event_time=True)),
        "timestamp= and event_time=True of debezium[dict] both say the time of records",
    ),
    (
        lambda: StreamsBuilder().stream("in", Consumed.with_(str, dict), format=debezium(dict)),
        "says what values are, and value=json[dict] does, too",
    ),
    (lambda: debezium(str), "debezium takes the type of the rows: dict, a dataclass"),
    (lambda: debezium(dict, event_time="yes"), "debezium: event_time= is True or False; got 'yes' of type str"),
    (lambda: debezium(dict, changes=1), "debezium: changes= is True or False; got 1 of type int"),
    (lambda: debezium(dict, "orders-value"), "debezium: envelope= takes a serde that gives dicts, such as Avro(...)"),
    (lambda: maxwell(dict, table=5), "maxwell: table= is a name, such as table='orders'; got 5"),
    (lambda: cloud_event(int), "cloud_event takes the type of the rows"),
]


@pytest.mark.parametrize(("wrong", "says"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_meant_is_refused_when_it_is_built(wrong: Any, says: str):
    with pytest.raises((TopologyError, ConfigError)) as failure:
        wrong()
    before, _, behind = says.partition("HERE")
    assert before in str(failure.value)
    assert behind in str(failure.value)


def test_a_topic_written_again_has_rows_without_envelopes():
    builder = orders(debezium(Order), key=int)
    ran = of_rows(builder, [(KEY, with_schema(change("c", after=OLD)), 1)])
    assert ran.driver.create_output_topic("out", int, bytes).read_value() == msgspec.json.encode(OLD)
