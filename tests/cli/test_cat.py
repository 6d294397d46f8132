"""``penstock topics cat`` and ``tail`` show records as people and as programs read them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from penstock import Avro, JsonSchema, produce
from support.registry import running

NEW_YEAR = 1_767_225_600_000
ROWS = [
    ("JFK", {"delay": 5}, NEW_YEAR),
    ("LGA", None, NEW_YEAR + 1),
    (None, {"delay": -2}, NEW_YEAR + 60_000, (("source", b"radar"), ("raw", b"\xff"))),
]


@pytest.fixture(autouse=True)
def departures(folder: Path) -> None:
    produce(ROWS, "departures", log=folder / ".penstock" / "log")


def test_a_record_is_a_line_of_key_and_value(penstock):
    assert penstock("topics", "cat", "departures") == (0, ['JFK\t{"delay":5}', "LGA\tnull", 'null\t{"delay":-2}'], [])


def test_values_are_shown_without_their_keys(penstock):
    assert penstock("topics", "cat", "departures", "--no-keys").out == ['{"delay":5}', "null", '{"delay":-2}']


def test_long_lines_have_time_partition_offset_and_headers(penstock):
    assert penstock("topics", "cat", "departures", "--long").out == [
        '2026-01-01T00:00:00Z  0:0  JFK  {"delay":5}',
        "2026-01-01T00:00:00.001Z  0:1  LGA  null",
        '2026-01-01T00:01:00Z  0:2  null  {"delay":-2}  source=radar, raw=0xff',
    ]


def test_json_has_everything(penstock):
    assert penstock("topics", "cat", "departures", "--json").out == [
        '{"key":"JFK","value":{"delay":5},"timestamp":1767225600000,"partition":0,"offset":0,"headers":[]}',
        '{"key":"LGA","value":null,"timestamp":1767225600001,"partition":0,"offset":1,"headers":[]}',
        '{"key":null,"value":{"delay":-2},"timestamp":1767225660000,"partition":0,"offset":2,'
        '"headers":[["source","radar"],["raw",{"base64":"/w=="}]]}',
    ]


def test_a_format_chooses_the_fields(penstock):
    shown = penstock("topics", "cat", "departures", "--format", r"{offset}\t{timestamp} {topic}", "--limit", "1")
    assert shown.out == ["0\t1767225600000 departures"]
    code, out, err = penstock("topics", "cat", "departures", "--format", "{keys}")
    assert (code, out) == (2, [])
    assert err[-1] == (
        "Error: Invalid value for '--format': cannot read '{keys}'; the fields are "
        "{key}, {value}, {timestamp}, {time}, {topic}, {partition}, {offset}, {headers}"
    )


def test_a_part_is_chosen_by_offset_limit_and_number_from_the_end(penstock):
    def offsets(*arguments: str) -> list[str]:
        return penstock("topics", *arguments, "departures", "--format", "{offset}").out

    assert offsets("cat", "--from", "1") == ["1", "2"]
    assert offsets("cat", "--from", "9") == []
    assert offsets("cat", "--from", "1", "--limit", "1") == ["1"]
    assert offsets("tail") == ["0", "1", "2"]
    assert offsets("tail", "-n", "2") == ["1", "2"]
    assert offsets("tail", "-n", "0") == []


def test_partitions_come_together_in_order_of_time(penstock):
    rows = [("a", "first", 1), ("c", "second", 2), ("a", "third", 3), ("c", "fourth", 4)]
    produce(rows, "parts", value=str, partitions=8)
    shown = penstock("topics", "cat", "parts", "--format", "{partition} {value}").out
    assert shown == ["4 first", "2 second", "4 third", "2 fourth"]
    assert penstock("topics", "cat", "parts", "-p", "2", "--no-keys").out == ["second", "fourth"]
    assert penstock("topics", "tail", "parts", "-n", "3", "--no-keys").out == ["second", "third", "fourth"]


def test_a_partition_that_is_not_there_is_refused(penstock):
    assert penstock("topics", "cat", "departures", "--partition", "1") == (
        1,
        [],
        ["Error: topic 'departures' has no partition 1; it has partition 0 alone"],
    )


def test_a_topic_that_is_not_there_is_refused_with_those_that_are(penstock, folder):
    for command in ("cat", "tail", "rm"):
        assert penstock("topics", command, "arrivals") == (
            1,
            [],
            [
                f"Error: topic 'arrivals' does not exist in {folder}/.penstock/log: the topics are departures; "
                f"make it with "
                "`penstock topics create arrivals` or by producing into it"
            ],
        )


def test_bytes_that_do_not_decode_are_shown_as_they_are(penstock):
    penstock("topics", "create", "mixed", "--value", "json")
    produce([("a", b"{broken", 1), ("b", b"\xff\x00", 2), ("c", b"[1]", 3)], "mixed", value=bytes)
    assert penstock("topics", "cat", "mixed").out == ["a\t{broken", "b\t0xff00", "c\t[1]"]


def test_text_stays_on_its_line(penstock):
    produce([("a", "two\nlines\x1b[31m", 1), ("b", "turned \u202eround", 1)], "texts", value=str)
    assert penstock("topics", "cat", "texts").out == ["a\t" + r"two\nlines\x1b[31m", "b\t" + r"turned \u202eround"]


@pytest.mark.slow
@pytest.mark.parametrize("command", [["cat", "many"], ["cat", "many", "--json"], ["tail", "many", "-n", "100000"]])
def test_a_reader_that_has_seen_enough_ends_the_command_quietly(folder, command):
    produce([(str(n), n, n) for n in range(100_000)], "many", value=int)
    penstock = [str(Path(sys.executable).with_name("penstock")), "topics", *command]
    running = subprocess.Popen(penstock, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder)
    assert running.stdout
    assert running.stderr
    assert b"0" in running.stdout.readline()
    running.stdout.close()
    assert running.stderr.read() == b""
    assert running.wait() == 1


@pytest.mark.slow
def test_following_shows_records_as_they_come_until_ctrl_c(folder):
    penstock = [str(Path(sys.executable).with_name("penstock")), "topics", "tail", "departures", "-n", "1", "-f"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    running = subprocess.Popen(
        penstock,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=environment,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # which a shell's background jobs ignore
    )
    assert running.stdout
    assert running.stderr
    assert running.stdout.readline() == 'null\t{"delay":-2}\n'
    produce([("EWR", {"delay": 1}, 5)], "departures")
    assert running.stdout.readline() == 'EWR\t{"delay":1}\n'
    running.send_signal(signal.SIGINT)
    assert (running.wait(timeout=60), running.stdout.read(), running.stderr.read()) == (0, "", "")


@pytest.mark.parametrize(
    ("type_", "serde", "schema"),
    [
        (
            "avro",
            Avro,
            {
                "type": "record",
                "name": "Order",
                "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": "long"}],
            },
        ),
        ("jsonschema", JsonSchema, {"type": "object"}),
    ],
)
def test_values_whose_schema_is_in_a_registry_are_read_with_it(penstock, folder, monkeypatch, type_, serde, schema):
    pytest.importorskip("fastavro")
    pytest.importorskip("jsonschema")
    with running() as registry:
        value = serde("orders-value", registry=registry.url, schema=schema)
        produce([("k", {"id": "a", "n": 1}, 1)], "orders", value=value, log=folder / ".penstock" / "log")
        no_registry = penstock("topics", "cat", "orders", "--value", type_)
        monkeypatch.setenv("PENSTOCK_SCHEMA_REGISTRY", registry.url)
        assert penstock("topics", "cat", "orders", "--value", type_).out == ['k\t{"id":"a","n":1}']
        assert penstock("topics", "tail", "orders", "--value", type_, "--no-keys").out == ['{"id":"a","n":1}']
    assert no_registry.code != 0
    assert "schema_registry" in " ".join(no_registry.err)
