"""Users' own window, session and versioned stores, wherever a case puts them: what comes out, what is dropped and what
is in the stores is as in Kafka Streams with stores of the same shape (``java/src/main/java/Own.java``).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.testing.oracle import chunks, driver
from penstock.testing.oracle.__main__ import run_case
from penstock.testing.oracle.decisions import Decisions
from penstock.testing.oracle.described import DESCRIBED
from penstock.testing.oracle.functions import Spec
from support.own_timed_stores import TimedSupplier

HERE = Path(__file__)
FILES = {path.stem: path for path in sorted(HERE.with_name("own_stores").glob("*.json"))}
DECISIONS = Decisions.beside(HERE.with_name("own_stores"))
SHAPES = {"own_window": "window", "own_session": "session", "own_versioned": "versions", "own_duplicates": "duplicates"}

pytestmark = [pytest.mark.kip("KS-20"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture(params=["memory", "flushed", "sqlite"], autouse=True)
def own_stores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stores that the kinds of the cases stand for."""

    def supplier(given: Spec) -> TimedSupplier:
        retention = given.get("retention_ms", given.get("history_retention_ms"))
        return TimedSupplier(
            request.param, SHAPES[given["kind"]], given["store"], retention, given.get("window_size_ms", 10)
        )

    for kind in SHAPES:
        monkeypatch.setitem(DESCRIBED, kind, supplier)


def test_there_are_cases_of_every_kind() -> None:
    assert {kind for kind in SHAPES for path in FILES.values() if f'"{kind}"' in path.read_text()} == {*SHAPES}
    assert len(FILES) == 28


@pytest.mark.parametrize("name", FILES)
def test_users_stores_give_what_kafka_streams_gives(name: str) -> None:
    assert run_case(json.loads(FILES[name].read_text()), driver.run, DECISIONS) == ("passed", "")


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_users_stores_give_it_however_the_input_is_cut(name: str) -> None:
    assert run_case(json.loads(FILES[name].read_text()), chunks.runner(1), DECISIONS) == ("passed", "")
