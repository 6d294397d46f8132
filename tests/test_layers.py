"""Which folder may import which: who knows whom is said here once, and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock

SOURCE = Path(penstock.__file__).parent

FOUNDATIONS = (
    "arrays batch calls columns compiled connections durations errors faults handlers java_names locations masking "
    "messages metric_names metrics moving notebooks offset_reset plain_files record processor settings sizes "
    "temporary times timestamps topic_names untrusted"
)
"""Modules beside the folders that anybody may import; among themselves they are in the order of their imports."""

LAYERS = {
    "serdes": "",
    "syncing": "",
    "unnamed": "",
    "storage": "syncing unnamed",
    "object_storage": "storage",
    "log": "serdes storage unnamed",
    "plan": "serdes",
    "dsl": "plan serdes",
    "state/columns": "",
    "state": "state/columns storage",
    "state/kinds": "state state/columns",
    "state/records": "serdes state state/columns state/kinds",
    "ops/core": "plan serdes state state/columns state/kinds",
    "ops/stateless": "ops/core plan serdes state",
    "ops/tables": "ops/core plan serdes state state/columns state/kinds",
    "ops/suppress": "ops/core ops/tables plan serdes state state/columns state/kinds",
    "ops/aggregations": "ops/core ops/tables plan serdes state state/columns state/kinds",
    "ops/windows": "ops/aggregations ops/core ops/tables plan serdes state state/columns state/kinds",
    "ops/deduplicate": "ops/core ops/stateless plan serdes state state/columns state/kinds",
    "ops/joins": "ops/core ops/tables plan serdes state state/columns state/kinds",
    "ops/foreign_key": "ops/core ops/joins ops/tables plan serdes state state/columns state/kinds",
    "ops/processors": "ops/core ops/tables plan serdes state",
    "engine": "engine/lowering log losses ops plan progress serdes state storage syncing",
    "engine/lowering": "ops plan serdes state state/records",
    "engine/slots": "engine engine/lowering log plan state storage unnamed",
    "engine/spark": "engine engine/lowering engine/slots log losses plan progress serdes state storage",
    "engine/batch": "engine engine/lowering engine/spark log losses ops plan query serdes state state/kinds storage "
    "syncing",
    "query": "engine log plan serdes state storage",
    "watch": "engine log losses query serdes storage",
    "losses": "",
    "progress": "losses",
    "spark_python": "engine/spark state_frames",
    "dataframes": "engine/spark log serdes spark_python",
    "reading": "query serdes",
    "state_frames": "engine/spark query storage",
    "testing": "dsl engine engine/lowering engine/spark log ops plan query serdes state storage",
    "testing/chaos": "engine log plan query storage",
    "cli": "dsl engine engine/lowering engine/spark log losses plan progress query serdes spark_python state storage "
    "testing testing/chaos watch",
}
"""Each folder, and what it may import besides itself and the foundations. ``ops`` is every folder of ``ops``."""

DOORS = {
    ("storage.py", "object_storage"): "open_storage(), for URLs",
    ("plan/topology.py", "engine/spark"): "Topology.start(), for users",
    ("plan/topology.py", "engine/batch"): "Topology.run_batch(), for users",
    ("engine/spark/streams.py", "query"): "Streams.store(), for users",
    ("engine/spark/streams.py", "watch"): "how Streams shows itself in notebooks",
    ("engine/local.py", "query"): "the same without Spark",
}
"""Imports inside functions that go upwards: where users enter."""


def folder_of(module: tuple[str, ...]) -> str:
    """The layer of a module of Penstock, given without ``penstock``."""
    for length in (2, 1):
        if "/".join(module[:length]) in LAYERS:
            return "/".join(module[:length])
    return module[0]


def imports(file: Path) -> Iterator[tuple[int, tuple[str, ...], bool]]:
    """Of all that a file imports of Penstock to run: the line, the module, whether it is inside a function."""
    tree = ast.parse(file.read_text())
    inside = {n for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)}
    for_types = {
        n
        for test in ast.walk(tree)
        if isinstance(test, ast.If) and ast.unparse(test.test) == "TYPE_CHECKING"
        for n in ast.walk(test)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node not in for_types and (node.module or "").startswith("penstock"):
            module = tuple(str(node.module).split(".")[1:])
            for alias in node.names:
                is_module = (SOURCE.joinpath(*module, alias.name)).is_dir() or SOURCE.joinpath(
                    *module, f"{alias.name}.py"
                ).exists()
                full = (*module, alias.name) if is_module else module
                if full:
                    yield node.lineno, full, node in inside


def is_allowed(importer: str, imported: str) -> bool:
    assert importer in LAYERS, "the folder of this file is new: write down in LAYERS, above, what it may import"
    allowed = LAYERS[importer].split()
    return (
        imported == importer
        or imported in FOUNDATIONS.split()
        or imported in allowed
        or (imported.partition("/")[0] in allowed and imported.partition("/")[0] in ("ops", "state"))
    )


FILES = [file for file in SOURCE.rglob("*.py") if len(file.relative_to(SOURCE).parts) > 1]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_a_file_imports_only_what_its_folder_may(file: Path):
    name = file.relative_to(SOURCE)
    importer = folder_of(name.with_suffix("").parts)
    wrong = [
        f"{name}:{line}: {importer} may not import {'.'.join(module)}"
        for line, module, is_inside in imports(file)
        if not is_allowed(importer, folder_of(module)) and not (is_inside and (str(name), folder_of(module)) in DOORS)
    ]
    assert not wrong, "if one folder is to know the other, LAYERS, above, is where to say so"


def test_each_folder_is_a_package():
    folders = {file.parent for file in SOURCE.rglob("*.py")}
    missing = [str(folder.relative_to(SOURCE)) for folder in folders if not (folder / "__init__.py").exists()]
    assert not missing, "these folders lack an __init__.py, whose docstring says what they are"


def test_nobody_imports_in_a_circle():
    def reached(layer: str, seen: frozenset[str]) -> frozenset[str]:
        for other in LAYERS.get(layer, "").split():
            for one in LAYERS if other == "ops" else [other]:
                if (other != "ops" or one.startswith("ops/")) and one not in seen:
                    seen = reached(one, seen | {one})
        return seen

    assert [layer for layer in LAYERS if layer in reached(layer, frozenset())] == []
