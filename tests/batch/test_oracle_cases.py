"""Cases recorded from Kafka Streams, as batches: a sixth of them, compared with the live engine over the same topics.

That the live engine gives what Kafka Streams gives is what ``tests/oracle`` is for.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.testing.oracle.build import Build
from penstock.testing.oracle.driver import settings_of
from support.batches import as_batch, live, log_of

FILES = sorted((Path(__file__).parents[1] / "oracle").glob("*/*.json"))
CASES = [file for file in FILES if file.parent.name in ("cases", "kip655", "processors")][::6]
CASES = [file for file in CASES if "wall-clock" not in file.stem]  # what the wall clock brings differs from run to run


def outcome_of(run: Any, case: Any) -> Any:
    """What comes out, or the kind of the error."""
    rows = [(e["topic"], e["key"], e["value"], e["timestamp"]) for e in case["input"] if "topic" in e]
    settings = {name: value for name, value in settings_of(case).items() if name != "application_id"}
    try:
        topology = Build(case).topology()
    except PenstockError as error:
        return type(error)
    try:
        return run(topology, log_of(topology, rows), **settings)
    except PenstockError as error:
        return type(error)


def a_batch(topology: Any, log: Any, **settings: Any) -> Any:
    return as_batch(topology, log, 1, **settings)


@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
def test_a_recorded_case_gives_the_same_as_a_batch(file: Path) -> None:
    case = json.loads(file.read_text())
    if "topology" in case:
        assert outcome_of(a_batch, case) == outcome_of(live, case)
