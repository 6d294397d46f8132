"""Aggregates by name give, record for record, what a function of (key, value, aggregate) gives.

Chunks of a thousand records go by columns, and the function is plain Python: numbers of all sizes, NaN, zeros with
signs, None, groups of one record and of hundreds.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from penstock import Count, First, Last, Max, Mean, Min, NamedAggregate, StreamsBuilder, Sum, TimeWindows
from penstock.columns import scanned
from penstock.columns.part import Part
from penstock.ops.core.named_columns import objects
from penstock.ops.core.named_fold import _behind
from penstock.plan.aggregates.together import Together
from penstock.testing.cuts import CutDriver
from support.flows import pipe_rows


class Reading(msgspec.Struct):
    whole: int | None
    share: float | None
    text: str | None


@pytest.fixture(autouse=True, params=["as columns", "as objects"])
def stored_aggregates_are_read(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanned, "worth", 0)
    monkeypatch.setattr(scanned, "_HAS_NUMBA", request.param == "as columns")


@pytest.mark.parametrize("stored", [[1.5, None], ["d", None], [2**70, 3], [True, None], [4, None]])
def test_stored_values_stay_as_they_are_before_new_ones_of_another_kind(stored: list[Any]):
    for new in (Part(np.array([2, 7]), np.array([True, False])), Part(np.array([0.5, 2.0]))):
        found = _behind(Part(objects(stored)), new).listed()
        assert [(type(one), one) for one in found] == [(type(one), one) for one in [*stored, *new.listed()]]


def number(total: Any, value: Any) -> Any:
    return total if value is None else value if total is None else total + value


def least(chosen: Any, value: Any) -> Any:
    if value is None or chosen is None:
        return chosen if value is None else value
    return value if math.isnan(chosen) or value < chosen else chosen


def most(chosen: Any, value: Any) -> Any:
    if value is None or chosen is None:
        return chosen if value is None else value
    return value if not math.isnan(chosen) and (math.isnan(value) or value > chosen) else chosen


AS_FUNCTIONS: dict[str, tuple[NamedAggregate, str, Callable[[Any, Any], Any]]] = {
    "n": (Count("share"), "share", lambda n, value: (n or 0) + (value is not None)),
    "whole": (Sum("whole"), "whole", number),
    "share": (Sum("share"), "share", number),
    "least": (Min("whole"), "whole", least),
    "most": (Max("whole"), "whole", most),
    "smallest": (Min("share"), "share", least),
    "largest": (Max("share"), "share", most),
    "first": (First("text"), "text", lambda seen, value: seen),
    "last": (Last("share"), "share", lambda seen, value: value),
    "text": (Min("text"), "text", lambda one, other: other if one is None or (other or "~") < one else one),
}


def expected(rows: list[Any], window: int | None) -> list[Any]:
    """What functions give, in the order of the records."""
    groups: dict[Any, dict[str, Any]] = {}
    results = []
    for key, value, time in rows:
        group = (key, None if window is None else time // window)
        before = groups.get(group)
        now = {}
        for name, (_, field, function) in AS_FUNCTIONS.items():
            read = getattr(value, field)
            if name == "first" and before is None:
                now[name] = read
            else:
                now[name] = function(None if before is None else before[name], read)
        groups[group] = now
        total, count = number(before and before["total"], value.share), now["n"]
        now["total"] = total
        results.append({**{name: now[name] for name in AS_FUNCTIONS}, "mean": total / count if count else None})
    return results


def rows_of(chance: random.Random, kind: str) -> list[Any]:
    """Records of a few keys with many records, and of many with one."""
    shares: dict[str, Callable[[], float | None]] = {
        "plain": lambda: chance.uniform(-1e6, 1e6),
        "none": lambda: chance.choice([None, chance.random()]),
        "odd": lambda: chance.choice([math.nan, math.inf, -math.inf, 1e308, -0.0, 0.0, None, chance.random()]),
    }
    wholes: dict[str, Callable[[], int | None]] = {
        "plain": lambda: chance.randint(-100, 100),
        "none": lambda: chance.choice([None, chance.randint(0, 10)]),
        "odd": lambda: chance.choice([None, 2**53 + chance.randint(0, 9), -(2**55), 0]),
    }
    names = ["one", "one", "two", *(f"rare {n}" for n in range(200))]
    return [
        (
            chance.choice(names[:3]) if chance.random() < 0.7 else chance.choice(names),
            Reading(wholes[kind](), shares[kind](), chance.choice(["a", "b", "ü", "aa"])),
            chance.randint(0, 40),
        )
        for _ in range(900)
    ]


def as_text(one: Any) -> str:
    """A result so that NaN is NaN, and -0.0 is not 0.0."""
    return repr(one)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["plain", "none", "odd"])
@pytest.mark.parametrize("window", [None, 10])
@pytest.mark.parametrize("by", ["fields", "functions"])
def test_by_name_gives_what_functions_give(kind: str, seed: int, window: int | None, by: str) -> None:
    rows = rows_of(random.Random(f"{kind}{seed}"), kind)
    builder = StreamsBuilder()
    groups: Any = builder.stream("in", key=str, value=Reading).group_by_key()
    if window is not None:
        groups = groups.windowed_by(TimeWindows.of_size_and_grace(window, 1000))
    named = {name: one for name, (one, _, _) in AS_FUNCTIONS.items()} | {"mean": Mean("share")}
    if by == "functions":
        for name, (one, field, _) in AS_FUNCTIONS.items():
            named[name] = type(one)(read_by(field))
    groups.aggregate(**named).to_stream().to("out")
    with CutDriver(builder.build(), statestore_cache_max_bytes=0, chunk_records=[1000, 300][seed % 2]) as driver:
        pipe_rows(driver, rows)
        results = [
            {name: getattr(record.value, name) for name in [*AS_FUNCTIONS, "mean"]}
            for record in driver.read_output("out")
        ]
    assert list(map(as_text, results)) == list(map(as_text, expected(rows, window)))


def read_by(field: str) -> Callable[[Reading], Any]:
    def whole(value: Reading) -> int | None:
        return value.whole

    def share(value: Reading) -> float | None:
        return value.share

    def text(value: Reading) -> str | None:
        return value.text

    return {"whole": whole, "share": share, "text": text}[field]


@pytest.mark.parametrize("kind", ["plain", "none"])
@pytest.mark.parametrize("window", [None, 10])
def test_typed_fields_call_no_python_for_a_record(
    kind: str, window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Together, "add", None)
    test_by_name_gives_what_functions_give(kind, 0, window, "fields")
