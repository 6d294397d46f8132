"""What this code promises about its own sizes: short files, few names in a function, and no loop that may not end."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

import penstock

SOURCE = Path(penstock.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
MOST_NAMES = 25

LOOPS = {
    "cli/trial.py:_run_local": "until the copied input has been read",
    "engine/commit/coordinator.py:_fitting_attempt": "each attempt may take fewer records, down to one",
    "engine/micro_batches/jobs.py:run": "until the job has ended, or the server does not answer",
    "engine/slots/fork_server.py:run": "until the driver ends, or it is in a forked process",
    "engine/slots/forked.py:_listen": "until the fork server ends",
    "engine/task/host.py:_run": "chunks get smaller down to one record, and a database is made anew once",
    "engine/task/merged.py:__iter__": "until the channels have nothing more; each round gives records",
    "log/file/entries.py:load": "goes on only when entries were summed up meanwhile",
    "log/file/log.py:read": "goes on only when the topic has changed meanwhile",
    "log/file/topic_file.py:held": "goes on only when the topic was removed while this waited for it",
    "log/file/topic_file.py:_lock": "until a time, then it says who holds the topic",
    "log/file/upkeep.py:add": "goes on only when somebody else has added an entry",
    "engine/slots/door.py:_keep": "in a thread of its own, until the door is closed",
    "ops/core/awaited.py:_run": "awaits calls in a thread of its own, as long as the process lives",
    "log/file/upkeep.py:_run": "waits for topics to tidy, in a thread of its own",
    "log/kafka/client.py:_answer": "the request that it waits for has a time-out of its own",
    "log/kafka/client.py:until_answered": "until the cluster has been out of reach for as long as it may",
    "log/kafka/sink.py:_until_done": "the same",
    "log/kafka/sink.py:_send_one_by_one": "what waits is delivered, or fails when its time is over",
    "ops/windows/sliding/processing.py:process_records": "there is twice as much room each time, up to what fits",
    "state/database.py:_open": "until a time, then it says that the database is in use",
}
"""Every loop without a condition, and why it ends."""


def name_of(file: Path) -> str:
    return str(file.relative_to(SOURCE))


def functions(table: symtable.SymbolTable) -> Iterator[symtable.Function]:
    for inner in table.get_children():
        if isinstance(inner, symtable.Function) and inner.get_name() not in ("lambda", "genexpr"):
            yield inner
        else:
            yield from functions(inner)


def names_in(function: symtable.SymbolTable) -> set[str]:
    """Its own, and those of what is written inside it."""
    own = set(function.get_locals()) if isinstance(function, symtable.Function) else set()
    return own.union(*(names_in(inner) for inner in function.get_children())) - {".0"}


def endless_loops(tree: ast.AST, inside: str = "") -> Iterator[str]:
    """The functions that have a loop without a condition."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value:
            yield inside
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from endless_loops(node, node.name if is_function else inside)


def test_half_of_all_files_have_less_than_120_lines_and_none_more_than_500():
    lines = {name_of(file): file.read_text().count("\n") for file in FILES}
    assert median(lines.values()) < 120
    long = {name: count for name, count in lines.items() if count > 500}
    assert long == {}, "too long: move what has a subject of its own into a file of that name beside it"


@pytest.mark.parametrize("folder", sorted({file.parent for file in FILES}), ids=lambda folder: folder.name)
def test_functions_have_at_most_25_names_of_their_own(folder: Path):
    found = {}
    for file in folder.glob("*.py"):
        for function in functions(symtable.symtable(file.read_text(), str(file), "exec")):
            found[f"{name_of(file)}:{function.get_lineno()} {function.get_name()}"] = len(names_in(function))
    many = {name: count for name, count in found.items() if count > MOST_NAMES}
    assert many == {}, "too many names: give a part of the function a name, and make it one of its own"


def test_every_loop_without_a_condition_is_known_with_what_ends_it():
    found = [f"{name_of(file)}:{name}" for file in FILES for name in endless_loops(ast.parse(file.read_text()))]
    assert sorted(found) == sorted(LOOPS), "say in LOOPS, above, why a loop without a condition ends"
