"""Which folder may import which: who knows whom is said here once, and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import penstock

SOURCE = Path(penstock.__file__).parent

FOUNDATIONS = (
    "arrays columns errors faults figures files handlers messages notebooks processor processor_wrapper record "
    "setting_files settings usage values"
)
"""Folders and modules that anybody may import; among themselves they are in the order of their imports."""


LAYERS = {
    "usage": "",
    "values": "",
    "files": "",
    "figures": "",
    "serdes": "",
    "columns": "serdes",
    "storage": "",
    "log": "serdes storage",
    "plan": "serdes",
    "sinks": "log serdes storage",
    "sources": "log query serdes sinks storage",
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
    "engine/lowering": "ops plan serdes state state/records",
    "engine/shared": "log ops plan serdes state storage",
    "engine/timing": "engine/shared log ops plan state",
    "engine/task": "engine/lowering engine/shared log ops plan serdes state storage",
    "engine/evolution": "engine/shared log plan serdes state storage",
    "engine/commit": "engine/evolution engine/shared engine/timing log plan serdes state storage",
    "engine/operate": "engine/commit engine/shared log plan state storage",
    "engine/rescaling": "engine/commit engine/evolution engine/shared log plan serdes state storage",
    "engine/shipping": "plan serdes",
    "engine/slots": "engine/commit engine/operate engine/shared engine/shipping engine/task log plan state storage",
    "engine/running": "engine/commit engine/evolution engine/lowering engine/operate engine/shared engine/shipping "
    "engine/slots engine/task log plan state storage",
    "engine": "engine/commit engine/evolution engine/operate engine/shared engine/task log plan state storage",
    "engine/spark": "engine/commit engine/running engine/shared engine/shipping engine/slots log plan serdes storage",
    "engine/batch": "engine engine/commit engine/operate engine/running engine/shared engine/shipping engine/sources "
    "engine/spark "
    "engine/task log ops plan query serdes state state/kinds frames storage",
    "engine/children": "engine/batch engine/running engine/shared engine/shipping engine/spark log plan serdes storage",
    "engine/sources": "engine/running engine/shared log plan serdes sources storage",
    "engine/sinks": "engine/running engine/shared log plan serdes sinks storage",
    "engine/micro_batches": "engine/commit engine/operate engine/running engine/shared engine/shipping engine/slots "
    "engine/spark engine/task plan state storage",
    "query": "engine/commit engine/shared engine/task log plan serdes state storage",
    "watch": "engine/shared log query serdes storage",
    "reading": "query serdes",
    "frames": "engine/spark log query serdes storage",
    "testing": "dsl engine engine/lowering engine/running engine/shared engine/spark engine/task engine/timing log ops "
    "plan query serdes state storage",
    "testing/chaos": "engine/commit engine/shared engine/spark log plan query storage",
    "cli": "dsl engine engine/batch engine/commit engine/operate engine/rescaling engine/running engine/shared "
    "engine/spark log plan query serdes frames state storage testing testing/chaos watch",
}
"""Each folder, and what it may import besides itself and the foundations. ``ops`` is every folder of ``ops``."""

DOORS = {
    ("plan/topology.py", "engine/running"): "Topology.start(), for users",
    ("engine/running/start.py", "engine/spark"): "Spark, where it is the engine",
    ("plan/topology.py", "engine/batch"): "Topology.run_batch(), for users",
    ("dsl/dataframes.py", "engine/children"): "what the columns of a DataFrame are; KStream.to_dataframe(), for users",
    ("engine/running/start.py", "engine/micro_batches"): "Spark's micro-batches, where they are the engine",
    ("engine/running/start.py", "engine/children"): "the queries of a program, where it has some",
    ("engine/running/start.py", "engine/sinks"): "the sinks of a program, where it has some",
    ("engine/running/start.py", "engine/sources"): "the sources of a program, where it has some",
    ("engine/running/queryable.py", "query"): "Streams.store(), for users",
    ("engine/running/streams.py", "watch"): "how Streams shows itself in notebooks",
    ("engine/local.py", "query"): "the same without Spark",
}
"""Imports inside functions, and for types, that go upwards: where users enter."""

DOORS_FOR_TYPES = {
    ("plan/topology.py", "engine/operate"): "what Topology.start() takes",
    ("dsl/kstream.py", "log"): "what KStream.to_dataframe() takes",
    ("dsl/kstream.py", "sinks"): "what KStream.to_sink() takes",
    ("dsl/ktable.py", "sinks"): "what KTable.to_sink() takes",
    ("dsl/sources.py", "sources"): "what StreamsBuilder.source() takes",
    ("plan/topology.py", "log"): "what Topology.start() takes",
    ("plan/topology.py", "state"): "what Topology.start() takes",
    ("plan/topology.py", "engine/shared"): "what Topology.start() takes",
    ("plan/topology.py", "storage"): "what Topology.start() takes",
    ("watch/notebook.py", "engine/running"): "the Streams that is shown",
}
"""Imports for types alone that go upwards, and why."""

_STREAMS_AND_TABLES = (
    "awaited branched cogrouped deduplicate grouped kstream ktable stateless stream stream_joins table_joins windowed"
)
KNOWN_CYCLES = [{f"dsl.{name}" for name in _STREAMS_AND_TABLES.split()}]
"""Modules that import each other, for types: streams give tables, and tables give streams."""


def folder_of(module: tuple[str, ...]) -> str:
    """The layer of a module of Penstock, given without ``penstock``."""
    for length in (2, 1):
        if "/".join(module[:length]) in LAYERS:
            return "/".join(module[:length])
    return module[0]


class Import(NamedTuple):
    """A module of Penstock that a file imports."""

    line: int
    module: tuple[str, ...]
    is_inside: bool
    """Whether it is inside a function."""
    for_types: bool


def imports(file: Path) -> Iterator[Import]:
    """All that a file imports of Penstock."""
    tree = ast.parse(file.read_text())
    inside = {n for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)}
    tests = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    for_types = {n for test in tests for n in ast.walk(test)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("penstock"):
            module = tuple(str(node.module).split(".")[1:])
            for alias in node.names:
                is_module = SOURCE.joinpath(*module, alias.name).is_dir() or is_file((*module, alias.name))
                full = (*module, alias.name) if is_module else module
                if full:
                    yield Import(node.lineno, full, node in inside, node in for_types)


def is_file(module: tuple[str, ...]) -> bool:
    return SOURCE.joinpath(*module).with_suffix(".py").exists()


def is_door(file: str, one: Import) -> bool:
    """Whether an import is one of those that may go upwards."""
    way = (file, folder_of(one.module))
    return ((one.is_inside or one.for_types) and way in DOORS) or (one.for_types and way in DOORS_FOR_TYPES)


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
        f"{name}:{one.line}: {importer} may not import {'.'.join(one.module)}"
        for one in imports(file)
        if not is_allowed(importer, folder_of(one.module)) and not is_door(str(name), one)
    ]
    assert not wrong, "if one folder is to know the other, LAYERS, above, is where to say so"


def test_each_folder_is_a_package():
    folders = {file.parent for file in SOURCE.rglob("*.py")}
    missing = [str(folder.relative_to(SOURCE)) for folder in folders if not (folder / "__init__.py").exists()]
    assert not missing, "these folders lack an __init__.py, whose docstring says what they are"


def test_nobody_imports_in_a_cycle():
    def reached(layer: str, seen: frozenset[str]) -> frozenset[str]:
        for other in LAYERS.get(layer, "").split():
            for one in LAYERS if other == "ops" else [other]:
                if (other != "ops" or one.startswith("ops/")) and one not in seen:
                    seen = reached(one, seen | {one})
        return seen

    assert [layer for layer in LAYERS if layer in reached(layer, frozenset())] == []


def test_no_module_imports_itself_by_way_of_others_not_even_for_types():
    graph: dict[str, set[str]] = {}
    for file in SOURCE.rglob("*.py"):
        name = file.relative_to(SOURCE)
        module = ".".join(name.with_suffix("").parts).removesuffix(".__init__")
        graph[module] = {".".join(one.module) for one in imports(file) if not is_door(str(name), one)} - {module}
    assert cycles(graph) == KNOWN_CYCLES


def cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The modules that can be reached from each other.

    >>> cycles({"a": {"b"}, "b": {"a", "c"}, "c": set()}) == [{"a", "b"}]
    True
    """

    def below(module: str) -> set[str]:
        found, open_ = set[str](), [module]
        while open_:
            new = graph.get(open_.pop(), set()) - found
            found |= new
            open_ += new
        return found

    reached = {module: below(module) for module in graph}
    found: list[set[str]] = []
    for module in sorted(graph):
        together = {other for other in reached[module] if module in reached.get(other, ())}
        if together and together not in found:
            found.append(together)
    return found


ALIKE = {
    ("sinks", "_Writer"): "of each sink: writes its rows",
    ("sources", "_At"): "of each source: the place where it goes on",
    ("sources", "_Reader"): "of each source: reads its rows",
    ("state", "StateStore"): "the interface for users, and its class in columns",
}
"""Names that several modules of a folder give to the same idea."""


def test_no_class_name_stands_for_two_ideas_in_one_folder():
    modules: dict[tuple[str, str], set[str]] = {}
    for file in SOURCE.rglob("*.py"):
        name = file.relative_to(SOURCE)
        folder = folder_of(name.with_suffix("").parts)
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef):
                modules.setdefault((folder, node.name), set()).add(str(name))
    assert {key: places for key, places in modules.items() if len(places) > 1 and key not in ALIKE} == {}
    assert all(len(modules[key]) > 1 for key in ALIKE)
