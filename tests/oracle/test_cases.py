"""The cases recorded from Kafka Streams, through the test driver and through the engine under random cuts."""

from __future__ import annotations

import json
import pkgutil
import random
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from penstock import dsl
from penstock.testing.oracle import chunks, driver, halves
from penstock.testing.oracle.__main__ import run_case
from penstock.testing.oracle.build import missing_operators
from penstock.testing.oracle.decisions import Decisions

HERE = Path(__file__).parent
ORIGINAL = HERE.parents[2] / "shared" / "oracle"
COPIED = ("cases", "kip655")
FOLDERS = (*COPIED, "processors")
FILES = {path.stem: path for folder in FOLDERS for path in sorted((HERE / folder).glob("*.json"))}
DECISIONS = Decisions.beside(HERE / "cases")
LONG = 30
"""From this many records on one seed cuts a case in more places than all seeds cut a short one."""

_TASK_IDS = "prints the task's id, which has another number in the changed program"
_COUNTS_AGAIN = "a global table is read anew where its number moves, and counts what it leaves out again"
SHOW_A_CHANGE = {
    "processor-place-of-records": _TASK_IDS,
    "processor-punctuation-after-late-records": _TASK_IDS,
    "nulls-stream-global-join": _COUNTS_AGAIN,
    "nulls-stream-global-left-join": _COUNTS_AGAIN,
    "processor-punctuation-scheduled-while-processing": "what is scheduled while records are processed is not there "
    "after a restart, of the same program either (decision 0030)",
}
"""The cases whose outcome tells that a harmless change took place, and why."""


def load(name: str) -> Any:
    return json.loads(FILES[name].read_text())


@cache
def missing_in(name: str) -> set[str]:
    return set(missing_operators(load(name)))


def runnable(*first: Any, slow: bool = False) -> Any:
    """A case, after other parameters; it is skipped if it names an operator that does not exist yet."""
    missing = missing_in(first[0])
    skip = pytest.mark.skip(reason=f"do not exist yet: {', '.join(sorted(missing))}")
    return pytest.param(*first, marks=[*([skip] if missing else []), *([pytest.mark.slow] if slow else [])])


def cuts() -> list[Any]:
    """Cases and the seeds by which they are cut, short ones with two; each sixth of these is quick."""
    params = []
    for number, name in enumerate(FILES):
        is_long = len(load(name)["input"]) > LONG
        params += [
            runnable(name, seed, slow=is_long or seed > 1 or number % 6 > 0) for seed in range(1, 2 if is_long else 3)
        ]
    return params


def test_no_case_is_skipped_for_something_that_the_dsl_has() -> None:
    names = [module.name for module in pkgutil.iter_modules(dsl.__path__, "penstock.dsl.")]
    classes = [item for name in names for item in vars(import_module(name)).values() if isinstance(item, type)]
    existing = {cls.__name__ for cls in classes} | {method for cls in classes for method in vars(cls)}
    assert {"group_by_key", "TimeWindows"} <= existing
    assert set().union(*map(missing_in, FILES)) & existing == set()


@pytest.mark.parametrize("name", [runnable(name) for name in FILES])
def test_a_case_in_the_test_driver(name: str) -> None:
    assert run_case(load(name), driver.run, DECISIONS) == ("passed", "")


@pytest.mark.parametrize(("name", "seed"), cuts())
def test_a_case_in_the_engine_under_random_cuts(name: str, seed: int) -> None:
    assert run_case(load(name), chunks.runner(seed), DECISIONS) == ("passed", "")


def changed() -> list[Any]:
    """A few short cases; ``python -m penstock.testing.oracle FOLDER --changed SEED`` runs all."""
    short = [name for name in FILES if name not in SHOW_A_CHANGE and len(load(name)["input"]) <= LONG]
    return [runnable(name) for name in random.Random(40).sample(short, 12)]


@pytest.mark.kip("KS-12")
@pytest.mark.parametrize("name", changed())
def test_a_case_whose_program_changes_in_the_middle_in_a_way_that_does_not_show(name: str) -> None:
    assert run_case(load(name), halves.runner(1), DECISIONS) == ("passed", "")


@pytest.mark.skipif(not ORIGINAL.is_dir(), reason="the oracle's own folder is not beside this repository")
@pytest.mark.parametrize("folder", COPIED)
def test_the_copy_of_the_cases_is_complete_and_equal(folder: str) -> None:
    original, ours = (
        {path.name: path.read_bytes() for path in (place / folder).glob("*.json")} for place in (ORIGINAL, HERE)
    )
    assert {name: ours.get(name) for name in original} == original


@pytest.mark.skipif(not ORIGINAL.is_dir(), reason="the oracle's own folder is not beside this repository")
def test_the_copy_of_the_differences_keeps_all_that_the_original_says() -> None:
    ours, original = (json.loads((folder / "differences.json").read_text()) for folder in (HERE, ORIGINAL))
    assert original["cases"].items() <= ours["cases"].items()
    said = {rule["when"]: rule["penstock"] for rule in ours["rules"]}
    assert {rule["when"]: rule["penstock"] for rule in original["rules"]}.items() <= said.items()
