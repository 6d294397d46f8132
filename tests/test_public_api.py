"""The public names: what they are, that each says what it does, and that their examples are there."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import errors
from penstock.dsl.grouped import KGroupedStream, KGroupedTable
from penstock.dsl.kstream import KStream
from penstock.dsl.ktable import KTable
from penstock.dsl.windowed import SessionWindowedKStream, TimeWindowedKStream

PUBLIC = {name: getattr(penstock, name) for name in penstock.__all__ if not name.isupper()}
WINDOWED = (TimeWindowedKStream, SessionWindowedKStream)
STEPS = {kind.__name__: kind for kind in (KStream, KTable, KGroupedStream, KGroupedTable, *WINDOWED)}


def test_the_public_names_are_sorted_and_there():
    for package in (penstock, importlib.import_module("penstock.testing")):
        assert package.__all__ == sorted(package.__all__, key=lambda name: (not name.isupper(), name))
        assert all(hasattr(package, name) for name in package.__all__)


def test_nothing_else_that_is_public_lies_in_the_package():
    submodules = {module.name for module in pkgutil.iter_modules(penstock.__path__)}
    named = {name for name in vars(penstock) if not name.startswith("_")}
    assert named - submodules == set(penstock.__all__), "all of them have been asked for above"
    assert {*dir(penstock)} >= set(penstock.__all__)


def test_what_is_imported_on_first_use_is_what_editors_see():
    tree = ast.parse(Path(penstock.__file__).read_text())
    [for_types] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.name: one.module for one in ast.walk(for_types) if isinstance(one, ast.ImportFrom) for alias in one.names
    }
    assert seen == {name: f"penstock.{module}" for name, module in penstock._MODULES.items()}
    assert sorted(seen) == sorted(penstock.__all__)


def members(kind: type) -> dict[str, Any]:
    """The public methods and properties that a class defines itself."""
    kinds = property | classmethod | staticmethod
    return {
        name: value
        for name, value in vars(kind).items()
        if not name.startswith("_") and (callable(value) or isinstance(value, kinds))
    }


def everything() -> dict[str, Any]:
    """All public functions and classes, and the public methods of what users chain."""
    classes = STEPS | {name: kind for name, kind in PUBLIC.items() if inspect.isclass(kind)}
    methods = {f"{name}.{member}": value for name, kind in classes.items() for member, value in members(kind).items()}
    return PUBLIC | STEPS | methods


@pytest.mark.parametrize("name", sorted(everything()))
def test_each_public_thing_says_what_it_does(name: str):
    text = inspect.getdoc(everything()[name])
    assert text, f"{name} has no docstring"
    summary = text.split("\n\n")[0]
    assert summary[-1] in ".:", summary
    assert summary[0].isupper() or summary[0] == "`", summary


# --- errors --------------------------------------------------------------------------------------------------------


ERRORS = {name for name, kind in PUBLIC.items() if inspect.isclass(kind) and issubclass(kind, Exception)}
ROOTS = {"PenstockError": "Exception", "PenstockWarning": "UserWarning"}


def test_the_trees_of_errors_and_warnings_are_drawn_as_they_are():
    drawn: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    for line in inspect.getdoc(errors).splitlines()[2:]:
        stripped = line.lstrip("│├└─ ")
        depth, (name, *words) = len(line) - len(stripped), stripped.split() or [""]
        if not name or (depth == 0 and words):  # a sentence between the trees
            continue
        path = [(at, above) for at, above in path if at < depth]
        drawn[name] = path[-1][1] if path else ROOTS[name]
        path.append((depth, name))
    kinds = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind)}
    assert kinds.pop("TopologyException") is errors.TopologyError
    assert drawn == {name: kind.__bases__[0].__name__ for name, kind in kinds.items()}


def test_every_error_can_be_imported_from_the_package():
    assert {name for name, kind in vars(errors).items() if inspect.isclass(kind)} == ERRORS


def test_every_error_is_a_penstock_error_and_says_what_it_is():
    for name, kind in vars(errors).items():
        if inspect.isclass(kind):
            assert issubclass(kind, penstock.PenstockError | penstock.PenstockWarning), name
            assert inspect.getdoc(kind).partition("\n\n")[0].endswith("."), name
            assert str(kind("what came")) == "what came"
    assert issubclass(errors.ConfigError, ValueError)


# --- values --------------------------------------------------------------------------------------------------------


def test_a_record_is_a_tuple_whose_headers_may_be_left_out():
    record = penstock.Record("JFK", {"delay": 5}, 1000)
    assert record == ("JFK", {"delay": 5}, 1000, ())
    assert record._replace(headers=(("why", b"late"),)).headers == (("why", b"late"),)


def test_windowed_keys_are_equal_hash_and_sort_by_key_and_window():
    first, same, later, other = (
        penstock.Windowed(*parts) for parts in (("JFK", 0, 10), ("JFK", 0, 10), ("JFK", 10, 20), ("EWR", 20, 30))
    )
    assert (first == same, len({first, same, later, other})) == (True, 3)
    assert sorted([later, other, first]) == [other, first, later]
    assert repr(first) == "Windowed(key='JFK', start=0, end=10)"
