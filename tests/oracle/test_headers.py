"""Headers of results are those of Kafka Streams, step by step; behind sessions, which it leaves out, by a decision.

With ``dsl.store.format=HEADERS``, and in stores with headers, so are the rows of stores, and the bytes of suppressions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.testing.oracle import chunks, driver
from penstock.testing.oracle.__main__ import run_case
from penstock.testing.oracle.decisions import Decisions
from penstock.testing.oracle.headers import as_without_headers
from penstock.testing.oracle.outcome import Outcome, differences

HERE = Path(__file__)
CASE: dict[str, Any] = {
    "name": "sessions",
    "topology": [
        {"id": "s", "op": "stream", "topic": "in"},
        {"id": "g", "op": "group_by_key", "of": "s"},
        {"id": "w", "op": "windowed_by", "of": "g", "windows": {"type": "SessionWindows", "inactivity_gap_ms": 5}},
        {"id": "c", "op": "count", "of": "w"},
        {"id": "t", "op": "to_stream", "of": "c"},
        {"id": "o", "op": "to", "of": "t", "topic": "out"},
        {"id": "p", "op": "to", "of": "s", "topic": "copy"},
    ],
}


def row(topic: str, value: int, headers: list[Any]) -> dict[str, Any]:
    return {"topic": topic, "key": "a", "value": value, "timestamp": 1, "after": 0, "headers": headers}


def found(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> list[str]:
    return as_without_headers({**CASE, "expected": {"output": theirs}}, Outcome(output=ours), differences)


def test_headers_of_session_results_are_not_compared_but_all_else_is() -> None:
    theirs = [row("out", 1, []), row("copy", 1, [["h", "1"]])]
    assert found([row("out", 1, [["h", "1"]]), row("copy", 1, [["h", "1"]])], theirs) == []
    assert found([row("out", 2, [["h", "1"]]), row("copy", 1, [["h", "1"]])], theirs)
    assert found([row("out", 1, [["h", "1"]]), row("copy", 1, [])], theirs)


FILES = {path.stem: path for path in sorted(HERE.with_name("headers").glob("*.json"))}
WITH_STORES = {path.stem: path for path in sorted(HERE.with_name("header_stores").glob("*.json"))}
DECISIONS = Decisions.beside(HERE.with_name("headers"))


@pytest.mark.parametrize("name", FILES)
def test_results_have_the_headers_of_kafka_streams(name: str) -> None:
    assert run_case(json.loads(FILES[name].read_text()), driver.run, DECISIONS) == ("passed", "")


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_results_have_the_headers_of_kafka_streams_however_the_input_is_cut(name: str) -> None:
    assert run_case(json.loads(FILES[name].read_text()), chunks.runner(1), DECISIONS) == ("passed", "")


@pytest.mark.kip("44-04")
@pytest.mark.parametrize("name", WITH_STORES)
def test_stores_with_headers_have_the_rows_and_the_bytes_of_kafka_streams(name: str) -> None:
    assert run_case(json.loads(WITH_STORES[name].read_text()), driver.run, DECISIONS) == ("passed", "")


@pytest.mark.slow
@pytest.mark.kip("44-04")
@pytest.mark.parametrize("name", WITH_STORES)
def test_stores_with_headers_have_them_however_the_input_is_cut(name: str) -> None:
    assert run_case(json.loads(WITH_STORES[name].read_text()), chunks.runner(1), DECISIONS) == ("passed", "")
