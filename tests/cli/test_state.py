"""``penstock state`` and ``penstock status``: what an application keeps, from its checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.ipc as ipc
import pyarrow.parquet as parquet
import pytest

from cli.conftest import Penstock
from penstock import (
    Processor,
    Record,
    Stores,
    StreamsBuilder,
    TimeWindows,
    ValueTimestampHeaders,
    produce,
)
from penstock.engine.local import LocalApplication
from penstock.engine.shared.places import SlotPlace
from penstock.log.file.log import FileLog
from penstock.settings import Settings
from penstock.storage.base import LocalStorage

pytestmark = pytest.mark.slow

AIRPORTS = ["ATL", "JFK", "JFK", "LAX", "LGA"]


@pytest.fixture(autouse=True)
def app(folder: Path) -> None:
    """Departures by airport, at all and in windows of a second, as ``penstock run`` would have left them."""
    builder = StreamsBuilder()
    flights = builder.stream("flights", key=str, value=str).group_by_key()
    flights.count("counts")
    flights.windowed_by(TimeWindows.of_size_and_grace("1 s", "1 h")).count("windows")
    log = FileLog(folder / "log")
    produce([(airport, "UA", 500 * at) for at, airport in enumerate(AIRPORTS)], "flights", str, str, log)
    storage = LocalStorage(folder / ".penstock" / "app" / "checkpoint")
    application = LocalApplication(builder.build(), "app", Settings(), log, storage)
    application.run_until()
    application.close()


def test_stores_are_listed(penstock: Penstock):
    assert penstock("state", "ls", "app").out == [
        "store    kind       key  value",
        "counts   key-value  str  int",
        "windows  window     str  int",
    ]
    found = [json.loads(line) for line in penstock("state", "ls", "app", "--count", "--json").out]
    assert found[0] == {"store": "counts", "kind": "key-value", "key": "str", "value": "int", "rows": 4}


def test_what_a_store_has_for_a_key_is_shown(penstock: Penstock):
    assert penstock("state", "get", "app", "counts", "JFK").out == [
        "key  value  timestamp",
        "JFK  2      1970-01-01T00:00:01Z",
    ]
    windows = penstock("state", "get", "app", "windows", "JFK", "--json").out
    assert [json.loads(line) for line in windows] == [
        {"key": "JFK", "value": 1, "window_start": 0, "window_end": 1000, "timestamp": 500},
        {"key": "JFK", "value": 1, "window_start": 1000, "window_end": 2000, "timestamp": 1000},
    ]
    nothing = penstock("state", "get", "app", "counts", "ORD")
    assert (nothing.code, nothing.out, nothing.err) == (1, [], ["counts has nothing for the key ORD."])


def test_rows_are_shown_by_range_and_prefix_and_as_many_as_wanted(penstock: Penstock):
    def keys(*options: str) -> list[str]:
        return [json.loads(line)["key"] for line in penstock("state", "scan", "app", "counts", "--json", *options).out]

    assert keys() == ["ATL", "JFK", "LAX", "LGA"]
    assert keys("--from", "J", "--to", "LAX") == ["JFK", "LAX"]
    assert keys("--prefix", "L", "--reverse") == ["LGA", "LAX"]
    some = penstock("state", "scan", "app", "counts", "--limit", "2")
    assert len(some.out) == 3
    assert some.err == ["There are more than 2 rows; --limit shows more, and penstock state export has all."]
    wrong = penstock("state", "scan", "app", "windows", "--prefix", "J")
    assert (wrong.code, "--prefix is for key-value stores" in wrong.err[-1]) == (2, True)


def test_a_store_goes_into_a_file_of_any_format(penstock: Penstock, folder: Path):
    for name in ("counts.parquet", "counts.arrow", "counts.csv", "counts.ndjson"):
        assert penstock("state", "export", "app", "counts", name).err == [f"4 rows written to {name}."]
    rows = parquet.read_table(folder / "counts.parquet").to_pylist()
    assert [(row["key"], row["value"]) for row in rows] == [("ATL", 1), ("JFK", 2), ("LAX", 1), ("LGA", 1)]
    with ipc.open_file(folder / "counts.arrow") as file:
        assert file.read_all().to_pylist() == rows
    assert (folder / "counts.csv").read_text().splitlines()[:2] == [
        "key,value,timestamp",
        "ATL,1,1970-01-01 00:00:00+00:00",
    ]
    lines = (folder / "counts.ndjson").read_text().splitlines()
    assert json.loads(lines[1]) == {"key": "JFK", "value": 2, "timestamp": "1970-01-01T00:00:01Z"}
    wrong = penstock("state", "export", "app", "counts", "counts.xlsx")
    assert (wrong.code, "ends with .parquet, .arrow, .csv, .ndjson" in wrong.err[-1]) == (2, True)


def test_status_says_how_far_an_application_is(penstock: Penstock):
    said = penstock("status", "app").out
    assert said[0].startswith("app is at commit 1, made ")
    assert said[2:] == [
        "  ok, 0 records to go",
        "  1 task, 2 stores: counts, windows",
        "topic    partition  processed up to",
        "flights  0                        5",
    ]
    found = json.loads(penstock("status", "app", "--json").out[0])
    assert (found["offsets"], found["tasks"], found["stores"]) == ({"flights": {"0": 5}}, 1, ["counts", "windows"])


def test_status_ends_with_a_code_of_its_own_when_records_wait_and_no_commit_comes(penstock: Penstock, folder: Path):
    produce([("LAX", "UA", 9)], "flights", str, str, FileLog(folder / "log"))
    assert penstock("status", "app").code == 0
    stalled = penstock("status", "app", "--stalled", "0 ms", "--json")
    assert stalled.code == 3
    found = json.loads(stalled.out[0])
    assert (found["health"], found["behind"]) == ("stalled", 1)


def test_what_is_not_there_is_told(penstock: Penstock):
    assert (
        "there is no store 'count'; the stores are counts, windows"
        in penstock("state", "get", "app", "count", "a").err[0]
    )
    assert "found no commit of an application 'nobody'" in penstock("status", "nobody").err[0]


def test_status_says_where_slots_live_and_how_many_tasks_have_moved(
    penstock: Penstock, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    log, settings = FileLog(folder / "log"), Settings()
    builder = StreamsBuilder()
    builder.stream("bags", key=str, value=str).group_by_key().count("bags")
    storage = LocalStorage(folder / ".penstock" / "spread" / "checkpoint")
    produce([("JFK", "x", 0)], "bags", str, str, log, partitions=3)
    application = LocalApplication(builder.build(), "spread", settings, log, storage)
    one, two = SlotPlace("1", "here", copy="there"), SlotPlace("2", "there")
    for places in ([one, two], [one, one], [one, two]):
        monkeypatch.setattr(LocalApplication, "places", places)
        produce([("JFK", "x", 0)], "bags", str, str, log)
        application.run_until()
    application.close()
    shown = penstock("status", "spread").out
    assert "  3 tasks, 1 store: bags" in shown  # one of them has processed records
    at = shown.index("  2 tasks moved to another machine since the start")
    assert shown[at + 1 : at + 4] == [
        "slot  executor  machine  tasks  copy on",
        "   0  1         here         2  there",
        "   1  2         there        1",
    ]
    found = json.loads("".join(penstock("status", "spread", "--json").out))
    assert found["tasks_moved"] == 2
    assert found["slots"][1] == {"executor": "2", "host": "there", "tasks": 1}
    assert "moved" not in "".join(penstock("status", "app").out)  # there is one machine


class Keep(Processor):
    def init(self, context):
        self.orders = context.get_state_store("orders")

    def process(self, record):
        self.orders.put(record.key, ValueTimestampHeaders(record.value, record.timestamp, record.headers))


@pytest.mark.kip("44-04")
def test_headers_of_rows_are_shown_and_exported(penstock: Penstock, folder: Path):
    builder = StreamsBuilder()
    described = Stores.persistent_timestamped_key_value_store_with_headers("orders")
    builder.add_state_store(Stores.timestamped_key_value_store_with_headers_builder(described, str, int))
    builder.stream("in", key=str, value=int).process(Keep, "orders")
    log, storage = FileLog(folder / "log"), LocalStorage(folder / ".penstock" / "kept" / "checkpoint")
    produce([Record("a", 1, 1000, (("id", b"5"),)), Record("b", 2, 1000)], "in", str, int, log)
    application = LocalApplication(builder.build(), "kept", Settings(), log, storage)
    application.run_until()
    application.close()
    assert penstock("state", "scan", "kept", "orders").out == [
        "key  value  timestamp             headers",
        'a    1      1970-01-01T00:00:01Z  [["id","5"]]',
        "b    2      1970-01-01T00:00:01Z  []",
    ]
    (row,) = penstock("state", "get", "kept", "orders", "a", "--json").out
    assert json.loads(row) == {"key": "a", "value": 1, "timestamp": 1000, "headers": [["id", "5"]]}
    penstock("state", "export", "kept", "orders", "orders.parquet")
    exported = parquet.read_table(folder / "orders.parquet").to_pylist()
    assert [row["headers"] for row in exported] == [[{"key": "id", "value": b"5"}], None]


def test_floats_and_bytes_of_stores_are_shown_and_exported_as_they_are(penstock: Penstock, folder: Path):
    builder = StreamsBuilder()
    log = FileLog(folder / "log")
    floats = [float("nan"), float("inf"), float("-inf"), -0.0]
    produce([(f"k{n}", x, n) for n, x in enumerate(floats)], "floats", str, float, log)
    produce([(x, "", n) for n, x in enumerate(floats)], "by-float", float, str, log)
    produce([(b"a", b"ok", 1), (b"b", b"\xff", 2), (b"c", b'"x", y', 3)], "raw", bytes, bytes, log)
    builder.table("floats", key=str, value=float, store="floats")
    builder.table("by-float", key=float, value=str, store="by-float")
    builder.table("raw", key=bytes, value=bytes, store="raw")
    storage = LocalStorage(folder / ".penstock" / "shown" / "checkpoint")
    application = LocalApplication(builder.build(), "shown", Settings(), log, storage)
    application.run_until()
    application.close()

    def lines(file: str) -> list[str]:
        assert penstock("state", "export", "shown", file.partition(".")[0], file).code == 0
        return (folder / file).read_bytes().decode().splitlines()

    assert [row.split()[1] for row in penstock("state", "scan", "shown", "floats").out[1:]] == [
        "NaN", "Infinity", "-Infinity", "-0.0"
    ]  # fmt: skip
    scanned = penstock("state", "scan", "shown", "floats", "--json").out
    assert [json.loads(row)["value"] for row in scanned] == ["NaN", "Infinity", "-Infinity", -0.0]
    assert json.loads(penstock("state", "get", "shown", "by-float", "nan", "--json").out[0])["key"] == "NaN"
    assert [line.rsplit(",", 1)[0] for line in lines("floats.csv")] == [
        "key,value", "k0,nan", "k1,inf", "k2,-inf", "k3,-0.0"
    ]  # fmt: skip
    assert [json.loads(line)["value"] for line in lines("floats.ndjson")] == ["NaN", "Infinity", "-Infinity", -0.0]
    assert {line.rsplit(",", 1)[0] for line in lines("by-float.csv")[1:]} == {
        'nan,""', 'inf,""', '-inf,""', '-0.0,""'
    }  # fmt: skip
    assert [line.rsplit(",", 1)[0] for line in lines("raw.csv")[1:]] == [
        "a,ok", 'b,"{""base64"":""/w==""}"', 'c,"""x"", y"'
    ]  # fmt: skip
    assert [json.loads(line)["value"] for line in lines("raw.ndjson")] == ["ok", {"base64": "/w=="}, '"x", y']
