"""Several threads that decode into the same class of Struct for the first time."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import penstock

SOURCE = Path(penstock.__file__).parent

TWO_THREADS = """
from __future__ import annotations
import threading, time, msgspec
from penstock.values.decoding import from_json

begun, left = threading.Event(), threading.Semaphore(1)

def later():
    if left.acquire(blocking=False):  # the first thread is in the middle of what it learns of the class
        begun.set()
        time.sleep(0.3)
    return int

class Inner(msgspec.Struct):
    n: later()

class Outer(msgspec.Struct):
    one: Inner
    two: int

def read():
    return from_json(b'{"two": 2, "one": {"n": 1}}', Outer)

first = threading.Thread(target=read)
first.start()
begun.wait()
print(read())
first.join()
"""


def test_two_threads_decode_into_a_class_for_the_first_time_at_once():
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(SOURCE.parent), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", TWO_THREADS], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (0, "Outer(one=Inner(n=1), two=2)\n"), done.stderr


def test_nothing_else_decodes_into_a_type():
    """A decoder that is made elsewhere is not made under the lock."""
    found = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or path.name == "decoding.py":
                continue
            name = ast.unparse(node.func)
            is_typed = any(one.arg == "type" for one in node.keywords)
            if name.startswith("msgspec.") and (name.endswith(("Decoder", "convert")) or is_typed):
                found.append(f"{path.relative_to(SOURCE)}:{node.lineno}: {name}")
    assert found == []
