"""Avro, Protobuf and JSON Schema with a schema registry: what is written and read, evolution, and what goes wrong."""

from __future__ import annotations

import json
import logging
import pickle
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastavro", reason="needs the extras avro, protobuf and jsonschema")
pytest.importorskip("jsonschema")
protobuf = pytest.importorskip("google.protobuf.descriptor_pb2")

from google.protobuf import descriptor_pool, message_factory  # noqa: E402

from penstock import (  # noqa: E402
    Avro,
    JsonSchema,
    Protobuf,
    SchemaRegistry,
    StreamsBuilder,
    consume,
    produce,
)
from penstock.engine.local import LocalApplication  # noqa: E402
from penstock.errors import ConfigError, ProcessingError, RegistryError, SerdeError  # noqa: E402
from penstock.log.base import TopicInfo  # noqa: E402
from penstock.log.memory import MemoryLog  # noqa: E402
from penstock.log.open import open_log  # noqa: E402
from penstock.serdes import Serde  # noqa: E402
from penstock.settings import Settings  # noqa: E402
from penstock.storage.base import LocalStorage  # noqa: E402
from penstock.testing import TopologyTestDriver  # noqa: E402
from support.registry import Registry, running  # noqa: E402

SUBJECT = "orders-value"
OLD = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "string"}, {"name": "cents", "type": "long"}],
}
NEW = {**OLD, "fields": [*OLD["fields"], {"name": "currency", "type": "string", "default": "EUR"}]}
JSON = {"type": "object", "properties": {"cents": {"type": "integer", "minimum": 0}}, "required": ["cents"]}


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running() as found:
        yield found


def column(serde: Serde, values: list[Any]) -> list[Any]:
    return serde.decode_all(serde.encode_all(values))


def message(*fields: str) -> Any:
    """The class of a message with whole numbers, as protoc would generate it."""
    file = protobuf.FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Other")
    order = file.message_type.add(name="Order")
    for number, name in enumerate(fields, 1):
        order.field.add(name=name, number=number, type=protobuf.FieldDescriptorProto.TYPE_INT64, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


# --- formats ---------------------------------------------------------------------------------------------------------


def test_what_is_written_is_what_confluents_own_deserializers_read_and_the_other_way_round(registry: Registry):
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    client = SchemaRegistryClient({"url": registry.url})
    order, kind = {"id": "a", "cents": 5}, message("cents")
    plain = {"subject.name.strategy": lambda context, name: SUBJECT}
    for ours, theirs, reads, value in (
        (
            Avro(SUBJECT, registry.url, OLD),
            AvroSerializer(client, json.dumps(OLD), conf=plain),
            AvroDeserializer(client),
            order,
        ),
        (
            JsonSchema("j", registry.url, JSON),
            JSONSerializer(json.dumps(JSON), client, conf={"subject.name.strategy": lambda context, name: "j"}),
            JSONDeserializer(json.dumps(JSON)),
            order,
        ),
        (
            Protobuf(kind, "p", registry.url),
            ProtobufSerializer(kind, client, {"subject.name.strategy": lambda context, name: "p"}),
            ProtobufDeserializer(kind),
            kind(cents=7),
        ),
    ):
        context = SerializationContext("orders", MessageField.VALUE)
        assert reads(ours.encode(value), context) == value
        assert ours.decode(theirs(value, context)) == value
        assert ours.encode(value)[:5] == theirs(value, context)[:5]


def test_columns_have_nulls_and_come_back_as_they_went_in(registry: Registry):
    kind = message("cents")
    orders = [{"id": "a", "cents": 5}, None, {"id": "ä", "cents": -(2**62)}]
    assert column(Avro(SUBJECT, registry.url, OLD), orders) == orders
    assert column(JsonSchema("j", registry.url, JSON), [{"cents": 1}, None]) == [{"cents": 1}, None]
    assert column(Protobuf(kind, "p", registry.url), [kind(cents=1), None]) == [kind(cents=1), None]
    assert len(registry.requests) == len(set(registry.requests)), "each thing is asked for once"


@pytest.mark.kip("KS-22")
@pytest.mark.parametrize("looks", [False, True])
def test_a_value_that_is_null_in_its_schema_is_a_null(registry: Registry, looks: bool):
    from fastavro import schemaless_writer

    def nulls(serde: Serde, sample: Any, rest: bytes) -> list[Any]:
        builder = StreamsBuilder()
        stream = builder.stream("in", value=serde)
        stream = stream.peek(lambda key, value: None) if looks else stream
        stream.group_by_key().count().to_stream().to("out")
        builder.stream("same", value=serde).to("copy")
        driver = TopologyTestDriver(builder.build())
        head = serde.encode(sample)[:5]
        for topic in ("in", "same"):
            driver.pipe_input(topic, "a", head + rest, 1)
            driver.pipe_input(topic, "a", sample, 2)
        counts = [record.value for record in driver.read_output("out")]
        return [counts, [record.value for record in driver.read_output("copy")]]

    order, null = {"id": "a", "cents": 5}, BytesIO()
    schemaless_writer(null, ["null", OLD], None)
    expected = [[1], [None, order]]
    assert nulls(Avro("union", registry.url, ["null", OLD]), order, null.getvalue()) == expected
    assert nulls(JsonSchema("j", registry.url, {"type": ["null", "object"]}), order, b" null") == expected


@pytest.mark.kip("KS-22")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["string", "null"]},
        {"enum": [None, "a"]},
        {"anyOf": [{"type": "null"}, {"type": "string"}]},
        {"$ref": "#/definitions/text", "definitions": {"text": {"type": ["null", "string"]}}},
        {"not": {"type": "integer"}},
        {},
    ],
)
def test_a_json_schema_takes_null_in_whichever_way_it_says_so(registry: Registry, schema: Any):
    serde = JsonSchema("j", registry.url, schema)
    assert counted(serde, serde.encode("a"), serde.encode("a")[:5] + b"null") == ([1], 1)


@pytest.mark.kip("KS-22")
@pytest.mark.parametrize(
    ("union", "null"), [(["null", OLD], b"\x00"), ([OLD, "null"], b"\x02"), ([OLD, {"type": "null"}], b"\x02")]
)
def test_a_union_of_avro_says_null_in_any_of_its_branches(registry: Registry, union: Any, null: bytes):
    serde = Avro("union", registry.url, union)
    order = serde.encode({"id": "a", "cents": 5})
    assert counted(serde, order, order[:5] + null) == ([1], 1)


@pytest.mark.kip("KS-22")
def test_a_message_of_no_bytes_is_a_value(registry: Registry):
    kind = message("cents")
    serde = Protobuf(kind, "p", registry.url)
    assert counted(serde, serde.encode(kind()), serde.encode(kind(cents=1))) == ([1, 2], 0)


def counted(serde: Serde, *values: bytes) -> tuple[list[int], float]:
    """What count says of values under one key, and how many it drops."""
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=serde).group_by_key().count().to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    for value in values:
        driver.pipe_input("in", "a", value, 1)
    return [record.value for record in driver.read_output("out")], driver.dropped_records_total()


def test_only_a_schema_with_null_at_its_top_has_all_values_decoded(registry: Registry):
    schemas = {"OLD": OLD, "union": ["null", OLD], "other": [OLD, "string"], "null": {"type": "null"}}
    gives = {name: Avro(name, registry.url, schema).gives_none for name, schema in schemas.items()}
    assert gives == {"OLD": False, "union": True, "other": False, "null": True}


def test_a_null_that_the_schema_refuses_is_none(registry: Registry):
    builder = StreamsBuilder()
    serde = JsonSchema("j", registry.url, JSON)
    builder.stream("in", value=serde).map_values(repr, value=str).to("out")
    driver = TopologyTestDriver(builder.build())
    with pytest.raises(ProcessingError, match="None is not of type 'object'"):
        driver.pipe_input("in", "a", serde.encode({"cents": 1})[:5] + b"null", 1)


@dataclass
class Order:
    id: str
    cents: int
    at: datetime | None = None


def test_values_are_of_a_class_if_one_is_given(registry: Registry):
    at = {"type": "long", "logicalType": "timestamp-millis"}
    schema = {**OLD, "fields": [*OLD["fields"], {"name": "at", "type": ["null", at], "default": None}]}
    orders = [Order("a", 1), Order("b", 2, datetime(2026, 1, 2, 3, 4, 5, 6000, UTC))]
    assert column(Avro(SUBJECT, registry.url, schema, type=Order), orders) == orders
    text = {"type": "object", "properties": {"id": {"type": "string"}}}
    assert column(JsonSchema("j", registry.url, text, type=Order), orders) == orders


def test_a_schema_may_refer_to_others(registry: Registry):
    registry.register(
        "money", {"schema": '{"type": "record", "name": "Money", "fields": [{"name": "c", "type": "int"}]}'}
    )
    schema = '{"type": "record", "name": "Bill", "fields": [{"name": "sum", "type": "Money"}]}'
    references = [{"name": "Money", "subject": "money", "version": 1}]
    registry.register(SUBJECT, {"schema": schema, "references": references})
    assert column(Avro(SUBJECT, registry.url), [{"sum": {"c": 3}}]) == [{"sum": {"c": 3}}]


# --- evolution -------------------------------------------------------------------------------------------------------


def test_old_records_are_read_with_a_new_schema_and_new_ones_with_an_old_one(registry: Registry):
    old, new = Avro(SUBJECT, registry.url, OLD), Avro(SUBJECT, registry.url, NEW)
    data = [*old.encode_all([{"id": "a", "cents": 1}]), *new.encode_all([{"id": "b", "cents": 2, "currency": "CHF"}])]
    written = [one.as_py() for one in data]
    assert [one[4] for one in written] == [1, 2]
    assert [new.decode(one) for one in written] == [
        {"id": "a", "cents": 1, "currency": "EUR"},
        {"id": "b", "cents": 2, "currency": "CHF"},
    ]
    assert [old.decode(one) for one in written] == [{"id": "a", "cents": 1}, {"id": "b", "cents": 2}]

    latest, first = Avro(SUBJECT, registry.url), Avro(SUBJECT, registry.url, version=1)
    assert latest.decode(written[0])["currency"] == "EUR"
    assert first.decode(written[1]) == {"id": "b", "cents": 2}
    assert latest.encode({"id": "c", "cents": 3})[4] == 2, "it is written with the subject's latest schema"


def test_messages_are_read_by_the_numbers_of_their_fields(registry: Registry):
    old, new = message("cents"), message("cents", "vat")
    data = Protobuf(old, "p", registry.url).encode(old(cents=5))
    assert data[5:8] == b"\x02\x02\x08"[:2] + data[7:8], "which message of the file it is stands before it"
    read = Protobuf(new, "p", registry.url).decode(data)
    assert (read.cents, read.vat) == (5, 0)


def test_the_latest_schema_is_that_of_the_start_in_every_process(registry: Registry):
    Avro(SUBJECT, registry.url, OLD).prepare(writes=True)
    serde = Avro(SUBJECT, registry.url)
    serde.prepare(writes=False)
    Avro(SUBJECT, registry.url, NEW).prepare(writes=True)
    elsewhere = pickle.loads(pickle.dumps(serde))
    assert elsewhere == serde
    assert elsewhere.decode(serde.encode({"id": "a", "cents": 1})) == {"id": "a", "cents": 1}


# --- in a program ----------------------------------------------------------------------------------------------------


def program(source: Serde | Any, sink: Serde | Any, log: Any, folder: Path, **settings: Any) -> LocalApplication:
    """Adds a cent to each order, and counts the cents of each id."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", value=source)
    dearer = orders.map_values(lambda order: {**order, "cents": order["cents"] + 1}, value=sink)
    dearer.to("dearer")
    dearer.group_by_key().reduce(lambda old, new: {**new, "cents": old["cents"] + new["cents"]}, "sums").to_stream().to(
        "sums"
    )
    for topic in ("orders", "dearer", "sums"):
        if not log.exists(topic):
            log.create_topic(TopicInfo(topic, 1))
    loaded = Settings.load(environment={}, folder=folder, statestore_cache_max_bytes=0, **settings)
    return LocalApplication(builder.build(), "shop", loaded, log, LocalStorage(folder / "checkpoint"))


@pytest.mark.parametrize("is_in_files", [False, True])
def test_they_stand_wherever_a_type_does_and_a_store_outlives_a_new_schema(
    registry: Registry, tmp_path: Path, is_in_files: bool
):
    log = open_log(tmp_path / "log") if is_in_files else MemoryLog()
    old, new = Avro(SUBJECT, schema=OLD), Avro(SUBJECT, schema=NEW)
    for serde, order in ((old, {"id": "a", "cents": 1}), (new, {"id": "a", "cents": 2, "currency": "CHF"})):
        application = program(serde, serde, log, tmp_path, schema_registry=registry.url)
        named = serde.within(SchemaRegistry(registry.url))
        produce([("a", order, 5)], "orders", key=str, value=named, log=log)
        application.run_until()
        application.close()
    read = new.within(SchemaRegistry(registry.url))
    found = [(one.key, one.value) for one in consume("sums", log=log, key=str, value=read)]
    assert found == [
        ("a", {"id": "a", "cents": 2, "currency": "EUR"}),
        ("a", {"id": "a", "cents": 5, "currency": "CHF"}),
    ]


def test_a_record_that_is_none_is_left_out_or_stops_the_program_as_on_error_says(registry: Registry, tmp_path: Path):
    registry.register(SUBJECT, {"schema": '"string"'})
    registry.register(SUBJECT, {"schema": json.dumps(OLD)})
    serde = Avro(SUBJECT, registry.url)
    bad = [b"{}", b"\x00\x00\x00\x00\x63abc", b"\x00\x00\x00\x00\x02\x08a", b"\x00\x00\x00\x00\x01\x02a"]
    good = serde.encode({"id": "a", "cents": 1})
    for settings in ({"on_error": "skip"}, {}):
        log = MemoryLog()
        application = program(serde, serde, log, tmp_path / str(len(settings)), **settings)
        produce([("k", one, 5) for one in (bad[0], good, *bad[1:])], "orders", key=str, value=bytes, log=log)
        if settings:
            application.run_until()
            assert [one.value["cents"] for one in consume("dearer", log=log, key=str, value=serde)] == [2]
        else:
            with pytest.raises(ProcessingError, match="it was not written with a schema registry"):
                application.run_until()
    for data, said in zip(bad[1:], ("it has no such", "cannot read", "cannot read"), strict=True):
        with pytest.raises(SerdeError, match=said):
            serde.decode(data)


def test_a_registry_that_is_gone_stops_the_program_and_no_record_is_left_out(registry: Registry, tmp_path: Path):
    quick = SchemaRegistry(registry.url, {"max.retries": 0})
    serde, log = Avro(SUBJECT, quick, OLD), MemoryLog()
    application = program(serde, serde, log, tmp_path, on_error="skip")
    number = registry.register(SUBJECT, {"schema": json.dumps(NEW)})
    registry.user = "nobody:knows"
    data = [bytes([0, 0, 0, 0, number]) + b"\x02a\x02\x06CHF", serde.encode({"id": "b", "cents": 1})]
    produce([("k", one, 5) for one in data], "orders", key=str, value=bytes, log=log)
    with pytest.raises(RegistryError, match=r"does not let this user in \(HTTP 401\).*No record was left out"):
        application.run_until()
    assert log.end_offsets("dearer") == [0]

    registry.user = ""
    application = program(serde, serde, log, tmp_path, on_error="skip")
    application.run_until()
    assert [one.value["cents"] for one in consume("dearer", log=log, key=str, value=serde)] == [2, 2]


# --- refused ---------------------------------------------------------------------------------------------------------


def start(serde: Serde, folder: Path, sink: Any = bytes) -> LocalApplication:
    builder = StreamsBuilder()
    builder.stream("orders", value=serde).to("out")
    log = MemoryLog()
    log.create_topic(TopicInfo("orders", 1))
    return LocalApplication(
        builder.build(), "shop", Settings.load(environment={}, folder=folder), log, LocalStorage(folder)
    )


def test_a_start_says_what_is_missing_before_anything_is_made(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    unknown = [Avro("none", registry.url), JsonSchema("none", registry.url), Avro("none", registry.url, version=2)]
    for serde in unknown:
        with pytest.raises(ConfigError, match=r"subject 'none', schema registry http.*does not know the subject"):
            start(serde, tmp_path)
    with pytest.raises(ConfigError, match=r"avro\[orders-value\]: no schema registry is named; say registry="):
        start(Avro(SUBJECT, schema=OLD), tmp_path)
    with pytest.raises(ConfigError, match="not registered there; register it, or take register=False away"):
        start(Avro(SUBJECT, registry.url, OLD, register=False), tmp_path)
    registry.frozen.add(SUBJECT)
    for serde in (Avro(SUBJECT, registry.url, OLD), Protobuf(message("cents"), SUBJECT, registry.url)):
        with pytest.raises(ConfigError, match="not compatible with the subject's earlier schemas; nothing was written"):
            start(serde, tmp_path)
    registry.register("j", {"schema": "{}", "schemaType": "JSON"})
    with pytest.raises(ConfigError, match="subject 'j' is of type JSON, not AVRO"):
        start(Avro("j", registry.url), tmp_path)


def test_a_registry_that_does_not_answer_is_an_error_in_good_time(tmp_path: Path):
    nobody = SchemaRegistry("http://127.0.0.1:1", {"max.retries": 0})
    with pytest.raises(RegistryError, match=r"http://127\.0\.0\.1:1 did not answer: .*everything committed is safe"):
        start(Avro(SUBJECT, nobody), tmp_path)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Avro(""), r"Avro\(subject\): name the registry's subject"),
        (lambda: Avro("a", schema="{"), "it is no Avro schema"),
        (lambda: Avro("a", schema={"type": "recrod"}), "it is no Avro schema"),
        (lambda: Avro("a", schema=OLD, version=1), "give schema or version, not both"),
        (lambda: Avro("a", schema=5), "give the schema as text, a Path, or a dict; got 5"),
        (lambda: Avro("a", schema=Path("none.avsc")), "cannot read none.avsc: No such file"),
        (lambda: JsonSchema("a", schema={"type": "nothing"}), "it is no JSON Schema"),
        (lambda: Protobuf(dict, "a"), "give the class that protoc generated"),
        (lambda: SchemaRegistry("registry:8081"), "write it like 'http://host:8081'; got 'registry:8081'"),
    ],
)
def test_wrong_arguments_are_named_where_they_are_given(make: Any, said: str):
    with pytest.raises(ConfigError, match=said):
        make()


def test_values_that_do_not_fit_are_named(registry: Registry):
    with pytest.raises(
        SerdeError,
        match=r"does not fit the schema of avro\[orders-value\].*Field cents is specified in the schema but missing",
    ):
        Avro(SUBJECT, registry.url, OLD).encode_all([{"id": "a", "cents": 1}, {"id": "a"}])
    with pytest.raises(SerdeError, match=r"centz"):
        Avro(SUBJECT, registry.url, OLD).encode({"id": "a", "cents": 1, "centz": 1})
    serde = JsonSchema("j", registry.url, JSON)
    with pytest.raises(SerdeError, match=r"\$\.cents: -1 is less than the minimum of 0"):
        serde.encode({"cents": -1})
    lax = JsonSchema("j", registry.url, JSON, validate=False)
    with pytest.raises(SerdeError, match="'cents' is a required property"):
        serde.decode(lax.encode({}))
    with pytest.raises(SerdeError, match="cannot encode"):
        Protobuf(message("cents"), "p", registry.url).encode({"cents": 1})


@pytest.mark.parametrize(
    ("make", "module", "extra"),
    [
        (lambda: Avro("a"), "fastavro", "avro"),
        (lambda: JsonSchema("a"), "jsonschema", "jsonschema"),
        (lambda: Protobuf(int, "a"), "google.protobuf", "protobuf"),
    ],
)
def test_a_library_that_is_missing_is_named_with_what_to_install(
    make: Any, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        ConfigError, match=rf"needs libraries that are not installed.*pip install 'penstock-streams\[{extra}\]'"
    ):
        make()


# --- secrets ---------------------------------------------------------------------------------------------------------

SECRET = "swordfish-9731"


def test_the_password_comes_from_elsewhere_and_is_nowhere_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "secret"
    file.write_text(f"app:{SECRET}\n")
    monkeypatch.setenv("REGISTRY_USER", f"app:{SECRET}")
    with running(f"app:{SECRET}") as registry:
        for number, user in enumerate(("env:REGISTRY_USER", f"file:{file}")):
            place = SchemaRegistry(registry.url, {"basic.auth.user.info": user})
            serde, log, folder = Avro(SUBJECT, place, OLD), open_log(tmp_path / f"log{number}"), tmp_path / str(number)
            application = program(serde, serde, log, folder)
            produce([("a", {"id": "a", "cents": 1}, 5)], "orders", key=str, value=serde, log=log)
            application.run_until()
            application.close()
            shown = [repr(serde), repr(place), application.coordinator.topology.describe(), caplog.text]
            assert not [text for text in shown if SECRET in text]
            assert SECRET.encode() not in pickle.dumps(serde)
            written = [one for one in tmp_path.rglob("*") if one.is_file() and one != file]
            assert written
            assert not [one for one in written if SECRET.encode() in one.read_bytes()]
        monkeypatch.setenv("PENSTOCK_SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO", "app:wrong")
        with pytest.raises(RegistryError, match=r"does not let this user in \(HTTP 401\)") as refused:
            start(Avro(SUBJECT, f"{registry.url}/"), tmp_path / "refused")
        assert "wrong" not in str(refused.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SchemaRegistry("http://h", {"basic.auth.user.info": f"app:{SECRET}"}),
        lambda: SchemaRegistry(f"http://app:{SECRET}@h"),
        lambda: Avro("a", f"http://app:{SECRET}@h"),
        lambda: SchemaRegistry("http://h", {"basic.auth.user.info": "env:NOT_SET_ANYWHERE"}).options(),
    ],
)
def test_a_password_that_is_written_down_or_not_there_is_refused_without_being_shown(make: Any):
    with pytest.raises(ConfigError) as refused:
        make()
    assert SECRET not in str(refused.value)


def test_the_registry_may_be_named_by_the_settings(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "penstock.toml").write_text(f'schema_registry = "{registry.url}"\n')
    assert column(Avro(SUBJECT, schema=OLD), [{"id": "a", "cents": 1}]) == [{"id": "a", "cents": 1}]
    monkeypatch.setenv("PENSTOCK_SCHEMA_REGISTRY", "http://127.0.0.1:1")
    monkeypatch.setenv("PENSTOCK_SCHEMA_REGISTRY_MAX_RETRIES", "0")
    with pytest.raises(RegistryError):
        Avro(SUBJECT).encode({})
