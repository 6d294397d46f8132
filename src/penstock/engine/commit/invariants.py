"""Invariants between a manifest and the previous one, checked before the manifest is created.

Creating the manifest is the commit: afterwards every fault in it is final. A fault is caught here, or users find it as
records that are processed twice or never. A manifest that breaks an invariant is refused, and nothing is committed.

Only tasks that took part in a commit are checked. All others keep their previous entries unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.engine.shared.layout import TaskId
from penstock.engine.shared.manifest import Manifest, TaskEntry, delta_name
from penstock.errors import CommitError

Changed = list[tuple[str, TaskEntry, TaskEntry]]
"""The tasks that a manifest changes: name, previous entry, new entry. New tasks have an empty previous entry."""

_Place = tuple[str, int]
"""A topic and a partition."""


@dataclass(frozen=True)
class Step:
    """A kind of manifest, by what it may do that a commit may not.

    Attributes:
        rewinds: offsets may go back.
        moves_tasks: state may move between tasks; tables that all tasks have may be read again.
        publishes_later: the previous manifest's records need not be in their topics yet.
        chooses_topics: records may go to topics that the topology does not name.
    """

    rewinds: bool = False
    moves_tasks: bool = False
    publishes_later: bool = False
    chooses_topics: bool = False


COMMIT = Step()
TAKE_OVER = Step(moves_tasks=True)
RESCALE = Step(moves_tasks=True, publishes_later=True)
RESET = Step(rewinds=True, publishes_later=True)
PUT_ASIDE = Step(publishes_later=True, chooses_topics=True)


def refusal(before: Manifest, after: Manifest, where: str, step: Step = COMMIT) -> CommitError | None:
    """Return why a manifest must not follow another one; None when it may.

    Args:
        before: the newest manifest, as it was read or made.
        where: the name of the new one in messages.
        step: the kind of the new manifest.
    """
    for expected, got in _faults(before, after, step):
        return CommitError(
            f"{where} is not created, because it would be wrong: expected {expected}, got {got}. Nothing was "
            f"committed, and everything up to commit {max(before.commit, 0)} is safe. Start again: what was not is "
            "processed once more. If that ends here as well, keep a copy of the checkpoint, and report this message "
            "as a fault of Penstock"
        )
    return None


def _faults(before: Manifest, after: Manifest, step: Step) -> Iterator[tuple[str, str]]:
    """Yield what was expected, and what the manifest has instead."""
    changed = [
        (task, before.tasks.get(task, _NEW), entry)
        for task, entry in after.tasks.items()
        if before.tasks.get(task) is not entry
    ]
    yield from _number(before, after)
    yield from _checkpoint(before, after)
    if not step.rewinds:
        yield from _moved_back(before, after, changed) if step.moves_tasks else _gone_back(before, after, changed)
    for task, old, new in changed:
        yield from _change(task, old, new, after)
        yield from _files(task, new, after)
    if not step.chooses_topics:
        yield from _sinks(after)
    if not step.publishes_later:
        yield from _publishing(before, after)


_NEW = TaskEntry()


def _number(before: Manifest, after: Manifest) -> Iterator[tuple[str, str]]:
    """Manifests are numbered without gaps. Each number can be taken once, so two programs cannot commit at the same
    time.
    """
    if after.commit != before.commit + 1:
        yield f"commit {before.commit + 1} behind commit {before.commit}", f"commit {after.commit}"


def _checkpoint(before: Manifest, after: Manifest) -> Iterator[tuple[str, str]]:
    """All manifests belong to one checkpoint; manifests of early versions do not name theirs."""
    if before.application and after.application != before.application:
        yield f"a commit of checkpoint {before.application!r}", f"one of checkpoint {after.application!r}"


def _gone_back(before: Manifest, after: Manifest, changed: Changed) -> Iterator[tuple[str, str]]:
    """No task reads records again, and none loses its offsets.

    A task that took part in no commit has read nothing: its offsets only say where to begin, and may change.
    """
    for task, old, new in changed:
        for place, at in old.offsets.items() if old.changed >= 0 else ():
            now = new.offsets.get(place, 0)
            if now < at and _is_same(place.partition("/")[0], before, after):
                yield f"task {task} to go on in {place!r} at offset {at} or later", f"offset {now}"


def _moved_back(before: Manifest, after: Manifest, changed: Changed) -> Iterator[tuple[str, str]]:
    """The same for topics and partitions, whichever tasks read them."""
    read = dict(_read({t: entry for t, entry in before.tasks.items() if after.tasks.get(t) is not entry}))
    for (topic, partition), now in _read({task: new for task, _, new in changed}):
        at = read.get((topic, partition), 0)
        if now < at and _is_same(topic, before, after):
            yield f"partition {partition} of topic {topic!r} to be read from offset {at} or later", f"offset {now}"


def _read(tasks: dict[str, TaskEntry]) -> Iterator[tuple[_Place, int]]:
    """Yield the offset up to which each partition is read."""
    for task, entry in tasks.items():
        partition = TaskId.parse(task).partition
        for place, offset in entry.offsets.items():
            if "/" not in place:  # each task reads global tables for itself
                yield (place, partition), offset


def _is_same(topic: str, before: Manifest, after: Manifest) -> bool:
    """Return whether a topic is in the log and still the same one. Repartition topics are not checked here."""
    return topic in before.topics and before.topics[topic] == after.topics.get(topic)


def _change(task: str, old: TaskEntry, new: TaskEntry, after: Manifest) -> Iterator[tuple[str, str]]:
    """From each change of a task's state the chain of changes leads back to its snapshot."""
    if new.changed not in (old.changed, after.commit):
        yield f"task {task} to have changed last with commit {old.changed} or {after.commit}", f"commit {new.changed}"
    if new.changed != old.changed and new.previous not in (-1, old.changed):
        yield f"commit {old.changed} to be the last one before for task {task}", f"commit {new.previous}"
    if new.snapshot > new.changed:
        yield f"a snapshot of task {task} of commit {new.changed} or before", f"one of commit {new.snapshot}"
    if new.older is not None and new.older > new.snapshot:
        yield f"an older snapshot of task {task} than that of commit {new.snapshot}", f"one of commit {new.older}"


def _files(task: str, new: TaskEntry, after: Manifest) -> Iterator[tuple[str, str]]:
    """The changes of a task in a commit are in a file named after the task, the commit and the attempt."""
    if new.delta is None or new.changed != after.commit:
        return
    name = delta_name(task, new.changed, new.attempt)
    if new.delta.name != name:
        yield f"task {task} to have its changes in {name}", new.delta.name


def _sinks(after: Manifest) -> Iterator[tuple[str, str]]:
    """Records go only into topics that the application knows."""
    for topic in after.sinks:
        if topic not in after.topics:
            yield f"records for {', '.join(sorted(after.topics)) or 'no topic'}", f"some for {topic!r}"


def _publishing(before: Manifest, after: Manifest) -> Iterator[tuple[str, str]]:
    """A start repeats only the newest manifest's appends, so the previous ones must be done."""
    if before.sinks and after.published < before.sequence:
        got = f"commit {after.published} as the last that is in its topics"
        yield f"the records of commit {before.sequence} in their topics", got
