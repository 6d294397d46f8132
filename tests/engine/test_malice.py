"""Who may write into a checkpoint does not own the machine of those who read it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc
import pytest

from penstock.errors import CorruptDataError
from penstock.storage.base import checksum, seal, unseal
from support.world import World


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a file, with a checksum that fits."""
    content = unseal(path.read_bytes(), dict[str, Any], str(path))
    change(content)
    path.write_bytes(seal(content))


@pytest.fixture
def world(tmp_path: Path) -> World:
    """An application with a snapshot and delta files, on a machine that has no state of it."""
    world = World(tmp_path / "app", snapshot_commits=2)
    for _ in range(3):
        world.produce("a", "b")
        application = world.start()
        for _ in range(2):
            application.run_until()
            world.produce("a")
        application.close()
    world.lose_local_state()
    (tmp_path / "precious").write_text("precious")
    return world


def untouched(world: World) -> bool:
    return (world.folder.parent / "precious").read_text() == "precious"


@pytest.mark.parametrize("name", ["../../../precious", "/precious", "..", "x/../../../../precious", ""])
def test_a_snapshot_that_names_a_file_elsewhere_writes_none_and_is_gone_back_from(
    world: World, name: str, caplog: pytest.LogCaptureFixture
):
    index = world.file("snapshots/0_0/*.snapshot", -1)

    def point_outside(content: dict[str, Any]) -> None:
        content["files"][name] = next(iter(content["files"].values()))

    rewritten(index, point_outside)
    world.run("a")
    assert re.search(f"{index.name} is damaged: .*is not the name of a file in this folder", caplog.text)
    assert untouched(world)


@pytest.mark.parametrize("name", ["../../precious", "/precious"])
def test_a_manifest_that_names_a_delta_file_elsewhere_is_damaged(world: World, name: str):
    manifest = world.file("manifests/*.json", -1)

    def point_outside(content: dict[str, Any]) -> None:
        content["tasks"]["0_0"]["delta"] = [name, 1, 1]

    rewritten(manifest, point_outside)
    with pytest.raises(CorruptDataError, match=rf"{manifest.name} is damaged: .*leads out of its folder"):
        world.run("a")
    assert untouched(world)


@pytest.mark.parametrize("task", ["../../..", "0_0/../../..", "0", "0_0_0", " 0_0"])
def test_a_task_whose_name_leads_elsewhere_is_none(world: World, task: str):
    manifest = world.file("manifests/*.json", -1)

    def rename(content: dict[str, Any]) -> None:
        content["tasks"][task] = content["tasks"].pop("0_0")

    rewritten(manifest, rename)
    with pytest.raises(CorruptDataError, match=rf"{manifest.name} is damaged: .*is not the name of a task"):
        world.run("a")
    assert untouched(world)


def test_manifests_that_lead_in_a_cycle_are_damaged(world: World):
    manifest = world.file("manifests/*.json", -1)

    def go_round(content: dict[str, Any]) -> None:
        content["tasks"]["0_0"]["previous"] = content["tasks"]["0_0"]["changed"]

    rewritten(manifest, go_round)
    with pytest.raises(CorruptDataError, match=rf"{manifest.name} is damaged: .*cannot be the one before"):
        world.run("a")


def test_a_manifest_under_the_name_of_another_is_told(world: World):
    older, newest = world.file("manifests/*.json", -2), world.file("manifests/*.json", -1)
    shutil.copy(older, newest)
    with pytest.raises(CorruptDataError, match=rf"{newest.name} is that of commit {int(older.stem)}"):
        world.run("a")


def test_a_delta_file_whose_offsets_lead_out_of_it_is_an_error_and_not_the_end_of_the_process(tmp_path: Path):
    world = World(tmp_path / "app", snapshot_commits=100)
    world.run("a", "b", crash=True)
    world.run("a", crash=True)
    world.lose_local_state()
    delta = world.file("deltas/0_0/*.arrow", 0)
    with ipc.open_file(delta) as reader:
        batch, metadata = reader.get_batch_with_custom_metadata(0)
    offsets = pa.py_buffer(bytes(pa.array([0, 1 << 30, 2], pa.int32()).buffers()[1])[:12])
    keys = pa.Array.from_buffers(pa.binary(), 2, [None, offsets, pa.py_buffer(b"ab")])
    columns = [keys, *batch.columns[1:]]
    with pa.OSFile(str(delta), "wb") as file, ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(pa.record_batch(columns, schema=batch.schema), custom_metadata=metadata)
    data = delta.read_bytes()

    def vouch(content: dict[str, Any]) -> None:
        entry = content["tasks"].get("0_0", {})
        if entry.get("delta", [""])[0].endswith(delta.name):
            entry["delta"] = [f"deltas/0_0/{delta.name}", len(data), checksum(data)]

    for manifest in (world.storage.root / "manifests").glob("*.json"):
        rewritten(manifest, vouch)
    with pytest.raises(CorruptDataError, match=rf"{delta.name} does not hold what it should: .*Offset invariant"):
        world.run("a")
