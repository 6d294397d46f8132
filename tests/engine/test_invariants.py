"""Manifests that must not come behind the one before: what is wrong is said, and nothing is committed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.engine.commit.invariants import COMMIT, PUT_ASIDE, RESCALE, RESET, TAKE_OVER, Step, refusal
from penstock.engine.evolution.evolution import Evolution
from penstock.engine.operate.reset import Reset, Wanted
from penstock.engine.rescaling.rescale import Rescale
from penstock.engine.shared.manifest import Manifest, TaskEntry
from penstock.engine.shared.runner import StageRunner
from penstock.engine.shared.work import StageWork, TaskDone
from penstock.errors import CommitError
from penstock.log.contract.writer import Segment
from penstock.storage.base import FileRef
from support.world import World

STEPS = {"commit": COMMIT, "take-over": TAKE_OVER, "rescale": RESCALE, "reset": RESET, "put aside": PUT_ASIDE}
ENTRIES = ("0_0", 30, 7, 5, 4), ("0_1", 12, 6, 3, -1)
"""Tasks after commit 7: up to where each has read its partition of "in", the last commit in which it took part, the
one before that, and that of its snapshot."""


def entry(offset: int, changed: int, previous: int, snapshot: int, delta: str = "", place: str = "in") -> TaskEntry:
    file = FileRef(delta, 1, 1) if delta else None
    given = {"delta": file, "attempt": f"app-{changed}-a", "previous": previous, "snapshot": snapshot}
    return TaskEntry({place: offset}, changed=changed, **given)


def manifest(commit: int, *rows: Any, before: Manifest | None = None, **more: Any) -> Manifest:
    """A manifest with tasks as rows, and all others as they were before."""
    given = {"application": "app", "topics": {"in": "i1", "out": "o1", "ids": "d1"}, "published": commit - 1, **more}
    return Manifest(commit, {**(before.tasks if before else {}), **{task: entry(*row) for task, *row in rows}}, **given)


BEFORE = manifest(7, *ENTRIES, sinks={"out": []})


def after(*rows: Any, **more: Any) -> Manifest:
    return manifest(more.pop("commit", 8), *rows, before=BEFORE, **more)


def refused(found: Manifest, step: Step = COMMIT, before: Manifest = BEFORE) -> str:
    """What was expected, and what came; empty where nothing is wrong."""
    error = refusal(before, found, "checkpoint/manifests/8.json", step)
    return "" if error is None else str(error).partition("expected ")[2].partition(". Nothing")[0]


def delta(task: str = "0_0", commit: int = 8, attempt: str = "app-8-a") -> str:
    return f"deltas/{task}/{commit:016d}-{attempt}.arrow"


GOOD = "0_0", 40, 8, 7, 4, delta()


def test_a_commit_goes_on_from_the_one_before():
    assert refused(after(GOOD, sinks={"out": []})) == ""
    assert refused(after()) == "", "also one in which no task took part"
    assert refused(after(("0_2", 5, 8, -1, -1))) == "", "also with the first record of a task"


def test_the_first_commit_of_all_is_number_0():
    nothing = Manifest(-1, {})
    assert refused(manifest(0), before=nothing) == ""
    assert refused(manifest(1), before=nothing) == "commit 0 behind commit -1, got commit 1"


def test_the_message_says_where_what_was_expected_what_came_and_the_way_out():
    error = refusal(BEFORE, after(commit=9), "checkpoint/manifests/9.json")
    assert str(error) == (
        "checkpoint/manifests/9.json is not created, because it would be wrong: expected commit 8 behind commit 7, got "
        "commit 9. Nothing was committed, and everything up to commit 7 is safe. Start again: what was not is "
        "processed once more. If that ends here as well, keep a copy of the checkpoint, and report this message as a "
        "fault of Penstock"
    )


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("commit", [6, 7, 9])
def test_no_number_is_left_out_and_none_comes_twice(step: Step, commit: int):
    assert refused(after(commit=commit), step) == f"commit 8 behind commit 7, got commit {commit}"


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_commit_of_another_checkpoint_is_refused(step: Step):
    assert refused(after(application="app2"), step) == "a commit of checkpoint 'app', got one of checkpoint 'app2'"


def test_a_checkpoint_whose_manifests_do_not_say_whose_they_are_goes_on():
    assert refused(after(), before=msgspec.structs.replace(BEFORE, application="")) == ""


# --- offsets ---------------------------------------------------------------------------------------------------------


def test_no_task_reads_again_what_it_has_read():
    found = after(("0_0", 29, 8, 7, 4))
    assert refused(found) == "task 0_0 to go on in 'in' at offset 30 or later, got offset 29"


def test_no_task_forgets_where_it_was():
    found = after(("0_0", 50, 8, 7, 4, "", "ids"))
    assert refused(found) == "task 0_0 to go on in 'in' at offset 30 or later, got offset 0"


def test_a_task_that_has_read_nothing_yet_may_be_told_to_begin_elsewhere():
    before = manifest(7, ("0_0", 30, -1, -1, -1))
    assert refused(manifest(8, ("0_0", 10, 8, -1, -1)), before=before) == ""


def test_a_global_table_is_not_read_again_either():
    before = manifest(7, ("0_0", 30, 7, 5, 4, "", "ids/2"))
    found = manifest(8, ("0_0", 10, 8, 7, 4, "", "ids/2"))
    assert refused(found, before=before) == "task 0_0 to go on in 'ids/2' at offset 30 or later, got offset 10"
    assert refused(found, TAKE_OVER, before) == "", "but by a start that makes its store anew"


def test_a_start_reads_nothing_again_whichever_task_has_the_topic_now():
    found = msgspec.structs.replace(after(), tasks={"1_0": entry(20, 8, -1, 8), "1_1": entry(12, 8, -1, 8)})
    assert refused(found, TAKE_OVER) == "partition 0 of topic 'in' to be read from offset 30 or later, got offset 20"
    found.tasks["1_0"] = entry(30, 8, -1, 8)
    assert refused(found, TAKE_OVER) == ""


def test_a_rescale_reads_nothing_again():
    found = msgspec.structs.replace(after(), tasks={f"0_{p}": entry(at, 8, -1, 8) for p, at in enumerate((30, 0, 0))})
    assert refused(found, RESCALE) == "partition 1 of topic 'in' to be read from offset 12 or later, got offset 0"


def test_a_reset_reads_again():
    assert refused(after(("0_0", 0, 8, -1, 8)), RESET) == ""


def test_a_topic_that_was_made_anew_begins_where_it_begins():
    found = after(("0_0", 0, 8, 7, 4), topics={**BEFORE.topics, "in": "i2"})
    assert [refused(found, step) for step in (COMMIT, TAKE_OVER, RESCALE)] == ["", "", ""]


# --- state -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", [6, 9])
def test_a_task_changes_with_the_commit_that_is_made(changed: int):
    found = after(("0_0", 40, changed, -1, 4))
    assert refused(found) == f"task 0_0 to have changed last with commit 7 or 8, got commit {changed}"


def test_the_second_manifest_of_at_least_once_adds_offsets_to_what_the_first_has_changed():
    first = after(("0_0", 30, 8, 7, 4, delta()))
    assert refused(first) == ""
    assert refused(manifest(9, ("0_0", 40, 8, 7, 4, delta()), before=first), before=first) == ""


def test_the_way_back_to_the_snapshot_leads_through_every_change_of_a_task():
    found = after(("0_0", 40, 8, 5, 4, delta()))
    assert refused(found) == "commit 7 to be the last one before for task 0_0, got commit 5"
    assert refused(after(("0_0", 40, 8, -1, -1))) == "", "a task without state has no way back"


def test_a_snapshot_is_not_newer_than_the_last_change():
    found = after(("0_0", 40, 8, 7, 9))
    assert refused(found) == "a snapshot of task 0_0 of commit 8 or before, got one of commit 9"


def test_an_older_snapshot_is_older():
    found = after(GOOD)
    found.tasks["0_0"] = msgspec.structs.replace(found.tasks["0_0"], older=6)
    assert refused(found) == "an older snapshot of task 0_0 than that of commit 4, got one of commit 6"


@pytest.mark.parametrize(
    "name",
    [delta("0_1"), delta(commit=7), delta(attempt="app-8-b")],
    ids=["another task", "another commit", "another attempt"],
)
def test_what_a_commit_changes_is_in_a_file_of_its_own_task_commit_and_attempt(name: str):
    assert refused(after(("0_0", 40, 8, 7, 4, name))) == f"task 0_0 to have its changes in {delta()}, got {name}"


def test_tasks_that_took_no_part_are_not_looked_at():
    strange = msgspec.structs.replace(BEFORE, tasks={"0_0": entry(30, 7, 5, 9, "elsewhere")})
    assert refused(manifest(8, before=strange), before=strange) == ""


# --- outputs ---------------------------------------------------------------------------------------------------------


def test_records_go_into_topics_that_the_application_knows():
    found = after(GOOD, sinks={"out": [], "elsewhere": [Segment(0, FileRef("s", 1, 1), [0], 1, 1, 0)]})
    assert refused(found) == "records for ids, in, out, got some for 'elsewhere'"
    assert refused(found, replace(COMMIT, chooses_topics=True)) == "", "but where records choose their topics"
    assert refused(found, PUT_ASIDE) == "", "and those of dead letters"


@pytest.mark.parametrize("step", [COMMIT, TAKE_OVER], ids=["commit", "take-over"])
def test_a_commit_waits_until_the_one_before_is_in_its_topics(step: Step):
    says = "the records of commit 7 in their topics, got commit 6 as the last that is in its topics"
    assert refused(after(published=6), step) == says
    assert refused(after(published=6), step, msgspec.structs.replace(BEFORE, sinks={})) == "", "if it has any"
    assert refused(after(published=6), PUT_ASIDE) == ""


# --- where it is asked -----------------------------------------------------------------------------------------------


class ReadsAgain(StageRunner):
    """Tasks that say they have read nothing."""

    def __init__(self, runner: StageRunner):
        self._runner = runner

    def run(self, stage: StageWork, label: str) -> list[TaskDone]:
        return [msgspec.structs.replace(done, offsets={"in": 0}) for done in self._runner.run(stage, label)]


def test_a_commit_that_is_refused_leaves_no_manifest_and_the_next_start_goes_on(tmp_path: Path):
    world = World(tmp_path)
    world.run("a")
    application = world.start()
    manifests = application.coordinator.manifests
    before = manifests.numbers()
    application.coordinator.runner = ReadsAgain(application)
    world.produce("a")
    where = f"{manifests.place(before[-1] + 1)} is not created, because it would be wrong: expected task 0_0 to go on"
    with pytest.raises(CommitError, match=where):
        application.run_until()
    assert manifests.numbers() == before
    application.close()
    world.run()
    assert world.output() == [("a", 1), ("a", 2)]


def take_over(world: World) -> None:
    world.run()


def reset(world: World) -> None:
    Reset(world.storage, world.log, Wanted()).execute()


def rescale(world: World) -> None:
    Rescale(world.topology, world.storage, world.log, 2).execute()


@pytest.mark.parametrize(
    ("make", "of", "method"),
    [(take_over, Evolution, "carried"), (reset, Reset, "_manifest"), (rescale, Rescale, "_manifest")],
    ids=["take-over", "reset", "rescale"],
)
def test_a_manifest_that_is_no_commit_is_held_against_the_one_before_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[World], None], of: type, method: str
):
    world = World(tmp_path)
    world.run("a")
    if make is rescale:
        world.log.add_partitions("in", 2)
    right = getattr(of, method)

    def wrong(self: Any, *given: Any, **more: Any) -> Manifest:
        found: Manifest = right(self, *given, **more)
        tasks = {task: msgspec.structs.replace(one, snapshot=99) for task, one in found.tasks.items()}
        return msgspec.structs.replace(found, tasks=tasks)

    before = [world.storage.list(folder) for folder in ("manifests", "starts")]
    monkeypatch.setattr(of, method, wrong)
    with pytest.raises(CommitError, match=r"would be wrong: expected a snapshot of task 0_0 of commit \d or before"):
        make(world)
    assert [world.storage.list(folder) for folder in ("manifests", "starts")] == before
    monkeypatch.setattr(of, method, right)
    make(world)
    world.run("b")
    assert world.output()[-1] == ("b", 1)
