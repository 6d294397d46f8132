"""The crash points that tests go through are those that the code has, all of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.faults import (
    ALL_POINTS,
    AT_LEAST_ONCE_POINTS,
    BESIDE_POINTS,
    CHILD_POINTS,
    CYCLE_POINTS,
    EVOLUTION_POINTS,
    KAFKA_POINTS,
    LOG_POINTS,
    POINTS,
    PUT_ASIDE_POINTS,
    RESCALE_POINTS,
    RESET_POINTS,
    SINK_POINTS,
    SLOT_POINTS,
    SOURCE_POINTS,
    START_POINTS,
    STORE_POINTS,
    crash_point,
)


def points_in_the_code() -> Iterator[str]:
    """What ``crash_point`` is called with, as patterns: a name that is put together matches all that it may be."""
    for file in Path(penstock.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(file.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "crash_point":
                [name] = call.args
                if isinstance(name, ast.JoinedStr):
                    parts = [re.escape(str(p.value)) if isinstance(p, ast.Constant) else "[a-z]+" for p in name.values]
                    yield "".join(parts)
                else:
                    assert isinstance(name, ast.Constant), f"{file}:{call.lineno}: a crash point has a plain name"
                    yield re.escape(str(name.value))


def test_every_crash_point_of_the_code_is_listed_and_every_listed_one_is_in_the_code():
    patterns = set(points_in_the_code())
    unlisted = {pattern for pattern in patterns if not any(re.fullmatch(pattern, point) for point in ALL_POINTS)}
    gone = {point for point in ALL_POINTS if not any(re.fullmatch(pattern, point) for pattern in patterns)}
    assert (unlisted, gone) == (set(), set())


def test_no_point_is_listed_twice():
    commits = POINTS + CYCLE_POINTS + BESIDE_POINTS + AT_LEAST_ONCE_POINTS + STORE_POINTS + SLOT_POINTS
    starts = START_POINTS + EVOLUTION_POINTS + RESCALE_POINTS + RESET_POINTS + PUT_ASIDE_POINTS
    every = commits + starts + LOG_POINTS + KAFKA_POINTS + CHILD_POINTS + SINK_POINTS + SOURCE_POINTS
    assert len(every) == len(ALL_POINTS)


def test_a_point_that_no_list_has_is_refused_wherever_it_is_come_to():
    with pytest.raises(ValueError, match="there is no crash point 'after-lunch'; add it"):
        crash_point("after-lunch")
