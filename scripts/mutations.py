"""Checks that the tests of a requirement fail without it.

python scripts/mutations.py            makes each change of mutations.toml in a copy of src; runs the tests of its id
python scripts/mutations.py 914 94-03  only those whose ids begin like this

It ends with 1 if the tests of an id pass in spite of a change.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from proposals import ROOT, tests_by_id

LIST = ROOT / "scripts" / "mutations.toml"
SOURCE = ROOT / "src" / "penstock"


class Mutation(NamedTuple):
    """A change of one file that breaks some requirements, each of which has tests that must notice."""

    ids: tuple[str, ...]
    about: str
    file: str
    old: str
    new: str

    def changed(self, text: str) -> str:
        """Return the file with the change. Raise ``ValueError`` unless its place is there exactly once."""
        if (found := text.count(self.old)) != 1:
            raise ValueError(f"{self.about}: {self.file} has this {found} times, and not once: {self.old}")
        return text.replace(self.old, self.new)


def mutations(starts: tuple[str, ...] = ("",)) -> Iterator[Mutation]:
    """Yield the mutations of the ids that begin in one of these ways."""
    for one in tomllib.loads(LIST.read_text())["mutation"]:
        ids = tuple(id_ for id_ in (one["id"], *one.get("also", ())) if id_.startswith(starts))
        if ids:
            yield Mutation(ids, one["about"], one["file"], one["old"], one["new"])


def noticed(mutation: Mutation, id_: str, tests: list[str]) -> bool:
    """Return whether a test of an id fails with a mutation."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "penstock")
        shutil.copytree(SOURCE, copy)
        file = copy / mutation.file
        file.write_text(mutation.changed(file.read_text()))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "--kip", id_]
        ran = subprocess.run(
            [*command, *tests], cwd=ROOT, env={**os.environ, "PYTHONPATH": folder}, capture_output=True, text=True
        )
    if ran.returncode not in (0, 1):
        raise RuntimeError(f"the tests of {id_} did not run:\n{ran.stdout}{ran.stderr}")
    return ran.returncode == 1


def main() -> int:
    """Make the mutations and print which ones their tests noticed."""
    files, survivors = tests_by_id(), 0
    for mutation in mutations(tuple(sys.argv[1:]) or ("",)):
        for id_ in mutation.ids:
            is_noticed = noticed(mutation, id_, files[id_])
            survivors += not is_noticed
            print(f"{id_}: {'noticed' if is_noticed else 'NOT NOTICED'}: {mutation.about}", flush=True)
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
