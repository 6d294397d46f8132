"""Keeps topics small: merging, sealing, retention, and removing what killed programs left.

Appending programs do this in a background thread when there is enough to do. Each step writes new files, invisible at
first, and then adds an entry, which makes the step count, like an append. Programs that do the same at once compete for
that entry: one wins, and the others look again. A program killed anywhere leaves a file that no entry names, or one
that is no longer needed.
"""

from __future__ import annotations

import logging
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.errors import CorruptDataError
from penstock.faults import crash_point
from penstock.log.contract.writer import Segment
from penstock.log.file.merge import FAN_IN, MergeLimits, due, segments_of, write_merged
from penstock.log.file.nodes import Node
from penstock.log.file.retention import retained_starts, trim_entry
from penstock.log.file.state import Entry, Fold, Merge, NodeRef, Seal, TopicState, Unit
from penstock.log.file.topic import OpenTopic
from penstock.storage.base import TEMPORARY

_log = logging.getLogger(__name__)

MOST_UNITS = 512
"""Most units in a state before the oldest move into the index."""
NODE_UNITS = 256
"""How many units move at once."""
NODE_NODES = 64
"""How many nodes become one of the next level."""
RETENTION_EVERY_S = 60.0
"""How often appending programs apply a topic's retention, in seconds."""
LEFTOVERS_EVERY_S = 86_400.0
PAUSE_AFTER_ERROR_S = 600.0
_LEFT_MS = 86_400_000
"""A file that no entry names, and that has not changed for this long, was left by a killed program."""
_LEFT_TEMPORARY_MS = 3_600_000
_LEFT_BEHIND = re.compile(r"(produce|spark|merge)-[0-9a-f]{16}-\d+\.arrow|[0-9a-f]{16}\.node")
"""Files of writers that never continue after a crash. Applications do: a manifest may name their files."""


def is_due(state: TopicState) -> bool:
    """Return whether there may be something to merge."""
    newest = state.units[-FAN_IN:]
    return (len(newest) == FAN_IN and all(unit.level == 0 for unit in newest)) or len(state.units) > MOST_UNITS


def tidy(topic: OpenTopic, is_over: Callable[[], bool] = lambda: False) -> None:
    """Do all due work for a topic, step by step. Once it ``is_over``, stop after the next step that does work."""
    steps: tuple[Callable[[OpenTopic], Any], ...] = (apply_retention, merge_once, seal_once, fold_once)
    for step in steps:
        while step(topic):
            if is_over():
                return


def add(topic: OpenTopic, entry_for: Callable[[TopicState], Entry | None], alone: bool = False) -> Entry | None:
    """Add the entry that fits the newest state. Return None if none is needed.

    Args:
        alone: exclude running appends.
    """
    with topic.held(alone):
        while True:
            state = topic.fresh()
            entry = entry_for(state)
            if entry is None:
                return None
            if topic.entries.create(state, entry):
                topic.newest.note(state.next)
                return entry


# --- removing records --------------------------------------------------------------------------------------------


def apply_retention(topic: OpenTopic, now_ms: int | None = None) -> dict[int, int]:
    """Remove records that the topic's retention no longer keeps. Return the new starts of the affected partitions."""
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    starts = retained_starts(topic.nodes, topic.fresh(), topic.info, now_ms)
    trim(topic, starts)
    return starts


def trim(topic: OpenTopic, starts: dict[int, int], check: Callable[[TopicState], None] = lambda _: None) -> None:
    """Remove the records of partitions before these offsets, and the files that become empty."""

    def entry_for(state: TopicState) -> Entry | None:
        check(state)
        return trim_entry(topic.nodes, state, starts)

    while (entry := add(topic, entry_for)) is not None:
        crash_point("after-trim")
        topic.entries.remove_files(entry)


# --- reorganising -------------------------------------------------------------------------------------------------


def merge_once(topic: OpenTopic) -> bool:
    """Merge some units into one file, if there are enough. Return whether there were."""
    with topic.held():
        state = topic.fresh()
        chosen = due(state.units, MergeLimits.of(topic.info))
        if chosen is not None:
            _merge(topic, state.units[chosen], segments_of(state, state.units[chosen]))
        return chosen is not None


def _merge(topic: OpenTopic, units: list[Unit], parts: list[list[Segment]]) -> None:
    crash_point("before-merge-file")
    try:
        merged = write_merged(topic.segments.folder, topic.segments, parts)
    except CorruptDataError:
        if _are_there(topic.fresh(), units):
            raise
        return  # another program was faster, and has removed the files
    crash_point("after-merge-file")
    gone = [name for unit in units for name in unit.files]
    into, came = topic.segments.folder / merged[0].file.name, _first_written(topic.segments.folder, gone)
    entry = Entry(gone=gone, change=Merge(merged, units[0].level + 1))
    is_added = add(topic, lambda state: entry if _are_there(state, units) else None) is not None
    if is_added:  # otherwise it is a leftover, which must not look old
        with suppress(FileNotFoundError):  # others have merged it meanwhile
            os.utime(into, (came, came))
    crash_point("after-merge")
    if not is_added:
        into.unlink(missing_ok=True)
    elif not topic.entries.grace_ms:  # otherwise they are removed with the entry
        topic.entries.remove_files(entry)


def _first_written(folder: Path, names: Iterable[str]) -> float:
    """Return when the first of some files was written; now if others have removed them all."""
    found = [time.time()]
    for name in names:
        with suppress(FileNotFoundError):
            found.append((folder / name).stat().st_mtime)
    return min(found)


def _are_there(state: TopicState, units: list[Unit]) -> bool:
    """Return whether units are still neighbours."""
    if units[0] not in state.units:
        return False
    first = state.units.index(units[0])
    return state.units[first : first + len(units)] == units


def seal_once(topic: OpenTopic) -> bool:
    """Move the oldest units into a node of the index, if there are many. Return whether there were."""
    state = topic.fresh()
    if len(state.units) <= MOST_UNITS:
        return False
    units = state.units[:NODE_UNITS]
    parts = segments_of(state, units)
    left = [segments[len(part) :] for segments, part in zip(state.segments, parts, strict=True)]
    ends = [segments[0].base if segments else end for segments, end in zip(left, state.ends, strict=True)]

    def fits(now: TopicState) -> bool:
        return now.units[: len(units)] == units and segments_of(now, units) == parts

    _add_node(topic, Node(segments=parts), ends, lambda ref: Seal(ref, len(units)), fits, "seal")
    return True


def fold_once(topic: OpenTopic) -> bool:
    """Move the oldest nodes of a level into one of the next, if there are many. Return whether there were."""
    state = topic.fresh()
    level = next((level for level, refs in enumerate(state.nodes) if len(refs) >= NODE_NODES), None)
    if level is None:
        return False
    refs = state.nodes[level][:NODE_NODES]

    def fits(now: TopicState) -> bool:
        return now.nodes[level][: len(refs)] == refs

    _add_node(topic, Node(nodes=refs), refs[-1].ends, lambda ref: Fold(ref, level, len(refs)), fits, "fold")
    return True


def _add_node(
    topic: OpenTopic,
    node: Node,
    ends: list[int],
    change: Callable[[NodeRef], Seal | Fold],
    fits: Callable[[TopicState], bool],
    what: str,
) -> None:
    """Write a node of the index, and add it to the topic's state unless another program was faster."""
    with topic.held():
        ref = topic.nodes.write(node, ends)
        crash_point(f"after-{what}-node")
        entry = Entry(change=change(ref))
        if add(topic, lambda state: entry if fits(state) else None) is None:
            (topic.nodes.folder / ref.file.name).unlink(missing_ok=True)
        crash_point(f"after-{what}")


# --- killed programs' leftovers ----------------------------------------------------------------------------------


def sweep_leftovers(topic: OpenTopic) -> None:
    """Remove files of a topic that killed programs left unfinished long ago."""
    for folder in (topic.folder, topic.entries.folder, topic.segments.folder, topic.nodes.folder):
        for path in _old_files(folder, lambda name: name.startswith(TEMPORARY), _LEFT_TEMPORARY_MS):
            path.unlink(missing_ok=True)
    sweep(topic, lambda name: _LEFT_BEHIND.fullmatch(name) is not None, _LEFT_MS)


def sweep(topic: OpenTopic, is_meant: Callable[[str], bool], older_than_ms: int = 0) -> None:
    """Remove files with such names that the topic does not need."""
    files: dict[str, Path] = {}
    for folder in (topic.segments.folder, topic.nodes.folder):
        files |= {path.name: path for path in _old_files(folder, is_meant, older_than_ms)}
    state = topic.fresh()  # newer than the list, so it includes later appends
    for name in state.files():
        files.pop(name, None)
    if files:
        for ref, node in topic.nodes.all_nodes(state.topmost()):
            for name in (ref.file.name, *(segment.file.name for part in node.segments for segment in part)):
                files.pop(name, None)
    for path in files.values():
        path.unlink(missing_ok=True)


def _old_files(folder: Path, is_meant: Callable[[str], bool], older_than_ms: int) -> Iterator[Path]:
    now = time.time()
    for path in folder.iterdir() if folder.is_dir() else ():
        if is_meant(path.name):
            with suppress(FileNotFoundError):
                if now - path.stat().st_mtime >= older_than_ms / 1000:
                    yield path


# --- in the background --------------------------------------------------------------------------------------------


class Upkeep:
    """Tidies topics in a background thread, which runs while there are some to tidy.

    A program that ends waits for the running step, or for one step: programs that each append a little and end must not
    leave a topic of small files.
    """

    def __init__(self, open_topic: Callable[[str], OpenTopic]):
        self._open = open_topic
        self._lock = threading.Lock()
        self._waiting: set[str] = set()
        self._thread: threading.Thread | None = None
        self._began: dict[str, float] = {}
        self._swept: dict[str, float] = {}
        self._not_before: dict[str, float] = {}

    def appended(self, name: str, topic: OpenTopic) -> None:
        """Schedule a topic if there may be something to do."""
        now, never = time.monotonic(), -math.inf
        has_retention = topic.info.retention_ms >= 0 or topic.info.retention_bytes >= 0
        looks_again = has_retention and now - self._began.get(name, never) >= RETENTION_EVERY_S
        if (looks_again or is_due(topic.state)) and now >= self._not_before.get(name, never):
            self._ask(name)

    def wait(self) -> None:
        """Wait until the upkeep is idle."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _ask(self, name: str) -> None:
        with self._lock:
            self._waiting.add(name)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="penstock-upkeep")
                try:
                    self._thread.start()
                except RuntimeError:  # the program is ending; the next one does it
                    self._thread = None

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                name = self._waiting.pop()
            self._tidy(name)

    def _tidy(self, name: str) -> None:
        self._began[name] = time.monotonic()
        if self._began[name] < self._not_before.get(name, -math.inf):
            return
        topic = None
        try:
            topic = self._open(name)
            tidy(topic, _program_ends)
            if self._began[name] - self._swept.get(name, -math.inf) >= LEFTOVERS_EVERY_S:
                sweep_leftovers(topic)
                self._swept[name] = self._began[name]
        except Exception as error:  # the program's own work continues, and readers of damaged data get the error
            if topic is None or not topic.is_there:  # it was removed meanwhile, or is being removed
                return
            _log.warning("topic %r grows, its files cannot be merged or removed: %s", name, error)
            self._not_before[name] = time.monotonic() + PAUSE_AFTER_ERROR_S


def _program_ends() -> bool:
    return not threading.main_thread().is_alive()
