"""The file log: topics as folders of Arrow files, for any number of producers and readers, without a broker.

<log>/<topic>/topic.json        the topic's description
<log>/<topic>/commits/<n>.json  one entry for each append, which makes it visible (entries.py, state.py)
<log>/<topic>/newest            the number of entries, at least (newest.py)
<log>/<topic>/data/*.arrow      the records (segments.py); small files are merged (merge.py)
<log>/<topic>/index/*.node      the index of older records (nodes.py)
<log>/@applications/<id>.json   the checkpoint that writes under an application id; no topic can have such a name
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from penstock.errors import ConfigError, CorruptDataError, PenstockError, TopicExistsError, TopicNotFoundError
from penstock.files.locations import folder
from penstock.log.base import Log
from penstock.log.contract.reader import TopicStats, check_start, reach
from penstock.log.contract.topics import TopicInfo, check_partition_count, check_topic, check_trim
from penstock.log.contract.writer import LastAppend, Segment
from penstock.log.file import upkeep
from penstock.log.file.segments import FileSegmentWriter
from penstock.log.file.state import GROWN, MAX_PRODUCERS, Entry, Grow, Retention, TopicState
from penstock.log.file.topic import OpenTopic
from penstock.log.file.topic_file import create_topic_file, file_identity, held
from penstock.log.file.upkeep import Upkeep
from penstock.log.file.watch import watch
from penstock.log.records import Records, first_at
from penstock.log.watch import TopicWatch
from penstock.messages import nearest
from penstock.storage.base import LocalStorage, Storage
from penstock.values.topic_names import check_topic_name, is_topic_name


class FileLog(Log):
    """Topics in a folder.

    >>> import tempfile, numpy as np, pyarrow as pa
    >>> log = FileLog(Path(tempfile.mkdtemp()))
    >>> log.create_topic(TopicInfo("greetings", partitions=1))
    >>> with log.writer("greetings", "example") as writer:
    ...     writer.write(0, pa.array([b"a"], pa.binary()), pa.array([b"hello"], pa.binary()), np.array([10]))
    >>> log.append("greetings", writer.segments())
    True
    >>> [records.value.to_pylist() for records in log.read("greetings", 0, 0, 1)], log.end_offsets("greetings")
    ([[b'hello']], [1])
    """

    def __init__(self, root: Path | str):
        self.root = folder(root, "log")
        self._of_thread = threading.local()
        self._beside: Upkeep | None = None

    def __reduce__(self) -> tuple[type[FileLog], tuple[Path]]:
        return FileLog, (self.root,)

    @property
    def url(self) -> str:
        return str(self.root)

    @property
    def can_publish_beside(self) -> bool:
        return True

    @property
    def claims(self) -> Storage:
        return LocalStorage(self.root / "@applications")

    def topics(self) -> list[str]:
        names = {path.parent.name for of in ("topic.json", "commits") for path in self.root.glob(f"*/{of}")}
        return sorted(
            name for name in names if is_topic_name(name) and (self._file(name).exists() or self._is_half(name))
        )

    def closed_folders(self) -> list[Path]:
        """Return the folders that may be topics, and that this user may not look into."""
        found = (path for path in self.root.glob("*") if is_topic_name(path.name) and path.is_dir())
        return sorted(path for path in found if not os.access(path, os.R_OK | os.X_OK))

    def create_topic(self, info: TopicInfo) -> None:
        check_topic(info)
        if self._is_half(info.name):
            raise self._half(info.name)
        if not create_topic_file(self._file(info.name), info):
            raise TopicExistsError(f"topic {info.name!r} exists already in {self.root}; use it, or choose another name")

    def delete_topic(self, name: str) -> None:
        check_topic_name(name)
        grave = self.root / f"~{os.urandom(8).hex()}"  # a name that no topic can have
        try:
            with held(self._file(name), alone=True):
                (self.root / name).rename(grave)
        except FileNotFoundError:
            if not self._is_half(name):
                raise self._not_found(name) from None
            (self.root / name).rename(grave)
        self._topics.pop(name, None)
        for left in self.root.glob("~*"):  # also those of programs that were killed here
            shutil.rmtree(left, ignore_errors=True)

    def topic(self, name: str) -> TopicInfo:
        found = self._topic(name)
        found.fresh()
        return found.info

    def topic_id(self, name: str) -> str:
        return self._topic(name).id

    def mark(self, topic: str) -> str:
        state = self._topic(topic).fresh()
        checksum = state.checksum_of(state.next - 1)
        return "" if checksum is None else f"{state.next}:{checksum}"

    def denies(self, topic: str, mark: str) -> bool:
        number, _, checksum = mark.partition(":")
        if not number:
            return False
        state = self._topic(topic).fresh()
        return state.next < int(number) or state.checksum_of(int(number) - 1) not in (int(checksum), None)

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions; existing ones keep their records, as in Kafka."""
        found = self._topic(topic)
        check_partition_count(topic, partitions)

        def entry_for(state: TopicState) -> Entry | None:
            if partitions < (has := len(state.ends)):
                raise ConfigError(
                    f"topic {topic!r} has {has} partitions, and cannot have {partitions}: records would have to leave "
                    "theirs. Copy it into a topic of that many (penstock topics cat | produce --partitions)"
                )
            return None if partitions == has else Entry(change=Grow(partitions), version=GROWN)

        upkeep.add(found, entry_for, alone=True)

    def set_retention(self, topic: str, retention_ms: int | None = None, retention_bytes: int | None = None) -> None:
        """Change how long, or how much of each partition, records are kept; -1 for no limit.

        Expired records are removed with later appends, or by ``apply_retention``.
        """
        found = self._topic(topic)

        def entry_for(_: TopicState) -> Entry:
            info = found.info
            return Entry(
                change=Retention(
                    info.retention_ms if retention_ms is None else retention_ms,
                    info.retention_bytes if retention_bytes is None else retention_bytes,
                )
            )

        upkeep.add(found, entry_for)

    def watch(self, topics: Sequence[str]) -> TopicWatch:
        return watch(self, topics, [self._topic(topic).entries.folder for topic in topics])

    def start_offsets(self, topic: str) -> list[int]:
        return list(self._topic(topic).fresh().starts)

    def end_offsets(self, topic: str) -> list[int]:
        return list(self._topic(topic).fresh().ends)

    def timestamp_at(self, topic: str, partition: int, offset: int) -> int:
        found = self._topic(topic)
        state = found.fresh()
        if not state.starts[partition] <= offset < state.ends[partition]:
            return super().timestamp_at(topic, partition, offset)
        try:
            return found.timestamp_at(state, partition, offset)
        except CorruptDataError:  # a merge removed its file meanwhile; reading handles that
            return super().timestamp_at(topic, partition, offset)

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Records]:
        found = self._topic(topic)
        state = found.state if found.state.ends[partition] >= end else found.fresh()
        check_start(topic, partition, start, state.starts[partition])
        said = ""
        while True:
            known = state.next
            try:
                for records in found.read(state, partition, start, end):
                    yield records
                    start = records.end
                return
            except CorruptDataError as error:  # possibly retention removed it, or it was merged
                found.check_is_there()
                state = found.fresh()
                check_start(topic, partition, start, state.starts[partition])
                if state.next == known or str(error) == said:
                    raise
                said = str(error)

    def arrived_at(self, topic: str, partition: int, offset: int) -> float | None:
        found = self._topic(topic)
        segment = next(iter(found.nodes.segments_from(found.fresh(), partition, offset)), None)
        try:
            return None if segment is None else (found.segments.folder / segment.file.name).stat().st_mtime
        except OSError:  # it was merged or removed at this moment
            return None

    def reach(self, topic: str, partition: int, start: int, end: int, nbytes: int) -> int | None:
        found = self._topic(topic)
        state = found.state if found.state.ends[partition] >= end else found.fresh()
        segments = found.nodes.segments_from(state, partition, start)
        try:
            return reach(((one.end, one.nbytes, one.max_timestamp) for one in segments), end, nbytes)
        except CorruptDataError:  # reading will raise it
            return None

    def offset_at(self, topic: str, partition: int, time: int) -> int | None:
        found = self._topic(topic)
        state = found.fresh()
        segments = found.nodes.segments_from(state, partition, state.starts[partition])
        first = next((segment for segment in segments if segment.max_timestamp >= time), None)
        if first is None:
            return None
        start = max(first.base, state.starts[partition])
        return first_at(self.read(topic, partition, start, state.ends[partition]), time)

    def stats(self, topic: str) -> TopicStats:
        """Return the size of a topic."""
        state = self._topic(topic).fresh()
        newest = max(state.newest)
        return TopicStats(sum(state.ends) - sum(state.starts), sum(state.nbytes), newest if newest >= 0 else None)

    def writer(self, topic: str, name: str) -> AbstractContextManager[FileSegmentWriter]:
        return self._topic(topic).writer(name)

    def append(
        self, topic: str, segments: Sequence[Segment], producer: str = "", sequence: int = -1, note: str = ""
    ) -> bool:
        found = self._topic(topic)

        def entry_for(state: TopicState) -> Entry | None:
            if producer and state.producers.get(producer, -1) >= sequence:
                return None
            found.check_written(segments)
            return Entry(state.place(list(segments)), producer, sequence, note=note)

        appended = upkeep.add(found, entry_for) is not None
        if appended:
            self._upkeep.appended(topic, found)
        return appended

    def forget_producer(self, topic: str, producer: str) -> None:
        """Restart a producer's numbers."""
        upkeep.add(self._topic(topic), lambda _: Entry(producer=producer))

    def last_sequence(self, topic: str, producer: str) -> int:
        return self._topic(topic).fresh().producers.get(producer, -1)

    def last_append(self, topic: str, producer: str) -> LastAppend:
        state = self._topic(topic).fresh()
        return LastAppend(state.producers.get(producer, -1), state.notes.get(producer, ""))

    def lacks(self, topic: str, producer: str, sequence: int) -> bool:
        producers = self._topic(topic).fresh().producers
        return producers.get(producer, -1) < sequence and len(producers) < MAX_PRODUCERS  # or forgotten

    def has_lost(self, topic: str, segments: Sequence[Segment]) -> bool:
        return not self._topic(topic).has_written(segments)

    def trim(self, topic: str, starts: dict[int, int]) -> None:
        upkeep.trim(self._topic(topic), starts, lambda state: check_trim(topic, starts, state.ends))

    def apply_retention(self, topic: str, now_ms: int | None = None) -> dict[int, int]:
        """Remove records that the topic's retention no longer keeps. Return the new starts of the affected partitions.

        Appending programs do this from time to time, too.
        """
        return upkeep.apply_retention(self._topic(topic), now_ms)

    def tidy(self, topic: str) -> None:
        """Apply retention, merge small files and remove what killed programs left, as appending programs do."""
        found = self._topic(topic)
        upkeep.tidy(found)
        upkeep.sweep_leftovers(found)

    def wait(self) -> None:
        """Wait until this program's background upkeep is idle; the end of the program waits as well."""
        if self._beside is not None:
            self._beside.wait()

    def sweep(self, topic: str, is_meant: Callable[[str], bool]) -> None:
        """Remove files with such names that writers left behind without appending them."""
        upkeep.sweep(self._topic(topic), is_meant)

    @property
    def _upkeep(self) -> Upkeep:
        if self._beside is None:
            self._beside = Upkeep(FileLog(self.root)._topic)
        return self._beside

    @property
    def _topics(self) -> dict[str, OpenTopic]:
        """The topics as this thread knows them: other threads do not change them during an operation."""
        topics: dict[str, OpenTopic] = self._of_thread.__dict__.setdefault("topics", {})
        return topics

    def _topic(self, name: str) -> OpenTopic:
        check_topic_name(name)
        topic = self._topics.get(name)
        while topic is None or not topic.is_there:
            self._topics.pop(name, None)
            topic = self._opened(name)
        self._topics[name] = topic
        return topic

    def _opened(self, name: str) -> OpenTopic | None:
        """Return a topic in its present state; None if it was removed, and possibly created again, while it was
        opened.
        """
        path = self._file(name)
        identity = file_identity(path)
        try:
            return OpenTopic(path)
        except (FileNotFoundError, PenstockError):
            if identity != file_identity(path):
                return None
            if identity is None:
                raise self._half(name) if self._is_half(name) else self._not_found(name) from None
            raise

    def _file(self, name: str) -> Path:
        return self.root / name / "topic.json"

    def _is_half(self, name: str) -> bool:
        """Return whether a topic has entries but no description."""
        path = self._file(name)
        has_entries = not path.exists() and any((self.root / name / "commits").glob("[0-9]*"))
        return has_entries and not path.exists()  # otherwise it was created again meanwhile

    def _half(self, name: str) -> CorruptDataError:
        return CorruptDataError(
            f"{self._file(name)} is missing though the topic's records are there; restore it from a backup, or remove "
            f"what is left of the topic with `penstock topics rm {name}`"
        )

    def _not_found(self, name: str) -> TopicNotFoundError:
        others = self.topics()
        there = f"the topics are {', '.join(others)}{nearest(name, others)}" if others else "there are no topics yet"
        return TopicNotFoundError(
            f"topic {name!r} does not exist in {self.root.absolute()}: {there}; make it with "
            f"`penstock topics create {name}` or by producing into it"
        )
