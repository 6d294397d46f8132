"""Whatever becomes of a file of a log or a checkpoint: an error that names it, or the right result, never another."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PenstockError
from support.world import World

pytestmark = pytest.mark.slow

SETTINGS = {"flush_commits": 1, "snapshot_commits": 3, "commit_max_bytes": 12}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An application that was stopped, with snapshots, delta files behind them, and a log of many entries."""
    world = World(tmp_path_factory.mktemp("base"), **SETTINGS)
    for turn in range(4):
        world.run(*(f"key-{n % 5}" for n in range(turn, turn + 12)))
    assert world.file("snapshots/0_0/*.snapshot", 0)
    world.log.wait()
    return world.folder


def feed(folder: Path) -> None:
    World(folder, **SETTINGS).produce(*(f"key-{n % 5}" for n in range(20)))


def failure(folder: Path) -> str | None:
    """Go on with more records; why that failed."""
    try:
        feed(folder)
        World(folder, **SETTINGS).run()
        found(folder)
    except PenstockError as error:
        return str(error)
    return None


def found(folder: Path) -> Any:
    world = World(folder, **SETTINGS)
    return world.output(), world.counts()


@pytest.fixture(scope="module")
def expected(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = shutil.copytree(base, tmp_path_factory.mktemp("expected") / "app")
    assert failure(folder) is None
    return found(folder)


def flip(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def truncate(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size or 1)])


def empty(path: Path, rng: random.Random) -> None:
    path.write_bytes(b"")


def delete(path: Path, rng: random.Random) -> None:
    path.unlink()


def garbage(path: Path, rng: random.Random) -> None:
    path.write_bytes(rng.randbytes(path.stat().st_size))


KINDS = {
    "topic.json": "log/*/topic.json",
    "entry": "log/*/commits/*",
    "segment": "log/*/data/*",
    "newest": "log/*/newest",
    "claim": "log/@applications/*",
    "application.json": "checkpoint/application.json",
    "manifest": "checkpoint/manifests/*",
    "start": "checkpoint/starts/*",
    "delta": "checkpoint/deltas/0_0/*",
    "snapshot": "checkpoint/snapshots/0_0/*",
}


@pytest.mark.parametrize("has_local_state", [True, False])
@pytest.mark.parametrize("damage", [flip, truncate, empty, delete, garbage])
@pytest.mark.parametrize("kind", KINDS)
def test_damage_to_a_file_is_named_or_changes_nothing_and_after_the_repair_all_is_well(
    kind: str,
    damage: Callable[[Path, random.Random], None],
    has_local_state: bool,
    base: Path,
    expected: Any,
    tmp_path: Path,
):
    folder = shutil.copytree(base, tmp_path / "app")
    if not has_local_state:
        shutil.rmtree(folder / "tasks")
    rng = random.Random(f"{kind} {damage.__name__} {has_local_state}")
    path = rng.choice(sorted(folder.glob(KINDS[kind])))
    backup = path.read_bytes()
    damage(path, rng)
    error = failure(folder)
    if error is None:
        assert found(folder) == expected
        return
    assert path.name in error
    path.write_bytes(backup)
    if World(folder, **SETTINGS).log.end_offsets("in") == [48]:  # nothing could be produced
        feed(folder)
    World(folder, **SETTINGS).run()
    assert found(folder) == expected
