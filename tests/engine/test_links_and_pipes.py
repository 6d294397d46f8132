"""Links, pipes and folders in the places of an application's files: nothing outside is written, and nobody waits."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import Materialized, StreamsBuilder, Topology
from penstock.engine.operate.lock import ApplicationLock, SlotLock
from penstock.errors import AlreadyRunningError, CorruptDataError, PenstockError
from penstock.files.plain_files import check_appendable
from penstock.state.checkpoint_file import OffsetCheckpoint
from penstock.state.folder_lock import FolderLock
from penstock.state.interface import TopicPartition
from support.no_files import LINKS, SPECIAL, Make, device, link, link_to_nothing, pipe, socket
from support.own_stores import OldStore
from support.world import World

pytestmark = pytest.mark.usefixtures("never_waits")

PRECIOUS = b"a file of mine\n" * 20
SETTINGS = {"flush_commits": 1, "snapshot_commits": 3}


class Supplier:
    name = "counts"

    def get(self) -> OldStore:
        return OldStore(self.name)


def topology() -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("in", value=str)
    words.group_by(lambda key, value: key, key=str).count("others").to_stream().to("other")
    words.group_by_key().count(materialized=Materialized.as_(Supplier())).to_stream().to("out")
    return builder.build()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    world = World(tmp_path_factory.mktemp("base") / "app", topology(), **SETTINGS)
    for turn in range(6):
        world.run(*(f"key-{n % 5}" for n in range(turn, turn + 12)))
    world.log.wait()
    return world.folder


def outcome(world: World) -> Any:
    return world.output(), world.output("other"), world.counts()


@pytest.fixture(scope="module")
def expected(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    world = World(shutil.copytree(base, tmp_path_factory.mktemp("expected") / "app"), topology(), **SETTINGS)
    world.run("key-1", "key-9")
    return outcome(world)


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    path = tmp_path / "precious"
    path.write_bytes(PRECIOUS)
    return path


def failure(world: World) -> str:
    """Why the program does not go on; empty when it does."""
    try:
        world.run("key-1", "key-9")
        outcome(world)
    except PenstockError as error:
        return str(error)
    return ""


def kinds(folder: Path) -> list[Path]:
    """The newest file of each kind, but for those of the user's store."""
    files = {
        re.sub(r"[0-9a-f]{6,}|\d+", "#", str(path.relative_to(folder))): path for path in sorted(folder.rglob("*"))
    }
    return [path for path in files.values() if path.is_file() and path.name != "counts.json"]


@pytest.mark.slow
@pytest.mark.parametrize("made", [*SPECIAL, *LINKS])
def test_in_the_place_of_any_file_they_are_an_error_that_names_it_or_the_result_is_right(
    base: Path, expected: Any, tmp_path: Path, precious: Path, made: Make
):
    harmless = set()
    for number, sample in enumerate(kinds(base)):
        copy = shutil.copytree(base, tmp_path / f"app-{number}")
        path = copy / sample.relative_to(base)
        path.unlink()
        made(path, precious)
        world = World(copy, topology(), **SETTINGS)
        signal.alarm(30)
        said = failure(world)
        if said:
            assert sample.name in said or sample.parent.name in said, (path, said)
            assert "unexpected error" not in said, (path, said)
            assert re.search("(?i)restore|remove|bring", said), (path, said)
        else:
            assert outcome(world) == expected, path
            harmless.add(str(sample.relative_to(base)).split("/")[0])
        assert precious.read_bytes() == PRECIOUS, path
        assert not precious.with_name("made").exists(), path
        shutil.rmtree(copy)
    assert "tasks" in harmless  # a database is a copy, and made anew


@pytest.mark.parametrize("made", [*SPECIAL, link, link_to_nothing])
def test_locks_and_spark_log_are_refused_where_they_are_no_files(tmp_path: Path, precious: Path, made: Make):
    places: dict[Path, Callable[[], object]] = {
        tmp_path / "app" / "lock": lambda: ApplicationLock(tmp_path / "app", "app"),
        tmp_path / "slots" / "3": lambda: SlotLock(tmp_path / "slots", 3, "run"),
        tmp_path / "tasks" / "0_0.lock": lambda: FolderLock(tmp_path / "tasks" / "0_0"),
        tmp_path / "spark.log": lambda: check_appendable(tmp_path / "spark.log"),
    }
    for path, use in places.items():
        path.parent.mkdir(exist_ok=True)
        made(path, precious)
        with pytest.raises(CorruptDataError, match=f"{path} is .*, and a file belongs there.*Remove it"):
            use()
    assert precious.read_bytes() == PRECIOUS
    assert not precious.with_name("made").exists()


def test_locks_and_spark_log_with_another_name_are_left_as_they_are_there(tmp_path: Path, precious: Path):
    (tmp_path / "lock").hardlink_to(precious)
    lock = ApplicationLock(tmp_path, "app")
    with pytest.raises(AlreadyRunningError):
        ApplicationLock(tmp_path, "app")
    lock.release()
    (tmp_path / "3").hardlink_to(precious)
    SlotLock(tmp_path, 3, "run").release()
    (tmp_path / "spark.log").hardlink_to(precious)
    check_appendable(tmp_path / "spark.log")
    (tmp_path / "spark.log").write_text("by Spark")
    assert precious.read_bytes() == PRECIOUS


@pytest.mark.parametrize(("made", "kind"), SPECIAL.items())
def test_offsets_of_users_stores_that_are_no_file_are_an_error(tmp_path: Path, precious: Path, made: Make, kind: str):
    made(tmp_path / ".checkpoint", precious)
    with pytest.raises(CorruptDataError, match=rf"\.checkpoint is {kind}"):
        OffsetCheckpoint(tmp_path).get(TopicPartition("app-counts-changelog", 0))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tasks/0_0", "tasks/0_0.snapshot", "tasks/0_0.restoring", "tasks/1_0.stores"])
@pytest.mark.parametrize("made", [pipe, socket, device, link_to_nothing])
def test_in_the_place_of_a_folder_of_the_state_they_are_an_error_or_are_made_good(
    base: Path, expected: Any, tmp_path: Path, precious: Path, name: str, made: Make
):
    world = World(shutil.copytree(base, tmp_path / "app"), topology(), **SETTINGS)
    path = world.folder / name
    shutil.rmtree(path, ignore_errors=True)
    made(path, precious)
    said = failure(world)
    if said:
        assert str(path) in said
        assert re.search("[Rr]emove (it|what is there)", said)
        path.unlink()
        world.run()
    assert outcome(world) == expected
