"""Cases recorded from Kafka Streams, as a batch, as batch after batch and as a seed with a live program behind it.

Each case runs in one of the three ways, compared with the live engine over the same records. That the live engine
gives what Kafka Streams gives is what ``tests/oracle`` is for. ``python -m batch.test_oracle_cases``, in ``tests``,
runs every case in every way.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from penstock import Topology
from penstock.errors import PenstockError
from penstock.testing.oracle.build import Build
from penstock.testing.oracle.driver import settings_of
from support.batches import as_batch, batch_after_batch, live, log_of, seeded
from support.flows import Row

FILES = sorted((Path(__file__).parents[1] / "oracle").glob("*/*.json"))
CASES = [file for file in FILES if file.parent.name in ("cases", "kip655", "processors")]
CASES = [file for file in CASES if not re.search("wall-|throttled", file.stem)]  # the wall clock decides what they give

Way = Callable[..., tuple[Any, Any]]
"""Two outcomes that are to be equal, of a topology, its records and what chooses."""


def _a_batch(topology: Topology, rows: Sequence[Row], chosen: random.Random, **settings: Any) -> tuple[Any, Any]:
    return (
        outcome_of(as_batch, topology, log_of(topology, rows), 1, **settings),
        outcome_of(live, topology, log_of(topology, rows), **settings),
    )


def _batch_after_batch(topology: Topology, rows: Sequence[Row], chosen: random.Random, **settings: Any) -> Any:
    ends = sorted(chosen.sample(range(len(rows) + 1), min(3, len(rows))))
    parts = [rows[begin:end] for begin, end in zip([0, *ends], [*ends, len(rows)], strict=True)]
    return (
        outcome_of(batch_after_batch, topology, parts, chosen, **settings),
        outcome_of(live, topology, log_of(topology, []), parts, **settings),
    )


def _a_seed(topology: Topology, rows: Sequence[Row], chosen: random.Random, **settings: Any) -> tuple[Any, Any]:
    at = chosen.randint(0, len(rows))
    seed = partial(outcome_of, seeded, topology, rows[:at], rows[at:], chosen)
    return seed(True, **settings), seed(False, **settings)


WAYS: list[Way] = [_a_batch, _batch_after_batch, _a_seed]


def outcome_of(run: Callable[..., Any], *given: Any, **settings: Any) -> Any:
    """What comes out, or the kind of the error."""
    try:
        return run(*given, **settings)
    except PenstockError as error:
        return type(error)


def outcomes(file: Path, way: Way) -> tuple[Any, Any] | None:
    """What a case gives in a way, and what it is to give; None where it has no topology, or one that is refused."""
    case = json.loads(file.read_text())
    if "topology" not in case:
        return None
    try:
        topology = Build(case).topology()
    except PenstockError:
        return None
    rows = [(e["topic"], e["key"], e["value"], e["timestamp"]) for e in case["input"] if "topic" in e]
    if way is _batch_after_batch and "punctuation" in file.stem:
        return None  # each start schedules anew, and the live program starts once
    settings = {name: value for name, value in settings_of(case).items() if name != "application_id"}
    settings = {"statestore_cache_max_bytes": 0} | settings
    return way(topology, rows, random.Random(crc32(file.stem.encode())), **settings)


HALF = [(file, WAYS[number % 3]) for number, file in enumerate(CASES[::2])]


@pytest.mark.parametrize(
    ("file", "way"), [pytest.param(*one, id=f"{one[0].stem}-{one[1].__name__[1:]}") for one in HALF]
)
def test_a_recorded_case_gives_the_same_in_batches(file: Path, way: Way) -> None:
    both = outcomes(file, way)
    assert both is None or both[0] == both[1]


if __name__ == "__main__":
    compared = {(file.stem, way.__name__[1:]): outcomes(file, way) for file in CASES for way in WAYS}
    differ = [one for one, both in compared.items() if both is not None and both[0] != both[1]]
    print(f"{len(CASES)} cases in {len(WAYS)} ways; these differ: {differ or 'none'}")
    sys.exit(bool(differ))
