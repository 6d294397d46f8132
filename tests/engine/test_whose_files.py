"""A file in the wrong place looks whole. Each says whose it is, and what does not fit is made anew, with a warning."""

from __future__ import annotations

import itertools
import logging
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from penstock import Materialized, StreamsBuilder, Suppressed, TimeWindows, Topology, consume
from penstock.engine.local import LocalApplication
from penstock.engine.shared.manifest import Manifest
from penstock.errors import CorruptDataError
from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog
from penstock.log.produce import produce
from penstock.query.application import open_stores
from penstock.query.rows import rows_of
from penstock.settings import Settings
from penstock.state.database import Database
from penstock.storage.base import LocalStorage, Storage, seal, unseal
from penstock.storage.opening import open_storage
from support.every_store import THIRDS, Program, every_kind_of_store
from support.own_stores import OldStore

pytestmark = [pytest.mark.kip("KS-12"), pytest.mark.slow]

SETTINGS = {"statestore_cache_max_bytes": 0, "flush_commits": 1, "snapshot_commits": 3}
TASKS = ["0_0", "0_1", "1_0", "1_1", "2_0", "2_1"]
PAIRS = [*itertools.combinations(TASKS, 2)]
STORES = ["counts", "windows", "by-value", "own"]


class Supplier:
    name = "own"

    def get(self) -> OldStore:
        return OldStore(self.name)


def topology() -> Topology:
    """Three sub-topologies: tables and held windows, a grouping by value, and a store of a user's own."""
    builder = StreamsBuilder()
    numbers = builder.stream("in", key=str, value=int)
    numbers.group_by_key().count("counts").to_stream().to("counted")
    windows = numbers.group_by_key().windowed_by(TimeWindows.of_size_and_grace("1 s", "1 s")).count("windows")
    windows.suppress(Suppressed.until_window_closes()).to_stream().to("final")
    by_value = numbers.group_by(lambda key, value: f"v{value % 7}", key=str)
    by_value.count("by-value").to_stream().to("by-value-counted")
    own = numbers.group_by(lambda key, value: f"o{value % 5}", key=str)
    own.count(materialized=Materialized.as_(Supplier())).to_stream().to("own-counted")
    return builder.build()


class Place:
    """An application's folders."""

    def __init__(self, folder: Path, storage: Storage | None = None):
        self.folder, self.topology, self.log = folder, topology(), FileLog(folder / "log")
        self.storage = storage or LocalStorage(folder / "checkpoint")
        self.settings = Settings.load(environment={}, folder=folder, **SETTINGS)
        if not self.log.exists("in"):
            self.log.create_topic(TopicInfo("in", 2, "str", "int"))

    def run(self, *turns: int) -> Place:
        for turn in turns:
            self.produce(turn)
            self.process()
        self.log.wait()
        return self

    def produce(self, turn: int) -> None:
        rows = [(f"k{(7 * i + turn) % 12}", (5 * i) % 9 + turn, 700 * turn + 20 * i) for i in range(30)]
        produce(rows, "in", key=str, value=int, log=self.log)

    def process(self) -> None:
        tasks = self.folder / "tasks"
        application = LocalApplication(self.topology, "app", self.settings, self.log, self.storage, tasks)
        try:
            application.run_until()
        finally:
            application.close()

    def outcome(self) -> dict[str, Any]:
        """All that is in the output topics and in the stores."""
        found: dict[str, Any] = {t: [tuple(r) for r in consume(t, log=self.log)] for t in self.topology.sink_topics}
        stores = open_stores(self.folder)
        for name in STORES:
            found[name] = sorted(map(repr, rows_of(stores.view(name))))
        stores.close()
        return found


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An application after some commits, with two snapshots, and no delta files from before the older one."""
    place = Place(tmp_path_factory.mktemp("whose")).run(*range(8))
    assert sorted(path.name for path in (place.folder / "tasks").glob("*_?")) == TASKS
    return place.folder


@cache
def undisturbed(stopped: Path, *turns: int) -> dict[str, Any]:
    folder = stopped.with_name("-".join(map(str, ("undisturbed", *turns))))
    return Place(shutil.copytree(stopped, folder)).run(*turns).outcome()


def swap(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def copy(one: Path, other: Path) -> None:
    shutil.rmtree(other)
    shutil.copytree(one, other)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# --- databases -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [swap, copy])
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_databases_that_changed_places_are_made_anew_and_results_are_those_of_an_undisturbed_run(
    stopped: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, how: Callable[[Path, Path], None], one, other
):
    place = Place(shutil.copytree(stopped, tmp_path / "app"))
    tasks = place.folder / "tasks"
    how(tasks / one, tasks / other)
    place.run(8)
    moved = [(one, other), (other, one)] if how is swap else [(other, one)]
    assert sorted(warnings(caplog)) == sorted(
        f"the state database {tasks / here} is that of task {whose} and not of task {here}; it is a copy, and "
        "rebuilt from the checkpoint. Nothing is lost"
        for here, whose in moved
    )
    caplog.clear()
    assert place.run(9).outcome() == undisturbed(stopped, 8, 9)
    assert warnings(caplog) == []


@pytest.mark.parametrize("how", [swap, copy])
def test_folders_of_users_stores_that_changed_places_are_made_anew(
    stopped: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, how: Callable[[Path, Path], None]
):
    place = Place(shutil.copytree(stopped, tmp_path / "app"))
    own = sorted((place.folder / "tasks").glob("*.stores"))
    assert len(own) == 2
    how(*own)
    place.run(8)
    moved = own if how is swap else own[1:]
    ids = {path: path.name.removesuffix(".stores") for path in own}
    assert sorted(warnings(caplog)) == [
        f"the folder {path} of users' stores is that of task {ids[own[1 - own.index(path)]]} and not of task "
        f"{ids[path]}; they are rebuilt from the checkpoint. Nothing is lost"
        for path in moved
    ]
    if how is swap:  # and back: what one of them says of the other's offsets is of the time before
        how(*own)
        caplog.clear()
    assert place.run(9).outcome() == undisturbed(stopped, 8, 9)
    assert len(warnings(caplog)) == 2 if how is swap else 1


def test_all_of_one_task_over_all_of_another_is_made_anew(
    stopped: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    place = Place(shutil.copytree(stopped, tmp_path / "app"))
    tasks = place.folder / "tasks"
    own, other = sorted(path.name.removesuffix(".stores") for path in tasks.glob("*.stores"))
    for suffix in ("", ".stores"):
        swap(tasks / f"{own}{suffix}", tasks / f"{other}{suffix}")
    assert place.run(8, 9).outcome() == undisturbed(stopped, 8, 9)
    assert len(warnings(caplog)) == 4


def test_a_database_of_another_checkpoint_is_made_anew_with_a_warning(
    stopped: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    place = Place(shutil.copytree(stopped, tmp_path / "app"))
    other = Place(tmp_path / "other").run(3, 2, 1)
    shutil.rmtree(place.folder / "tasks")
    shutil.copytree(other.folder / "tasks", place.folder / "tasks")
    assert place.run(8, 9).outcome() == undisturbed(stopped, 8, 9)
    assert len(warnings(caplog)) == len(TASKS)
    assert all("belongs to another checkpoint" in said for said in warnings(caplog))


def test_a_database_of_commits_that_others_have_replaced_is_made_anew(
    stopped: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """A whole application is brought back from a back-up; then one machine comes back with its own databases."""
    place = Place(shutil.copytree(stopped, tmp_path / "app"))
    lost = Place(shutil.copytree(stopped, tmp_path / "lost")).run(11, 12)
    place.run(8, 9)
    shutil.rmtree(place.folder / "tasks")
    shutil.copytree(lost.folder / "tasks", place.folder / "tasks")
    assert place.run(10).outcome() == undisturbed(stopped, 8, 9, 10)
    assert len(warnings(caplog)) == len(TASKS)
    assert all("that is not the one of this checkpoint, which was brought back" in said for said in warnings(caplog))


def test_a_database_that_does_not_say_whose_it_is_is_made_anew_once_without_a_warning(
    stopped: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    place = Place(shutil.copytree(stopped, tmp_path / "app"))
    for task in TASKS:
        database = Database(place.folder / "tasks" / task)
        known = database.meta()
        database.write({}, {name: known[name] for name in known if name not in ("task", "attempt")})
        database.close()
    caplog.set_level(logging.INFO)
    place.run(8)
    said = [record.getMessage() for record in caplog.records if "does not say whose it is" in record.getMessage()]
    assert len(said) == len(TASKS)
    caplog.clear()
    assert place.run(9).outcome() == undisturbed(stopped, 8, 9)
    assert [said for said in warnings(caplog) if "whose" in said] == []
    assert not [record for record in caplog.records if "does not say whose it is" in record.getMessage()]


# --- the checkpoint ------------------------------------------------------------------------------------------------


def in_folder(folder: Path) -> Storage:
    return LocalStorage(folder / "checkpoint")


def in_object_store(folder: Path) -> Storage:
    return open_storage((folder / "checkpoint").as_uri())


@pytest.mark.parametrize("opened", [in_folder, in_object_store])
@pytest.mark.parametrize(("one", "other"), PAIRS[::2])
def test_newest_snapshots_that_changed_places_are_passed_over(
    stopped: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, opened: Callable[[Path], Storage], one, other
):
    folder = shutil.copytree(stopped, tmp_path / "app")
    place = Place(folder, opened(folder))
    indexes = [sorted((folder / "checkpoint" / "snapshots" / task).glob("*.snapshot"))[-1] for task in (one, other)]
    swap(*indexes)
    shutil.rmtree(folder / "tasks")
    assert place.run(8, 9).outcome() == undisturbed(stopped, 8, 9)
    said = [one for one in warnings(caplog) if "restored from" in one]
    assert len(said) == 2
    assert all("is that of task" in one or "is that of commit" in one for one in said)


@pytest.mark.parametrize("folder_of", ["snapshots", "deltas"])
@pytest.mark.parametrize("opened", [in_folder, in_object_store])
def test_folders_of_the_checkpoint_that_changed_places_are_refused_by_name_when_they_are_needed(
    stopped: Path, tmp_path: Path, folder_of: str, opened: Callable[[Path], Storage]
):
    """The error names both files and the way out, which ends where an undisturbed run does."""
    folder = shutil.copytree(stopped, tmp_path / "app")
    place = Place(folder, opened(folder))
    folders = [folder / "checkpoint" / folder_of / task for task in ("0_0", "0_1")]
    swap(*folders)
    shutil.rmtree(folder / "tasks")
    shown = re.escape(f"{place.storage.shown}/{folder_of}")
    with pytest.raises(CorruptDataError) as refused:
        place.run(8)
    assert re.search(
        rf"{shown}/0_([01])/(\S+) .*; what was committed as this file is whole, in the place of "
        rf"{shown}/0_(?!\1)[01]/\2\. .* exchange the folders {shown}/0_\1 and {shown}/0_(?!\1)[01], or these two files",
        str(refused.value),
    )
    swap(*folders)
    shutil.rmtree(folder / "tasks", ignore_errors=True)
    assert place.run(9).outcome() == undisturbed(stopped, 8, 9)


def test_delta_files_that_changed_places_can_be_put_back_one_by_one_as_each_error_says(stopped: Path, tmp_path: Path):
    place = Place(shutil.copytree(stopped, tmp_path / "app"))
    deltas = place.folder / "checkpoint" / "deltas"
    swap(deltas / "0_0", deltas / "0_1")
    shutil.rmtree(place.folder / "tasks")
    place.produce(8)
    exchanged = []
    while found := misplaced(place):
        exchanged.append(found)
        swap(*found)
    assert len(exchanged) > 1
    assert place.run(9).outcome() == undisturbed(stopped, 8, 9)


def misplaced(place: Place) -> list[Path]:
    """The two files that an error names; none when all is processed."""
    try:
        place.process()
    except CorruptDataError as error:
        return [Path(name) for name in re.findall(r"(\S+) is torn: .* in the place of (\S+)\. ", str(error))[0]]
    return []


def test_what_tasks_begin_with_after_a_rescale_is_refused_in_another_tasks_place(tmp_path: Path):
    program = Program(tmp_path, every_kind_of_store(), 2)
    program.process(*THIRDS[0], *THIRDS[1])
    program.make_topics_anew(4)
    program.rescale(4)
    swap(*sorted((tmp_path / "checkpoint" / "bases").glob("*/0_*.snapshot"))[:2])
    with pytest.raises(CorruptDataError, match=r"0_[01]\.snapshot is that of task 0_[01] and not of task .*backup"):
        program.process(*THIRDS[2])


def test_a_snapshot_of_another_commit_under_a_name_is_refused(stopped: Path, tmp_path: Path):
    place = Place(shutil.copytree(stopped, tmp_path / "app"))
    for task in TASKS:
        older, newest = sorted((place.folder / "checkpoint" / "snapshots" / task).glob("*.snapshot"))[-2:]
        shutil.copy(older, newest)
    stores = open_stores(place.folder)
    assert sorted(map(repr, rows_of(stores.view("counts")))) != []  # from the older one and the files of later commits
    stores.close()
    shutil.rmtree(place.folder / "tasks")
    assert place.run(8, 9).outcome() == undisturbed(stopped, 8, 9)


def test_readers_of_a_store_pass_over_a_snapshot_that_changed_places(stopped: Path, tmp_path: Path):
    expected = Place(shutil.copytree(stopped, tmp_path / "whole")).outcome()
    place = Place(shutil.copytree(stopped, tmp_path / "app"))
    swap(*(sorted((place.folder / "checkpoint" / "snapshots" / t).glob("*.snapshot"))[-1] for t in ("0_0", "0_1")))
    assert place.outcome() == expected


def test_a_manifest_of_another_checkpoint_in_the_place_of_an_older_one_is_refused(stopped: Path, tmp_path: Path):
    place = Place(shutil.copytree(stopped, tmp_path / "app"))
    other = Place(tmp_path / "other").run(*reversed(range(8)))
    newest = unseal((place.folder / "checkpoint" / newest_manifest(place)).read_bytes(), Manifest, "")
    entry = newest.tasks["0_0"]
    assert entry.previous > entry.kept_since
    name = f"manifests/{entry.previous:016d}.json"
    shutil.copy(other.folder / "checkpoint" / name, place.folder / "checkpoint" / name)
    shutil.rmtree(place.folder / "tasks")
    with pytest.raises(CorruptDataError, match=rf"{name} belongs to another checkpoint .*backup"):
        place.run(8)


def test_a_start_of_another_checkpoint_under_a_name_is_refused(stopped: Path, tmp_path: Path):
    place = Place(shutil.copytree(stopped, tmp_path / "app"))
    newest = unseal((place.folder / "checkpoint" / newest_manifest(place)).read_bytes(), Manifest, "")
    path = place.folder / "checkpoint" / newest.start
    start = unseal(path.read_bytes(), dict[str, Any], "")
    path.write_bytes(seal(start | {"application": "0123456789ab"}))
    with pytest.raises(CorruptDataError, match=rf"{newest.start} belongs to another checkpoint"):
        place.run(8)


def newest_manifest(place: Place) -> str:
    return max(place.storage.list("manifests"))
