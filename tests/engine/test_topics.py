"""The topics of an application: made anew, begun somewhere, partly gone, or of other types than it says."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock import AutoOffsetReset, StreamsBuilder, Topology
from penstock.engine.local import LocalApplication
from penstock.engine.shared.manifest import Manifest, Manifests
from penstock.engine.shared.runner import StageRunner
from penstock.engine.shared.work import StageWork, TaskDone
from penstock.errors import ConfigError, OffsetOutOfRangeError, TopicNotFoundError, TopologyError
from penstock.figures.losses import losses_of
from penstock.log.base import TopicInfo
from penstock.log.consume import consume
from penstock.log.memory import MemoryLog
from penstock.log.produce import produce
from penstock.serdes import Serde
from penstock.settings import Settings
from penstock.values.times import wall_clock_ms
from support.world import SETTINGS, World

pytestmark = pytest.mark.slow


@pytest.fixture(params=["file", "memory"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Counts of the keys of topic ``in``, in topic ``out``."""
    world = OneAtATime(tmp_path)
    if request.param == "memory":
        world.log = MemoryLog()
    yield world
    world.end()


class OneAtATime(World):
    """A world in which a start ends the program before, wherever it is."""

    running: LocalApplication | None = None

    def start(self, *arguments: Any, **more: Any) -> LocalApplication:
        self.end()
        self.running = super().start(*arguments, **more)
        return self.running

    def end(self) -> None:
        if self.running is not None:
            self.running.close()


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What was logged as a warning since the last call."""

    def take() -> list[str]:
        messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        caplog.clear()
        return messages

    return take


def replace_newest_manifest(world: World, change: Callable[[Manifest], Manifest]) -> None:
    """Write another newest manifest in the place of the one that is there."""
    manifests = Manifests(world.storage)
    newest = manifests.newest()
    assert newest is not None
    manifests.delete(newest.commit)
    assert manifests.create(change(newest))


def without_ids(manifest: Manifest) -> Manifest:
    """A manifest as it was before topics had ids."""
    return msgspec.structs.replace(manifest, topics={})


# --- an output that was removed --------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [None, 1, 3])
@pytest.mark.parametrize("crash", [False, True])
def test_an_output_that_was_removed_goes_on_with_what_comes_after(
    world: World, warnings: Callable[[], list[str]], partitions: int | None, crash: bool
):
    world.run("a", "b", crash=crash)
    world.log.delete_topic("out")
    if partitions is not None:
        world.log.create_topic(TopicInfo("out", partitions, "str", "int"))

    world.run("a")
    assert (world.output(), world.log.size("out")) == ([("a", 2)], 1)
    assert [text for text in warnings() if "removed and created again: the results of application 'app' up to" in text]
    world.run("b")
    assert sorted(world.output()) == [("a", 2), ("b", 2)]
    assert world.counts() == [("a", 2), ("b", 2)]
    assert warnings() == []


def crash_before_publishing(world: World, monkeypatch: pytest.MonkeyPatch, *keys: str) -> None:
    """Make a commit whose results are in no topic yet."""

    def crash(*_: Any) -> bool:
        raise KeyboardInterrupt

    world.produce(*keys)
    application = world.start()
    monkeypatch.setattr(world.log, "append", crash)
    with pytest.raises(KeyboardInterrupt):
        application.run_until()
    monkeypatch.undo()


def test_results_of_a_commit_that_a_removed_output_never_saw_are_not_put_into_the_new_one(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    world.run("a")
    crash_before_publishing(world, monkeypatch, "a", "b")
    world.log.delete_topic("out")
    world.run("a")
    assert world.output() == [("a", 3)]
    assert world.counts() == [("a", 3), ("b", 1)]


@pytest.mark.parametrize("crash", [False, True])
def test_a_removed_output_goes_on_too_where_the_checkpoint_is_older_than_ids(
    world: World, monkeypatch: pytest.MonkeyPatch, crash: bool
):
    world.run("a")
    if crash:
        crash_before_publishing(world, monkeypatch, "b")
    else:
        world.run("b")
    replace_newest_manifest(world, without_ids)
    world.log.delete_topic("out")
    world.run("a")
    assert world.output() == [("a", 2)]
    assert world.counts() == [("a", 2), ("b", 1)]


def test_an_output_that_is_removed_while_the_program_runs_stops_it_and_the_next_start_goes_on(world: World):
    world.produce("a")
    application = world.start()
    application.run_until()
    world.log.delete_topic("out")
    world.produce("b")
    with pytest.raises(
        TopicNotFoundError, match="output topic 'out' was removed while application 'app' ran; everything up to commit"
    ):
        application.run_until()
    application.close()
    world.run("a")
    assert world.output() == [("b", 1), ("a", 2)]


class Meddler(StageRunner):
    """Runs the tasks of an application, and something else right before or after."""

    def __init__(self, application: Any, before: Callable[[], None] | None, after: Callable[[], None] | None):
        self._application = application
        self._before = before
        self._after = after

    def run(self, stage: StageWork, label: str) -> list[TaskDone]:
        for meddle in filter(None, [self._before]):
            meddle()
        done = self._application.run(stage, label)
        for meddle in filter(None, [self._after]):
            meddle()
        self._before = self._after = None
        return list(done)


def meddled(world: World, before: Callable[[], None] | None = None, after: Callable[[], None] | None = None) -> Any:
    """A program that something happens to in its first commit."""
    application = world.start()
    application.coordinator.runner = Meddler(application, before, after)
    return application


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_output_that_is_made_anew_in_the_middle_of_a_commit_has_none_of_it(world: World, when: str):
    world.run("a")

    def make_anew() -> None:
        world.log.delete_topic("out")
        world.log.create_topic(TopicInfo("out", 1, "str", "int"))

    world.produce("a")
    with pytest.raises(TopicNotFoundError, match="output topic 'out' was removed while application 'app' ran"):
        meddled(world, **{when: make_anew}).run_until()
    world.run("b")
    assert world.output() == [("a", 2), ("b", 1)]


# --- a source that was made anew -------------------------------------------------------------------------------------

MADE_ANEW = (
    r"^source topic 'in' in .* is not the one that application 'app' has read: it was removed and created again, or "
    r"this is another log. Of the old one the records before offset 3 of partition 0 are processed; the new one is not "
    r"read from the middle, and everything up to commit \d+ is safe. Start under another application id to process the "
    r"new topic from its beginning, or bring the old one back from a backup$"
)


@pytest.mark.parametrize("records", [0, 1, 3, 30])
def test_a_source_that_was_made_anew_is_refused_however_long_it_is(world: World, records: int):
    world.run("a", "b", "c")
    world.log.delete_topic("in")
    if records:
        world.produce(*["d"] * records)
    else:
        world.log.create_topic(TopicInfo("in", 1, "str", "str"))
    for _ in range(2):
        with pytest.raises(OffsetOutOfRangeError, match=MADE_ANEW):
            world.start()
    assert world.output() == [("a", 1), ("b", 1), ("c", 1)]

    world.log.delete_topic("out")
    world.storage.root = world.folder / "another checkpoint"
    other = world.start(application_id="another", machine="another")
    assert other.run_until() == records
    assert world.output() == [("d", n + 1) for n in range(records)]


def test_a_source_that_comes_back_as_it_was_is_read_on(tmp_path: Path):
    world = World(tmp_path)
    world.run("a")
    kept = (world.log.root / "in").rename(tmp_path / "kept")
    world.produce("b", "b")
    with pytest.raises(OffsetOutOfRangeError, match="created again"):
        world.start()
    world.log.delete_topic("in")
    with pytest.raises(TopicNotFoundError, match="topic 'in' does not exist"):
        world.start()
    kept.rename(world.log.root / "in")
    world.run("a")
    assert world.output() == [("a", 1), ("a", 2)]


def test_a_source_of_which_nothing_was_read_may_be_made_anew(world: World):
    world.log.create_topic(TopicInfo("in", 1, "str", "str"))
    world.run("a")
    world.log.create_topic(TopicInfo("more", 1, "str", "str"))
    both = counts_of(["in", "more"])
    world.start(both).close()
    world.log.delete_topic("more")
    produce([("a", "x", 0)], "more", value=str, log=world.log)
    world.start(both).run_until()
    assert world.output() == [("a", 1), ("a", 2)]


def counts_of(topics: str | list[str], **source: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream(topics, value=str, **source).group_by_key().count("counts").to_stream().to("out")
    return builder.build()


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_source_that_is_removed_while_the_program_runs_stops_it(world: World, is_made_anew: bool):
    world.produce("a", "b", "c")
    application = world.start()
    application.run_until()
    world.log.delete_topic("in")
    if is_made_anew:
        world.produce(*"abcdef")
    kind, says = (
        (OffsetOutOfRangeError, MADE_ANEW)
        if is_made_anew
        else (TopicNotFoundError, "source topic 'in' was removed while application 'app' ran; everything up to commit")
    )
    with pytest.raises(kind, match=says):
        application.coordinator.step({"in": [6]})
    assert world.output() == [("a", 1), ("b", 1), ("c", 1)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_source_that_is_made_anew_in_the_middle_of_a_commit_is_not_committed(world: World, when: str):
    world.run("a", "b", "c")
    commits = Manifests(world.storage).numbers()

    def make_anew() -> None:
        world.log.delete_topic("in")
        world.produce(*"defghi")

    world.produce("a", "b", "c")
    application = meddled(world, **{when: make_anew})
    started = Manifests(world.storage).numbers()
    with pytest.raises(OffsetOutOfRangeError, match=MADE_ANEW):
        application.run_until()
    assert Manifests(world.storage).numbers() == started
    assert len(started) - len(commits) <= 1
    assert world.output() == [("a", 1), ("b", 1), ("c", 1)]


@pytest.mark.parametrize("records", [2, 30])
def test_a_checkpoint_that_is_older_than_ids_takes_the_topics_as_they_are_and_knows_them_from_then_on(
    world: World, records: int
):
    world.run("a", "b", "c")
    replace_newest_manifest(world, without_ids)
    world.run("a", "b")
    assert world.output() == [("a", 1), ("b", 1), ("c", 1), ("a", 2), ("b", 2)]

    world.log.delete_topic("in")
    world.produce(*["d"] * records)
    with pytest.raises(OffsetOutOfRangeError, match=r"Of the old one the records before offset 5 of partition 0"):
        world.start()


# --- where reading begins --------------------------------------------------------------------------------------------


def trim(world: World, start: int, topic: str = "in") -> None:
    """Remove the records before an offset, as retention does."""
    world.log.trim(topic, {0: start})


def test_a_new_application_begins_with_the_first_record_that_is_still_there(world: World):
    world.produce("a", "b", "c")
    trim(world, 1)
    world.run("c", crash=True)
    assert world.output() == [("b", 1), ("c", 1), ("c", 2)]
    trim(world, 4)
    world.run("b")
    assert world.output() == [("b", 1), ("c", 1), ("c", 2), ("b", 2)]


def start_with(world: World, topology: Topology | None = None, **settings: Any) -> Any:
    world.settings = Settings.load(environment={}, folder=world.folder, **SETTINGS, **settings)
    return world.start(topology)


LATEST: list[Callable[[World], Any]] = [
    lambda world: start_with(world, auto_offset_reset="latest"),
    lambda world: start_with(world, counts_of("in", offset_reset="latest")),
    lambda world: start_with(world, counts_of("in", offset_reset="latest"), auto_offset_reset="none"),
]


@pytest.mark.parametrize("start", LATEST)
def test_a_source_can_begin_with_what_comes_from_now_on(world: World, start: Callable[[World], Any]):
    world.produce("a", "b")
    application = start(world)
    world.produce("a", "c")
    assert application.run_until() == 2
    application.close()
    assert world.output() == [("a", 1), ("c", 1)]

    world.produce("a", "d")  # while nothing runs: a start is not a beginning
    application = start(world)
    assert application.run_until() == 2
    assert world.output() == [("a", 1), ("c", 1), ("a", 2), ("d", 1)]


def test_what_came_since_the_first_start_is_read_though_that_start_read_nothing(world: World):
    world.produce("a")
    start_with(world, auto_offset_reset="latest").close()
    world.produce("b")
    start_with(world, auto_offset_reset="latest").run_until()
    assert world.output() == [("b", 1)]


def test_each_source_can_begin_elsewhere(world: World):
    produce([("a", "x", 0), ("b", "x", 0)], "in", value=str, log=world.log)
    produce([("a", "x", 0), ("c", "x", 0)], "more", value=str, log=world.log)
    builder = StreamsBuilder()
    builder.stream("in", value=str, offset_reset="latest").merge(
        builder.stream("more", value=str, offset_reset="earliest")
    ).group_by_key().count("counts").to_stream().to("out")
    start_with(world, builder.build(), auto_offset_reset="none").run_until()
    assert world.output() == [("a", 1), ("c", 1)]


def test_a_source_that_a_later_version_of_the_program_reads_as_well_begins_as_it_says(world: World):
    produce([("a", "x", 0)], "more", value=str, log=world.log)
    world.run("a")
    world.produce("b")
    application = start_with(world, counts_of(["in", "more"]), auto_offset_reset="latest")
    produce([("c", "x", 0)], "more", value=str, log=world.log)
    application.run_until()
    assert world.output() == [("a", 1), ("b", 1), ("c", 1)]


def test_with_none_a_source_must_have_been_read_before(world: World):
    world.produce("a")
    says = (
        "application 'app' has no offsets of source topic 'in', and is not to choose where to begin "
        r"\(auto_offset_reset is 'none'\): it has not read the topic yet, or its checkpoint is lost"
    )
    with pytest.raises(ConfigError, match=says):
        start_with(world, auto_offset_reset="none")
    start_with(world, auto_offset_reset="earliest").run_until()
    world.produce("a")
    start_with(world, auto_offset_reset="none").run_until()
    assert world.output() == [("a", 1), ("a", 2)]


def test_a_table_begins_as_it_says_and_a_global_table_always_with_all_there_is(world: World):
    for topic in ("table", "everywhere"):
        produce([("k", "old", 0)], topic, value=str, log=world.log)
    world.log.create_topic(TopicInfo("in", 1, "str", "str"))
    builder = StreamsBuilder()
    table = builder.table("table", value=str, store="here", offset_reset="latest")
    everywhere = builder.global_table("everywhere", value=str, store="everywhere")
    stream = builder.stream("in", value=str).left_join(table, lambda value, own: f"{value} {own}", value=str)
    both = stream.join(
        everywhere, lambda value, other: f"{value} {other}", key_selector=lambda key, value: key, value=str
    )
    both.to("out")
    application = start_with(world, builder.build(), auto_offset_reset="latest")
    produce([("k", "x", 1)], "in", value=str, log=world.log)
    application.run_until()
    assert world.output() == [("k", "x None old")]


def test_a_checkpoint_that_is_older_than_ids_begins_nothing_at_the_end(world: World):
    world.log.create_topic(TopicInfo("in", 2, "str", "str"))
    world.run("a")  # in one of the partitions
    replace_newest_manifest(world, without_ids)
    world.produce(*"abcdefgh")
    assert start_with(world, auto_offset_reset="latest").run_until() == 8


@pytest.mark.parametrize("wrong", ["newest", "", 5])
def test_another_beginning_is_refused(wrong: Any):
    builder = StreamsBuilder()
    for source in (builder.stream, builder.table):
        with pytest.raises(
            TopologyError, match=r"offset_reset at .*test_topics.py:\d+ must be one of earliest, latest, n"
        ):
            source("in", offset_reset=wrong)
    with pytest.raises(ConfigError):
        Settings(auto_offset_reset=wrong)
    with pytest.raises(ConfigError):
        Settings(on_lost_records=wrong)


# --- records that are gone -------------------------------------------------------------------------------------------

LOST = (
    r"^topic 'in', partition 0: application 'app' goes on at offset 2, but the records before offset 5 were removed by "
    r"retention: 3 of them were never read. Everything committed is safe. To continue without them, start with "
    r"on_lost_records 'skip'; to process the topic again, start under another application id. A longer retention keeps"
)


@pytest.mark.parametrize("is_running", [False, True])
@pytest.mark.parametrize("in_the_middle", [False, True])
def test_records_that_retention_removes_before_they_are_read_are_missed(
    world: World, is_running: bool, in_the_middle: bool
):
    world.produce("a", "b")
    application = world.start()
    application.run_until()
    world.produce("a", "b", "c", "d")
    if not is_running:
        application.close()
        application = world.start()
    if in_the_middle:
        application.coordinator.runner = Meddler(application, lambda: trim(world, 5), None)
    else:
        trim(world, 5)
    with pytest.raises(OffsetOutOfRangeError, match=LOST):
        application.run_until()
    assert world.output() == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("in_the_middle", [False, True])
def test_a_program_can_go_on_without_them(world: World, warnings: Callable[[], list[str]], in_the_middle: bool):
    world.run("a", "b")
    world.produce("a", "b", "c", "d")
    application = start_with(world, on_lost_records="skip")
    if in_the_middle:
        application.coordinator.runner = Meddler(application, lambda: trim(world, 5), None)
    else:
        trim(world, 5)
    assert application.run_until() == 1
    assert world.output() == [("a", 1), ("b", 1), ("d", 1)]
    assert application.coordinator.offsets() == {"in": [6]}
    [loss] = losses_of(application.coordinator.manifest.metrics).values()
    assert loss.described == "3 records skipped by in (removed-unread)"
    assert loss.why == "retention removed them from the topic before they were read; a longer one keeps them"
    assert warnings()[-1:] == [
        "topic 'in', partition 0: the records at the offsets 2 to 4 were removed by retention before application 'app' "
        "read them; they are skipped"
    ]


def test_all_unread_records_may_be_gone(world: World, warnings: Callable[[], list[str]]):
    world.run("a")
    world.produce("b", "c")
    trim(world, 3)
    with pytest.raises(
        OffsetOutOfRangeError, match="goes on at offset 1, but the records before offset 3 were removed"
    ):
        world.start().run_until()
    application = start_with(world, on_lost_records="skip")
    for _ in range(3):
        assert application.run_until() == 0
    assert len(warnings()) == 1
    world.produce("d")
    application.run_until()
    assert world.output() == [("a", 1), ("d", 1)]


# --- types -----------------------------------------------------------------------------------------------------------


class Rot13(Serde):
    """A format of a program's own."""

    name = "rot13"

    def encode(self, value: Any) -> bytes:
        return bytes(value, "ascii")

    def decode(self, data: bytes) -> Any:
        return str(data, "ascii")


def passing(source: dict[str, Any], mapped: Any = None) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", **source)
    (stream if mapped is None else stream.map_values(lambda value: value, value=mapped)).to("out")
    return builder.build()


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (
            {},
            r"holds values of type int, but the source at .*:\d+ reads values of type json.*, value=\.\.\., or",
        ),
        (
            {"value": float},
            r"holds values of type int, but the source at .*:\d+ reads values of type float; nothing was",
        ),
        (
            {"key": int, "value": int},
            r"holds keys of type str, but the source at .*:\d+ reads keys of type int; nothing",
        ),
    ],
)
def test_a_source_of_another_type_than_its_topic_is_refused_before_the_start(
    world: World, source: dict[str, Any], says: str
):
    produce([("a", 1, 0)], "in", value=int, log=world.log)
    for topology in (passing(source), table_of(source)):
        with pytest.raises(ConfigError, match=f"^topic 'in' {says}"):
            world.start(topology)
    assert (world.log.topics(), world.storage.list("")) == (["in"], [])


def table_of(source: dict[str, Any]) -> Topology:
    builder = StreamsBuilder()
    builder.table("in", store="table", **source).to_stream().to("out")
    return builder.build()


@pytest.mark.parametrize(
    ("held", "source"),
    [
        (int, {"value": int}),
        (int, {"value": bytes}),
        (bytes, {"value": int}),
        (dict, {}),
        (dict, {"value": dict}),
        (str, {"value": Rot13()}),
        (Rot13(), {"value": Rot13()}),
    ],
)
def test_bytes_the_same_type_and_a_format_of_ones_own_are_read(world: World, held: Any, source: dict[str, Any]):
    values = {int: 1, bytes: b"\0" * 8, dict: {}}
    produce([("a", values.get(held, "x"), 0)], "in", value=held, log=world.log)
    world.start(passing(source)).run_until()
    assert world.log.size("out") == 1


@pytest.mark.parametrize(
    ("mapped", "says"),
    [
        (
            str,
            r"holds values of type int, but to\(\) at .*:\d+ writes values of type str; nothing was started. Convert",
        ),
        (Rot13(), r"holds values of type int, but to\(\) at .*:\d+ writes values of type rot13; nothing was started"),
    ],
)
def test_a_sink_of_another_type_than_its_topic_is_refused_before_the_start(world: World, mapped: Any, says: str):
    world.produce("a")
    produce([("a", 1, 0)], "out", value=int, log=world.log)
    with pytest.raises(ConfigError, match=f"^topic 'out' {says}"):
        world.start(passing({"value": str}, mapped))
    assert (world.log.size("out"), world.storage.list("")) == (1, [])


def test_a_program_whose_output_changes_its_type_is_refused_until_the_old_output_is_removed(world: World):
    world.produce("a")
    world.start(passing({"value": str})).run_until()
    with pytest.raises(ConfigError, match=r"remove this one if nobody needs it \(penstock topics rm out\)"):
        world.start(lengths())
    world.log.delete_topic("out")
    world.produce("b")
    world.start(lengths()).run_until()
    assert world.output() == [("b", 1)]


def lengths() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", value=str).map_values(len, value=int).to("out")
    return builder.build()


def test_bytes_go_into_a_topic_of_any_type_and_any_type_into_one_of_bytes(world: World):
    world.produce("a")
    world.log.create_topic(TopicInfo("out", 1, "str", "int"))
    world.log.create_topic(TopicInfo("raw", 1))
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    stream.map_values(lambda value: b"\0" * 8, value=bytes).to("out")
    stream.to("raw")
    world.start(builder.build()).run_until()
    assert [(r.key, r.value) for topic in ("out", "raw") for r in consume(topic, log=world.log)] == [
        ("a", 0),
        (b"a", b"x"),
    ]


# --- begun at a time -------------------------------------------------------------------------------------------------


@pytest.mark.kip("KS-07")
@pytest.mark.parametrize(
    ("reset", "read"),
    [
        (AutoOffsetReset.by_timestamp(20), ["b", "c", "d"]),
        ("by_timestamp:1970-01-01T00:00:00.015", ["b", "c", "d"]),
        (datetime(1970, 1, 1, 0, 0, 0, 30_000), ["b", "c", "d"]),
        ("by_timestamp:31", []),
        (AutoOffsetReset.by_duration("1 day"), []),
        (AutoOffsetReset.by_duration("200 weeks"), []),
        (timedelta(days=365 * 200), ["a", "b", "c", "d"]),
        ("by_duration:P99999D", ["a", "b", "c", "d"]),
        (AutoOffsetReset.earliest(), ["a", "b", "c", "d"]),
        (AutoOffsetReset.latest(), []),
    ],
)
def test_a_source_is_begun_with_the_first_record_of_a_time(world: World, reset: Any, read: list[str]):
    builder = StreamsBuilder()
    builder.stream("in", value=str, offset_reset=reset).to("out")
    world.log.create_topic(TopicInfo("in", 1, "str", "str"))
    for key, time in [("a", 10), ("b", 30), ("c", 15), ("d", 20)]:
        produce([(key, "x", time)], "in", value=str, log=world.log)
    running = world.start(builder.build())
    running.run_until()
    assert [key for key, _ in world.output()] == read
    produce([("e", "x", 1)], "in", value=str, log=world.log)
    running.run_until()
    assert [key for key, _ in world.output()] == [*read, "e"]


@pytest.mark.kip("KS-07")
@pytest.mark.parametrize("reset", [AutoOffsetReset.by_duration("1 hour"), timedelta(hours=1), "by_duration:PT1H"])
def test_a_source_is_begun_so_long_ago(world: World, reset: Any):
    builder = StreamsBuilder()
    builder.stream("in", value=str, offset_reset=reset).to("out")
    now = wall_clock_ms()
    rows = [("old", "x", now - 7_200_000), ("new", "x", now - 1_800_000), ("late", "x", now - 7_200_000)]
    produce(rows, "in", value=str, log=world.log)
    world.start(builder.build()).run_until()
    assert [key for key, _ in world.output()] == ["new", "late"]


@pytest.mark.kip("KS-07")
def test_each_partition_is_begun_where_its_own_records_reach_the_time(world: World):
    builder = StreamsBuilder()
    builder.stream("in", value=str, offset_reset="by_timestamp:50").to("out")
    world.log.create_topic(TopicInfo("in", 4, "str", "str"))
    rows = [(key, "x", time) for time, key in enumerate("abcdefghijklmnopqrstuvwxyz" * 4)]
    produce(rows, "in", value=str, log=world.log)
    world.start(builder.build()).run_until()
    assert {record.timestamp for record in consume("out", log=world.log)} == set(range(50, 104))


@pytest.mark.kip("KS-07")
def test_the_setting_says_it_for_all_sources_and_nonsense_is_refused(world: World):
    world.settings = replace(world.settings, auto_offset_reset="by_timestamp:5")
    world.produce("a")
    world.start().run_until()
    assert world.output() == []
    with pytest.raises(ConfigError, match=r"auto_offset_reset must be one of earliest, .*; got 'by_timestamp:'"):
        Settings(auto_offset_reset="by_timestamp:")
    with pytest.raises(TopologyError, match=r"offset_reset at .* must be one of earliest, .*; got 'begin'"):
        StreamsBuilder().stream("in", offset_reset="begin")
