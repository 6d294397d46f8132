"""What a stream of a topic goes on from, in Spark's own offset log; without Spark."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.spark import frame_writers, source
from penstock.engine.spark.dataframes import PenstockSource
from penstock.errors import OffsetOutOfRangeError, TopicNotFoundError
from penstock.log.base import TopicInfo
from penstock.log.cluster import Kafka
from penstock.log.file.log import FileLog
from penstock.log.produce import produce
from penstock.log.tables import Chosen

MADE_ANEW = (
    "topic 't' is not the one that is to be read: it was removed and created again, and is not read from the middle"
)


class Query:
    """A streaming query, as Spark makes one of the source; its checkpoint is a dict."""

    def __init__(self, folder: Path, checkpoint: dict[str, Any]):
        source = PenstockSource({"topic": "t", "log": str(folder)})
        self._reader: Any = source.streamReader(source.schema())
        self._checkpoint = checkpoint
        self._checkpoint.setdefault("at", _kept(self._reader.initialOffset()))

    def plan(self) -> list[Any]:
        """Plan a batch up to the end of the topic, and write the plan down."""
        self._checkpoint["planned"] = _kept(self._reader.latestOffset(self._checkpoint["at"], None))
        return list(self._reader.partitions(self._checkpoint["at"], self._checkpoint["planned"]))

    def plan_again(self) -> list[Any]:
        """The batch that was written down but not finished."""
        return list(self._reader.partitions(self._checkpoint["at"], self._checkpoint["planned"]))

    def read(self, partitions: list[Any]) -> list[int]:
        """The values of a batch; it is finished then."""
        batches = [batch for partition in partitions for batch in self._reader.read(partition)]
        self._checkpoint["at"] = self._checkpoint["planned"]
        return [int.from_bytes(value.as_py(), "big") for batch in batches for value in batch["value"]]


def _kept(offsets: Any) -> Any:
    return json.loads(json.dumps(offsets))


def write(folder: Path, *values: int) -> None:
    produce([("a", value, 0) for value in values], "t", value=int, log=folder)


def make_anew(folder: Path, *values: int) -> None:
    FileLog(folder).delete_topic("t")
    write(folder, *values)


@pytest.fixture
def checkpoint(tmp_path: Path) -> dict[str, Any]:
    """That of a query that has read 1, 2 and 3."""
    write(tmp_path, 1, 2, 3)
    kept: dict[str, Any] = {}
    query = Query(tmp_path, kept)
    assert query.read(query.plan()) == [1, 2, 3]
    return kept


def test_a_query_goes_on_where_it_was(tmp_path: Path, checkpoint: dict[str, Any]):
    write(tmp_path, 4)
    query = Query(tmp_path, checkpoint)
    assert query.read(query.plan()) == [4]
    assert query.read(query.plan()) == []


@pytest.mark.parametrize("values", [[], [7], [7, 8, 9, 10, 11]])
def test_a_topic_made_anew_is_not_read_from_the_middle(tmp_path: Path, checkpoint: dict[str, Any], values: list[int]):
    make_anew(tmp_path, 6, *values)
    query = Query(tmp_path, checkpoint)
    with pytest.raises(OffsetOutOfRangeError, match=MADE_ANEW):
        query.plan()
    other = Query(tmp_path, {})
    assert other.read(other.plan()) == [6, *values]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([], ": partition 0 ends at offset 1, and was read up to offset 3"),
        ([7], ": partition 0 ends at offset 2, and was read up to offset 3"),
        ([7, 8], ""),
        ([7, 8, 9, 10], ""),
    ],
)
def test_a_topic_that_was_restored_from_an_older_copy_is_not_read_from_the_middle_however_far_it_has_grown(
    tmp_path: Path, values: list[int], said: str
):
    write(tmp_path / "now", 1)
    shutil.copytree(tmp_path / "now", tmp_path / "copy")
    write(tmp_path / "now", 2)
    write(tmp_path / "now", 3)
    checkpoint: dict[str, Any] = {}
    query = Query(tmp_path / "now", checkpoint)
    assert query.read(query.plan()) == [1, 2, 3]
    planned = query.plan()
    shutil.rmtree(tmp_path / "now")
    shutil.copytree(tmp_path / "copy", tmp_path / "now")
    for value in values:
        write(tmp_path / "now", value)
    refused = f"topic 't' lacks records that it had when the stream read it{said}. It was restored from a copy"
    for again in (Query.plan, Query.plan_again):
        with pytest.raises(OffsetOutOfRangeError, match=re.escape(refused)):
            again(Query(tmp_path / "now", checkpoint))
    assert planned == []


def test_a_batch_that_was_planned_before_the_topic_was_made_anew_is_not_read(
    tmp_path: Path, checkpoint: dict[str, Any]
):
    write(tmp_path, 4, 5)
    planned = Query(tmp_path, checkpoint).plan()
    make_anew(tmp_path, 6, 7, 8, 9, 10, 11)
    with pytest.raises(OffsetOutOfRangeError, match=MADE_ANEW):
        Query(tmp_path, checkpoint).plan_again()
    with pytest.raises(OffsetOutOfRangeError, match=MADE_ANEW):
        Query(tmp_path, checkpoint).read(planned)


def test_a_topic_that_is_gone_is_named(tmp_path: Path, checkpoint: dict[str, Any]):
    FileLog(tmp_path).delete_topic("t")
    with pytest.raises(TopicNotFoundError, match="topic 't' does not exist"):
        Query(tmp_path, checkpoint).plan()


def test_a_batch_of_a_topic_made_anew_meanwhile_is_not_finished(tmp_path: Path):
    write(tmp_path, 1, 2, 3)
    source = PenstockSource({"topic": "t", "log": str(tmp_path)})
    reader: Any = source.reader(source.schema())
    partitions = reader.partitions()
    make_anew(tmp_path, 4, 5, 6)
    with pytest.raises(OffsetOutOfRangeError, match=MADE_ANEW):
        [list(reader.read(partition)) for partition in partitions]


def test_a_checkpoint_that_is_older_than_ids_goes_on(tmp_path: Path, checkpoint: dict[str, Any]):
    for offsets in checkpoint.values():
        offsets.pop("", None)
    write(tmp_path, 4)
    query = Query(tmp_path, checkpoint)
    assert query.read(query.plan()) == [4]
    make_anew(tmp_path, 5, 6, 7, 8, 9)
    with pytest.raises(OffsetOutOfRangeError, match=MADE_ANEW):
        query.plan()


def test_a_new_query_begins_with_the_first_record_that_is_still_there(tmp_path: Path, checkpoint: dict[str, Any]):
    write(tmp_path, 4, 5)
    FileLog(tmp_path).trim("t", {0: 2})
    new = Query(tmp_path, {})
    assert new.read(new.plan()) == [3, 4, 5]
    going_on = Query(tmp_path, checkpoint)
    assert going_on.read(going_on.plan()) == [4, 5]


def test_records_that_retention_removed_before_they_were_read_are_missed(tmp_path: Path, checkpoint: dict[str, Any]):
    write(tmp_path, 4, 5, 6)
    FileLog(tmp_path).trim("t", {0: 5})
    with pytest.raises(
        OffsetOutOfRangeError,
        match=r"'t', partition 0: the stream goes on at offset 3, but the records before offset 5 were removed by "
        r"retention: 2 of them were never read\. Give the query another checkpointLocation",
    ):
        Query(tmp_path, checkpoint).plan()


def test_a_query_that_asked_for_nothing_opens_no_log_to_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path, 1)
    topic = PenstockSource({"topic": "t", "log": str(tmp_path)})
    reader = topic.streamReader(topic.schema())
    monkeypatch.setattr(source, "open_log", lambda place: pytest.fail("a log was opened"))
    reader.stop()


@pytest.mark.parametrize(("place", "was_there"), [("folder", True), (Kafka("kafka://nowhere:1"), False)])
def test_a_write_that_failed_opens_no_log_where_there_is_no_topic_to_remove(
    monkeypatch: pytest.MonkeyPatch, place: Any, was_there: bool
):
    monkeypatch.setattr(frame_writers, "open_log", lambda place: pytest.fail("a log was opened"))
    chosen = Chosen("write", None, None, None)
    frame_writers.Target(place, TopicInfo("t", 1), chosen, None, was_there).forget()
