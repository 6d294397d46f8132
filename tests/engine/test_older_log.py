"""A log, or an output, that was brought back from an older copy is refused, and every way out that is named works."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest
from click.testing import CliRunner

from penstock import StreamsBuilder
from penstock.cli.main import main
from penstock.engine.commit.older_log import check_outputs
from penstock.engine.operate.reset import Reset, Wanted
from penstock.engine.shared.manifest import Manifest, Manifests
from penstock.errors import CorruptDataError, OffsetOutOfRangeError, StoreError
from penstock.log.file.log import FileLog
from penstock.log.produce import produce
from penstock.storage.base import LocalStorage, seal
from support.world import World

pytestmark = pytest.mark.kip("KS-12")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """An application with two results in a copy of all of it, and five in all."""
    world = World(tmp_path / "now")
    world.run("a")
    world.run("a")
    world.log.wait()
    shutil.copytree(world.folder, tmp_path / "copy")
    for key in ("a", "b", "a"):
        world.run(key)
    world.log.wait()
    return world


def bring_back(world: World, name: str) -> None:
    shutil.rmtree(world.folder / name)
    shutil.copytree(world.folder.with_name("copy") / name, world.folder / name)
    for file in (world.folder / name).rglob("topic.json"):
        file.touch()  # else a program that runs may take it for the one before: its inode may be the same


def command(world: World, *arguments: str) -> None:
    ended = CliRunner().invoke(main, [*arguments, "--log-dir", str(world.log.root)])
    assert ended.exit_code == 0, ended.output


def refusal(world: World, commit: int) -> str:
    return re.escape(
        f"the log is older than the checkpoint: topic 'out' in {world.log.url} ends at 2 and has the results of "
        f"application 'app' up to commit 3, but commit {commit} wrote more into it."
    )


@pytest.mark.parametrize("name", ["log", "log/out"])
def test_an_older_log_and_an_older_output_are_refused_at_each_start_with_what_is_there_and_what_was_written(
    world: World, name: str
):
    bring_back(world, name)
    for _ in range(2):
        with pytest.raises(CorruptDataError, match=refusal(world, 7)):
            world.start()


def test_an_older_output_is_noticed_also_when_the_newest_commit_wrote_nothing_into_it(world: World):
    world.run()  # a start, and nothing to process
    bring_back(world, "log/out")
    with pytest.raises(CorruptDataError, match=refusal(world, 9)):
        world.start()


def test_an_older_output_whose_manifests_are_of_a_release_before_is_refused_when_its_last_commit_is_repeated(
    world: World,
):
    manifests = Manifests(world.storage)
    newest = manifests.newest()
    assert newest is not None
    for manifest in [manifests.read(number) for number in manifests.numbers()]:
        (world.storage.root / manifests.name(manifest.commit)).write_bytes(
            seal(msgspec.structs.replace(manifest, outputs={}))
        )
    bring_back(world, "log/out")
    for _ in range(2):
        with pytest.raises(CorruptDataError, match=refusal(world, newest.commit)):
            world.start()


def test_once_the_older_output_is_removed_it_is_made_anew_and_goes_on_with_what_comes(world: World):
    bring_back(world, "log/out")
    with pytest.raises(CorruptDataError, match=r"remove it \(penstock topics rm out\)"):
        world.start()
    command(world, "topics", "rm", "out", "--yes")
    world.run("a", "b")
    assert world.output() == [("a", 5), ("b", 2)]
    world.run("b")
    assert world.output() == [("a", 5), ("b", 2), ("b", 3)]
    assert world.counts() == [("a", 5), ("b", 3)]


def test_log_and_checkpoint_of_one_back_up_go_on_once_databases_that_are_newer_are_removed(world: World):
    bring_back(world, "log")
    with pytest.raises(CorruptDataError, match="Restore log and checkpoint from one back-up"):
        world.start()
    bring_back(world, "checkpoint")
    with pytest.raises(
        StoreError, match=re.escape(f"To continue from commit 3 instead, remove {world.folder / 'tasks'}")
    ):
        world.run("a", "b")
    world.lose_local_state()
    world.run()
    assert world.output() == [("a", 1), ("a", 2), ("a", 3), ("b", 1)]
    assert world.counts() == [("a", 3), ("b", 1)]


def test_an_older_source_is_told_when_the_older_output_is_out_of_the_way_and_a_reset_goes_on_with_what_is_there(
    world: World,
):
    bring_back(world, "log")
    command(world, "topics", "rm", "out", "--yes")
    with pytest.raises(OffsetOutOfRangeError, match="has processed the records before offset 5, but the topic ends at"):
        world.run()
    Reset(world.storage, world.log, Wanted()).execute()
    world.run("b")
    assert world.output() == [("a", 1), ("a", 2), ("b", 1)]
    assert world.counts() == [("a", 2), ("b", 1)]


def grown(world: World) -> None:
    """Bring the source back from the copy, where it has two records, and let others take the places of the rest."""
    bring_back(world, "log/in")
    world.log = FileLog(world.log.root)
    world.produce("x", "y", "z", "new")


def test_an_older_source_that_has_grown_past_what_was_read_is_refused_before_anything_is_skipped(world: World):
    grown(world)
    said = (
        f"topic 'in' in {world.log.url}, partition 0: application 'app' has processed the records up to offset 4, and "
        "another record is at this offset now. The topic was restored from a copy that was made before, and has grown "
        "since: the records that it got at offsets below 5 would be skipped."
    )
    for _ in range(2):
        with pytest.raises(CorruptDataError, match=re.escape(said)):
            world.run()
    assert world.counts() == [("a", 4), ("b", 1)]


def test_a_reset_processes_what_an_older_source_has_now(world: World):
    grown(world)
    Reset(world.storage, world.log, Wanted(empty_outputs=True)).execute()
    world.run()
    assert world.output() == [("a", 1), ("a", 2), ("x", 1), ("y", 1), ("z", 1), ("new", 1)]


def test_an_older_source_with_the_same_record_in_the_last_place_goes_on(world: World):
    """The producer has sent again what the copy lacked."""
    bring_back(world, "log/in")
    world.log = FileLog(world.log.root)
    world.run("a", "b", "a", "b")
    assert world.counts() == [("a", 4), ("b", 2)]


def test_a_source_whose_last_record_was_removed_after_it_was_read_goes_on(world: World):
    world.log.trim("in", {0: 5})
    world.run("b")
    assert world.counts() == [("a", 4), ("b", 2)]


def test_an_older_topic_of_a_global_table_that_has_grown_is_refused(tmp_path: Path):
    builder = StreamsBuilder()
    table = builder.global_table("names", value=str)
    builder.stream("in", value=str).join(table, lambda left, right: right, key_selector=lambda key, value: key).to(
        "out"
    )
    world = World(tmp_path / "now", builder.build())
    produce([("a", "anna", 0), ("b", "bert", 0)], "names", value=str, log=world.log)
    world.log.wait()
    shutil.copytree(world.folder, tmp_path / "copy")
    produce([("a", "alma", 1)], "names", value=str, log=world.log)
    world.run("a")
    assert world.output() == [("a", "alma")]
    world.log.wait()
    bring_back(world, "log/names")
    world.log = FileLog(world.log.root)
    produce([("b", "bea", 1), ("a", "ann", 2)], "names", value=str, log=world.log)
    with pytest.raises(CorruptDataError, match=r"'names' in .* has processed the records up to offset 2"):
        world.run("a")


@pytest.mark.parametrize("starts", [0, 1])
def test_a_reset_that_is_only_planned_refuses_an_older_output_too(tmp_path: Path, starts: int):
    """Whether the newest commit wrote all that is missing, or one before."""
    world = World(tmp_path / "now")
    world.run("a", "a")
    world.log.wait()
    shutil.copytree(world.folder, tmp_path / "copy")
    world.run("a")
    for _ in range(starts):
        world.run()
    world.log.wait()
    bring_back(world, "log/out")
    with pytest.raises(CorruptDataError, match="has the results of application 'app' up to commit 1, but commit 3"):
        Reset(world.storage, world.log, Wanted())
    Reset(world.storage, world.log, Wanted(empty_outputs=True))


def test_a_crash_before_the_last_commit_is_in_its_topics_is_no_older_output(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    def killed(*arguments: object) -> bool:
        raise KeyboardInterrupt

    world.produce("b")
    application = world.start()
    with monkeypatch.context() as patched:
        patched.setattr(FileLog, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            application.run_until()
    application.close()
    Reset(world.storage, world.log, Wanted())
    assert world.output() == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("a", 4)]
    world.run()
    assert world.output() == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("a", 4), ("b", 2)]


def test_a_reset_that_empties_outputs_goes_on_with_an_older_log_and_one_that_does_not_says_why_it_cannot(world: World):
    bring_back(world, "log")
    with pytest.raises(CorruptDataError, match=refusal(world, 7)):
        Reset(world.storage, world.log, Wanted()).execute()
    Reset(world.storage, world.log, Wanted(empty_outputs=True)).execute()
    world.run("b")
    assert world.output() == [("a", 1), ("a", 2), ("b", 1)]


def test_a_program_whose_output_is_brought_back_from_a_copy_while_it_runs_says_so(world: World):
    application = world.start()
    bring_back(world, "log/out")
    world.produce("b")
    with pytest.raises(CorruptDataError, match=refusal(world, 9)):
        application.run_until()
    application.close()


def test_a_topic_without_results_of_the_application_is_not_looked_up():
    log = Mock()
    check_outputs(log, Manifest(3, {}, topics={"out": "one"}), ["out"], "producer", "app")
    assert not log.mock_calls


def test_a_start_asks_what_an_output_lacks_when_it_looks_and_not_again_when_it_repeats_a_commit(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    asked, lacks = [], FileLog.lacks
    monkeypatch.setattr(FileLog, "lacks", lambda *arguments: asked.append(arguments[1]) or lacks(*arguments))
    world.start().close()
    assert asked == ["out"] * 2  # before it takes over, and as it does


def test_an_output_that_is_removed_and_made_anew_by_hand_goes_on(world: World):
    info = world.log.topic("out")
    world.log.delete_topic("out")
    world.log.create_topic(info)
    world.run("a")
    assert world.output() == [("a", 5)]
    assert LocalStorage(world.storage.root).list("manifests")
