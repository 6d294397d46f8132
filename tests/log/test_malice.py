"""Who may write into a log does not own the machine of those who read it: names stay inside, data is what it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pytest

from penstock.errors import ConfigError, CorruptDataError
from penstock.log.base import TopicInfo
from penstock.log.contract.writer import Segment
from penstock.log.file.log import FileLog
from penstock.log.records import SCHEMA
from penstock.storage.base import FileRef, checksum, seal, unseal
from support.logs import append, rows

OUTSIDE = ["../../precious", "../precious", "/precious", "a/../../precious", "..", "..\\precious", "a//b", "a\0b"]


@pytest.fixture
def log(tmp_path: Path) -> FileLog:
    """A topic with two records."""
    log = FileLog(tmp_path / "log")
    log.create_topic(TopicInfo("t", 1, retention_ms=10**15))
    append(log, "t", (b"a", b"1", 10), (b"b", b"2", 20))
    return log


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file outside the log."""
    path = tmp_path / "precious"
    path.write_text("precious")
    return path


def rewritten(log: FileLog, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the topic's entry, with a checksum that fits."""
    path = log.root / "t" / "commits" / f"{0:016d}.json"
    entry = unseal(path.read_bytes(), dict[str, Any], "entry")
    change(entry)
    path.write_bytes(seal(entry))


@pytest.mark.parametrize("name", OUTSIDE)
def test_an_entry_that_names_a_file_outside_of_its_topic_is_damaged_and_retention_removes_nothing(
    log: FileLog, precious: Path, name: str
):
    def point_outside(entry: dict[str, Any]) -> None:
        entry["segments"][0][1][0] = name

    rewritten(log, point_outside)
    with pytest.raises(CorruptDataError, match=r"0000000000000000\.json is damaged: .* leads out of its folder"):
        FileLog(log.root).apply_retention("t", now_ms=10**16)
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("name", ["../two/precious", "..", ".", "a/b", "/precious", ""])
@pytest.mark.parametrize(
    "use",
    [
        lambda log, name: log.delete_topic(name),
        lambda log, name: log.topic(name),
        lambda log, name: log.writer(name, "w"),
        lambda log, name: log.append(name, []),
        lambda log, name: log.trim(name, {0: 1}),
        lambda log, name: log.sweep(name, lambda file: True),
        lambda log, name: log.end_offsets(name),
        lambda log, name: log.create_topic(TopicInfo(name, 1)),
    ],
)
def test_a_name_that_leads_into_another_log_is_no_topics_name(
    tmp_path: Path, use: Callable[[FileLog, str], object], name: str
):
    one, two = FileLog(tmp_path / "one"), FileLog(tmp_path / "two")
    one.create_topic(TopicInfo("t", 1))
    two.create_topic(TopicInfo("precious", 1))
    with pytest.raises(ConfigError, match="cannot be a topic's name"):
        use(one, name)
    assert two.topics() == ["precious"]


def test_a_description_under_another_name_is_not_believed(log: FileLog):
    file = log.root / "t" / "topic.json"
    file.write_text('{"name": "../two/precious", "partitions": 1}')
    with pytest.raises(CorruptDataError, match=f"^{file} is of topic '../two/precious'; restore it from a backup"):
        FileLog(log.root).topic("t")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (0, 1, r"segment at offset 0 of partition 1 has no place"),
        (0, -1, r"2 records at 0 of partition -1"),
        (3, -2, r"-2 records at 0 of partition 0"),
        (7, 5, r"segment at offset 5 of partition 0 has no place"),
    ],
)
def test_an_entry_that_contradicts_its_topic_is_named(log: FileLog, field: int, value: int, message: str):
    def contradict(entry: dict[str, Any]) -> None:
        entry["segments"][0][field] = value

    rewritten(log, contradict)
    with pytest.raises(CorruptDataError, match=rf"0000000000000000\.json .*{message}"):
        FileLog(log.root).end_offsets("t")


@pytest.mark.parametrize("promised", [1, 3, 1000])
def test_an_entry_that_promises_other_records_than_there_are_is_an_error_and_not_read_for_ever(
    log: FileLog, promised: int
):
    def promise(entry: dict[str, Any]) -> None:
        entry["segments"][0][3] = promised

    rewritten(log, promise)
    with pytest.raises(CorruptDataError, match=f"has 2 records of partition 0 and not {promised} as its entry says"):
        rows(FileLog(log.root), "t")


# --- segments that contradict themselves ---------------------------------------------------------------------------


def replaced(log: FileLog, data: bytes) -> Path:
    """Put other bytes in the place of the segment, with a checksum that fits."""
    (path,) = (log.root / "t" / "data").iterdir()
    path.write_bytes(data)

    def vouch(entry: dict[str, Any]) -> None:
        entry["segments"][0][1] = [path.name, len(data), checksum(data)]

    rewritten(log, vouch)
    return path


def file_of(batch: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def with_offsets(*offsets: int) -> Any:
    """Two values that lie where the offsets say, in a buffer of 16 bytes."""
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32)), pa.py_buffer(b"x" * 16)]
    return pa.Array.from_buffers(pa.binary(), 2, buffers)


FINE = pa.array([b"a", b"b"], pa.binary())
TIMES = pa.array([10, 20])


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (pa.record_batch([FINE, with_offsets(0, 1 << 30, 16), TIMES], schema=SCHEMA), "Offset invariant failure"),
        (pa.record_batch([FINE, with_offsets(0, -5, 16), TIMES], schema=SCHEMA), "Offset invariant failure"),
        (
            pa.record_batch([FINE, FINE, pa.array([10, None])], schema=SCHEMA),
            "its column timestamp has no value in some",
        ),
        (
            pa.record_batch([FINE, TIMES, TIMES], names=["key", "value", "timestamp"]),
            "its columns are key, value, time",
        ),
        (pa.record_batch([FINE], names=["key"]), "its columns are key"),
    ],
)
def test_arrow_data_that_contradicts_itself_is_an_error_and_not_the_end_of_the_process(
    log: FileLog, batch: Any, reason: str
):
    path = replaced(log, file_of(batch))
    with pytest.raises(CorruptDataError, match=f"{path} does not hold what it should: .*{reason}"):
        rows(FileLog(log.root), "t")


def test_a_file_that_is_no_arrow_file_is_named(log: FileLog):
    path = replaced(log, b"ARROW1\0\0" + b"\xff" * 100 + b"ARROW1")
    with pytest.raises(CorruptDataError, match=f"{path} does not hold what it should"):
        rows(FileLog(log.root), "t")


def test_a_batch_that_is_not_in_the_file_is_named(log: FileLog):
    def ask_for_another(entry: dict[str, Any]) -> None:
        entry["segments"][0][2] = [7]

    rewritten(log, ask_for_another)
    with pytest.raises(CorruptDataError, match=r"does not hold what it should: .*out of range"):
        rows(FileLog(log.root), "t")


def test_no_file_is_referred_to_by_a_name_that_leads_elsewhere():
    with pytest.raises(ValueError, match="leads out of its folder"):
        FileRef("../x", 1, 1)
    with pytest.raises(msgspec.ValidationError, match="leads out of its folder"):
        msgspec.json.decode(b'[0, ["/etc/passwd", 1, 1], [0], 1, 1, 1, true, 0]', type=Segment)
