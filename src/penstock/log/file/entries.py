"""The folder of a topic's entries: every append is one small file, which makes it visible.

<n>.json   entry n; created at most once, without gaps
<n>.state  the sum of all entries before n, written from time to time so that they need not be read

Each begins with a checksum of the rest and names its topic; an entry also its number. Entries that two states include
are removed, the oldest first, a few with each append: removing all at once would delay one append in many.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from penstock.errors import CorruptDataError, LogError, PenstockError
from penstock.faults import crash_point
from penstock.files.plain_files import read_plain
from penstock.log.file.shared import is_shared
from penstock.log.file.state import RECENT, VERSION, Entry, TopicState
from penstock.storage.base import create_file, seal, unseal

_log = logging.getLogger(__name__)

STATE_EVERY = 16
"""A state is written after this many entries."""
REMOVED_AT_ONCE = 2
"""Most old entries that are removed with one append."""
GRACE_MS = 60_000
"""How long unneeded files stay at least on a file system that machines share: readers on other machines may be reading
them. Elsewhere an open file stays readable.
"""
_DIGITS = 16
_NAME = re.compile(rf"(\d{{{_DIGITS}}})\.(json|state|checkpoint)", re.ASCII)

T = TypeVar("T")


class _Version(msgspec.Struct):
    version: int = 1


class EntryFiles:
    """The folder of a topic's entries; ``data`` and ``index`` are the folders of its segments and nodes.

    Args:
        topic: the id of the topic; empty if it has none.
    """

    def __init__(self, folder: Path, data: Path, index: Path, topic: str = ""):
        self.folder = folder
        self._topic = topic
        self._data = data
        self._index = index
        self._old: deque[tuple[int, str]] = deque()
        """Entries that two states include and that are still to be removed."""

    def path(self, number: int) -> Path:
        """Return the path of an entry."""
        return self.folder / _entry(number)

    def load(self, partitions: int) -> TopicState:
        """Return the newest state: the last one written, with all later entries."""
        while True:
            newest = self._newest_state()
            missing = None
            try:
                state = self._load_from(newest, partitions)
            except FileNotFoundError as error:
                missing = error.filename
            if self._newest_state() == newest:  # otherwise entries were summed up, and possibly removed
                if missing is not None:
                    raise CorruptDataError(
                        f"{missing} is missing though later entries are there; restore it from a backup"
                    )
                return state

    def refresh(self, state: TopicState) -> TopicState:
        """Return the state with all entries added since.

        It is another object if entries that it lacks have been summed up and removed.
        """
        try:
            while os.path.lexists(self.folder / _entry(state.next)):  # a dangling link is no free number
                entry, checksum = self._read_entry(state.next)
                if not self._is_near(state):  # otherwise ``create`` may be about to undo this
                    break
                self._apply(state, entry, checksum)
        except FileNotFoundError:
            pass
        return state if self._is_near(state) else self.load(state.made_with)

    def create(self, state: TopicState, entry: Entry) -> bool:
        """Add an entry after the state. Return False if another program was faster."""
        own = {"version": max(entry.version, VERSION), "topic": self._topic, "number": state.next}
        entry = msgspec.structs.replace(entry, at=time.time_ns() // 1_000_000, **own)
        data = seal(entry)
        path = self.folder / _entry(state.next)
        if not create_file(path, data):
            return False
        if not self._is_near(state):
            if self._is_summed_up(state.next, entry, _checksum(data), state.made_with):
                return True  # other programs have appended since, while this process slept
            path.unlink(missing_ok=True)  # the number was free because its entry had been summed up
            return False
        state.apply(entry, _checksum(data))
        try:
            if state.next % STATE_EVERY == 0:
                self.sum_up(state)
            self._remove_old(state, REMOVED_AT_ONCE)
        except (PenstockError, OSError) as error:  # the entry itself has been added
            _log.warning("the entries in %s were not summed up: %s", self.folder, error)
        return True

    def sum_up(self, state: TopicState) -> None:
        """Write the state, and schedule the entries of the previous state for removal.

        Even older entries were left by a program that ended, and are removed at once.
        """
        older = max((number for number, _ in self._states() if number < state.next), default=0)
        state.topic = self._topic
        create_file(self.folder / f"{state.next:0{_DIGITS}d}.state", seal(state))
        crash_point("after-state")
        for number, name in self._states():
            if number < older:
                (self.folder / name).unlink(missing_ok=True)
        self._old = deque(sorted(one for one in self._named("json") if one[0] < older))
        self._remove_old(state, sum(number < older - STATE_EVERY for number, _ in self._old))

    def _remove_old(self, state: TopicState, most: int) -> None:
        """Remove up to so many old entries, the oldest first: see ``_is_near``."""
        for _ in range(min(most, len(self._old))):
            number, name = self._old[0]
            if not self._forget(number, state):
                return
            crash_point("before-entry-goes")
            (self.folder / name).unlink(missing_ok=True)
            self._old.popleft()

    def _forget(self, number: int, state: TopicState) -> bool:
        """Remove the files that an entry made unneeded, before the entry itself. Return False while it is too early.

        Only if it is the entry of this number: a killed program's file under an old number means nothing.
        """
        try:
            entry, checksum = self._read_entry(number)
        except (FileNotFoundError, LogError):  # another program removes it too, or it is damaged and summed up
            return True
        if (entry.gone or entry.gone_nodes) and state.checksum_of(number) == checksum:
            is_young = time.time_ns() // 1_000_000 - entry.at < self.grace_ms
            if is_young and state.next - number < RECENT - 2 * STATE_EVERY:  # else it is soon not told from others
                return False
            self.remove_files(entry)
        return True

    @property
    def grace_ms(self) -> int:
        """How long unneeded files stay here at least."""
        return GRACE_MS if is_shared(os.fspath(self.folder)) else 0

    def remove_files(self, entry: Entry) -> None:
        """Remove the files that an entry made unneeded."""
        for folder, names in ((self._data, entry.gone), (self._index, entry.gone_nodes)):
            for name in names:
                (folder / name).unlink(missing_ok=True)

    def _is_near(self, state: TopicState) -> bool:
        """Return whether no entry after the state can have been removed: its last known entry still exists.

        It must be that very entry. Another program that slept may have made one of the same number, which it is about
        to undo.
        """
        if state.next == 0:
            return self._newest_state() is None
        path, known = self.folder / _entry(state.next - 1), state.checksum_of(state.next - 1)
        if known is None:
            return path.exists()
        try:
            return read_plain(path)[:16] == b"%016x" % known
        except FileNotFoundError:
            return False

    def _is_summed_up(self, number: int, entry: Entry, checksum: int, partitions: int) -> bool:
        """Return whether the newest state includes an entry."""
        state = self.load(partitions)
        known = state.checksum_of(number)
        if known is not None:
            return known == checksum
        if entry.producer and entry.note:  # a note is no other append's
            return state.notes.get(entry.producer) == entry.note
        if entry.producer:
            return state.producers.get(entry.producer, -1) >= entry.sequence
        if not entry.segments:  # other changes do no harm, and are repeated while they are due
            return False
        raise LogError(
            f"{self.folder / _entry(number)}: this program slept while it appended, and others have appended so much "
            "since that it cannot tell whether its own records are in the topic. Look for them, and write them again "
            "if they are missing"
        )

    def _named(self, kind: str) -> Iterator[tuple[int, str]]:
        """Yield the numbers and names of all files of a kind; foreign files are ignored."""
        if self.folder.is_dir():
            for path in self.folder.iterdir():
                match = _NAME.fullmatch(path.name)
                if match and match[2] == kind:
                    yield int(match[1]), path.name

    def _states(self) -> list[tuple[int, str]]:
        """Return the names of all states; version 1 named them differently."""
        return sorted([*self._named("state"), *self._named("checkpoint")])

    def _newest_state(self) -> str | None:
        return max(self._states(), default=(0, None))[1]

    def _load_from(self, name: str | None, partitions: int) -> TopicState:
        state = TopicState.empty(partitions) if name is None else self._read_state(name, partitions)
        newest = max((number for number, _ in self._named("json")), default=-1)
        while state.next <= newest:
            self._apply(state, *self._read_entry(state.next))
        if state.next:
            self._read_entry(state.next - 1)  # it must exist: see _is_near
        return state

    def _read_state(self, name: str, partitions: int) -> TopicState:
        state = self._read(name, TopicState)[0].upgraded()
        check_topic_id(self.folder / name, state.topic, self._topic)
        try:
            if state.next != int(name[:_DIGITS]):
                raise ValueError(f"it sums up {state.next} entries")
            state.check(partitions)
        except ValueError as error:
            raise does_not_fit(self.folder / name, error) from None
        return state

    def _apply(self, state: TopicState, entry: Entry, checksum: int) -> None:
        try:
            state.apply(entry, checksum)
        except ValueError as error:
            raise does_not_fit(self.folder / _entry(state.next), error) from None

    def _read_entry(self, number: int) -> tuple[Entry, int]:
        entry, checksum = self._read(_entry(number), Entry)
        path = self.folder / _entry(number)
        check_topic_id(path, entry.topic, self._topic)
        if entry.number not in (-1, number):
            raise does_not_fit(path, ValueError(f"it is entry {entry.number}"))
        return entry, checksum

    def _read(self, name: str, type_: type[T]) -> tuple[T, int]:
        path = self.folder / name
        data = read_plain(path)
        try:
            return unseal(data, type_, str(path)), _checksum(data)
        except CorruptDataError:
            self._check_version(data, path)
            raise

    def _check_version(self, data: bytes, path: Path) -> None:
        """Raise ``LogError`` for an intact file of an unknown newer format."""
        try:
            version = unseal(data, _Version, str(path)).version
        except CorruptDataError:
            return
        if version > VERSION:
            raise LogError(
                f"{path} was written by a newer version of Penstock (format {version}, and this one knows up to "
                f"{VERSION}); use that version for this topic"
            ) from None


def check_topic_id(path: Path, found: str, topic: str) -> None:
    """Raise ``CorruptDataError`` for a file that belongs to another topic; older files do not name theirs."""
    if found and topic and found != topic:
        raise CorruptDataError(
            f"{path} is of another topic (with the id {found}, and this one has {topic}); restore the topic from a "
            "backup"
        )


def does_not_fit(path: Path, reason: ValueError) -> CorruptDataError:
    """Return the error for an intact file that contradicts the others."""
    return CorruptDataError(f"{path} does not fit the topic: {reason}; restore the topic from a backup")


def _entry(number: int) -> str:
    return f"{number:0{_DIGITS}d}.json"


def _checksum(data: Any) -> int:
    """Return the checksum at the beginning of a sealed file."""
    return int(bytes(data[:16]), 16)
