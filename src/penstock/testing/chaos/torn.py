"""Damages a killed program's files that no manifest names yet, as a power loss may do."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

from penstock.engine.shared.manifest import Manifests
from penstock.storage.base import number_in
from penstock.testing.chaos.outcome import checkpoint

_ATTEMPT = re.compile(r"[0-9a-f]{12}-(\d+)-[0-9a-f]{8}")


def tear(folder: Path, rng: random.Random) -> list[str]:
    """Cut, half empty or garble some files of attempts that did not become commits. Return their names."""
    torn = []
    for path in sorted(unfinished(folder)):
        if rng.random() < 0.7:
            rng.choice([_cut, _empty_half, _garble])(path, rng)
            torn.append(str(path.relative_to(folder)))
    return torn


def unfinished(folder: Path) -> Iterator[Path]:
    """Yield the files of attempts after the newest manifest, and files of unfinished snapshots."""
    storage = checkpoint(folder)
    newest = max(Manifests(storage).numbers(), default=-1)
    for name in [*storage.list("deltas"), *storage.list("exchange")]:
        if _commit(name) > newest:
            yield storage.root / name
    for path in (folder / "log").glob("*/data/*"):
        if _commit(path.name) > newest:
            yield path
    for task in (storage.root / "snapshots").glob("*"):
        finished = max((number_in(path.name) or 0 for path in task.glob("*.snapshot")), default=-1)
        yield from (path for path in task.iterdir() if (number_in(path.name) or -1) > finished)


def _commit(name: str) -> int:
    """Return the commit of a file's attempt, by its name; -1 for other files."""
    found = _ATTEMPT.search(name.rpartition("/")[2])
    return int(found[1]) if found else -1


def _cut(path: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randint(0, len(data))])


def _empty_half(path: Path, rng: random.Random) -> None:
    """Like a file system that had extended a file and not yet written it."""
    data = path.read_bytes()
    at = rng.randint(0, len(data))
    path.write_bytes(data[:at] + bytes(len(data) - at))


def _garble(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for at in rng.sample(range(len(data)), min(8, len(data))):
        data[at] ^= rng.randint(1, 255)
    path.write_bytes(data)
