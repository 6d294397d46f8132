"""An application over the topics of a real Kafka broker, in this process: what comes out, once, whatever happens."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import OffsetSpec

from penstock import Kafka, StreamsBuilder, Topology, faults, produce
from penstock.engine.local import LocalApplication
from penstock.engine.operate.reset import Reset, Target, Wanted
from penstock.engine.rescaling.rescale import Rescale, Source
from penstock.errors import (
    CommitError,
    ConfigError,
    FencedError,
    LogError,
    OffsetOutOfRangeError,
    PenstockError,
    TopicNotFoundError,
)
from penstock.log.base import Log, TopicInfo
from penstock.log.memory import MemoryLog
from penstock.log.records import Records
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from penstock.values.times import wall_clock_ms
from support.kafka import Cluster
from support.kafka_case import Case, Crash, crash, expected
from support.topologies import EXAMPLES

SILENT_SECONDS = 3.0
"""Other tests of this broker wait meanwhile, each for less than what it takes for an answer."""
ROWS = [(f"k{n % 7}", n % 11, 1000 * n - 400 * (n % 5) + 1) for n in range(60)]


@pytest.fixture
def case(cluster: Cluster, tmp_path: Path) -> Case:
    return Case(cluster, tmp_path)


SAME = [
    "stream_join",
    "sessions",
    "table_join_by_foreign_key",
    "global_table_join",
    "three_stages",
]


@pytest.mark.parametrize("example", SAME)
def test_the_results_are_those_of_any_other_log_record_for_record(cluster: Cluster, tmp_path: Path, example: str):
    builder = StreamsBuilder()
    EXAMPLES[example](builder)
    topology = builder.build()
    for name in ("in", "other", "out"):
        cluster.made_anew(name, partitions=2)
    in_kafka, in_memory = cluster.opened(), MemoryLog()
    for name in ("in", "other", "out"):
        in_memory.create_topic(TopicInfo(name, 2))

    found = [_results(log, topology, tmp_path / log.url[:5]) for log in (in_memory, in_kafka)]
    assert sum(map(len, found[0]))
    assert found[0] == found[1]


def _results(log: Log, topology: Topology, folder: Path) -> list[list[tuple[Any, ...]]]:
    """All that comes out, partition by partition."""
    for first in (0, 30):
        for topic in topology.source_topics:
            rows = ROWS[first : first + 30] if topic == "in" else [(k, v + 1, t) for k, v, t in ROWS[first::2]]
            produce(rows, topic, key=str, value=int, log=log)
            log.end_offsets(topic)  # waits until it shows
    settings = Settings.load(environment={}, folder=folder, statestore_cache_max_bytes=0)
    application = LocalApplication(topology, "same", settings, log, LocalStorage(folder))
    application.run_until()
    application.close()
    ends = log.end_offsets("out")
    pieces = [list(log.read("out", partition, 0, end)) for partition, end in enumerate(ends)]
    return [[row for piece in some for row in rows_of(piece)] for some in pieces]


def rows_of(piece: Records) -> list[tuple[Any, ...]]:
    headers = [None] * len(piece) if piece.headers is None else piece.headers.to_pylist()
    return list(zip(piece.key.to_pylist(), piece.value.to_pylist(), piece.timestamp.tolist(), headers, strict=True))


def test_what_was_read_is_the_groups_offsets_so_that_any_tool_sees_the_lag(case: Case):
    case.fill(20)
    application = case.start()
    application.run_until()
    ends = case.cluster.opened().end_offsets(case.input)
    assert case.cluster.group() == {(case.input, 0): ends[0], (case.input, 1): ends[1]}
    assert application.coordinator.lag(application.coordinator.end_offsets()) == 0
    case.fill(5, first=20)
    assert sum(application.coordinator.end_offsets()[case.input]) > sum(ends)
    application.run_until()
    assert case.results() == expected(25)


POINTS = [
    "before-manifest",
    "after-manifest",
    "during-publish",
    "after-publish",
    "before-take-over",
    *faults.KAFKA_POINTS,
]
"""Those at which it matters what Kafka has."""


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_anywhere_loses_nothing_and_puts_nothing_out_twice(case: Case, at: Any, point: str):
    case.fill(20)
    first = case.start()
    first.run_until()
    case.fill(20, first=20)
    at(point, crash)
    with pytest.raises(Crash):
        (case.start() if point in faults.START_POINTS else first).run_until()

    case.fill(5, first=40)
    case.start().run_until()
    assert case.results() == expected(45)
    assert LocalStorage(case.folder / "checkpoint").list("outbox") == ["outbox/published"]


def test_a_transaction_that_the_broker_ends_is_repeated_from_the_outbox(case: Case, at: Any):
    case.fill(20)
    application = case.start()
    at("in-transaction", lambda: case.cluster.producer(case.cluster.name) and None)  # as its time-out does
    application.run_until()
    assert case.results() == expected(20)


def test_a_transaction_that_takes_too_long_is_ended_by_the_broker_and_repeated(case: Case, at: Any):
    case.fill(20)
    application = case.start(options={"transaction.timeout.ms": "1000"})
    publisher = next(iter(application.coordinator.log._publishers.values()))
    was_over: list[bool] = []

    def wait_until_it_is_over() -> None:
        publisher._producer.flush(30)
        topics = case.cluster.opened()._topics
        ends_of = lambda is_committed: topics.offsets(case.output, 2, OffsetSpec.latest(), is_committed)  # noqa: E731
        case.cluster.wait_for(lambda: ends_of(True) == ends_of(False))  # so long as it is open, readers stop before it
        was_over.append(True)

    at("in-transaction", wait_until_it_is_over)
    application.run_until()
    assert was_over == [True]
    assert case.results() == expected(20)


@pytest.mark.parametrize("point", ["before-manifest", "in-transaction"])
def test_a_program_waits_for_a_broker_that_is_silent_for_a_moment(case: Case, at: Any, kafka_process: int, point: str):
    """``make outages`` has longer ones, and brokers that are gone."""
    silenced: list[threading.Timer] = []

    def silence() -> None:
        os.kill(kafka_process, signal.SIGSTOP)
        silenced.append(threading.Timer(SILENT_SECONDS, os.kill, (kafka_process, signal.SIGCONT)))
        silenced[0].start()

    case.fill(20)
    application = case.start()
    at(point, silence)
    try:
        application.run_until()
    finally:
        for one in silenced:
            one.join()
    case.fill(5, first=20)
    application.run_until(application.coordinator.end_offsets())
    assert len(silenced) == 1
    assert case.results() == expected(25)


def test_a_transaction_that_was_committed_before_its_answer_was_lost_is_not_repeated(case: Case, at: Any):
    case.fill(20)
    application = case.start()

    def lose() -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    at("after-transaction", lose)
    application.run_until()
    assert case.results() == expected(20)


def test_a_commit_that_kafka_acknowledged_and_lost_is_told_before_anything_goes_on(case: Case, at: Any):
    case.fill(20)
    application = case.start()
    application.run_until()
    case.fill(5, first=20)

    def lose() -> None:
        case.cluster.forget_group()
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    at("before-transaction", lose)
    with pytest.raises(CommitError, match=r"has lost commit 1 .* and had acknowledged it.*The checkpoint is safe"):
        application.run_until()
    assert case.results() == expected(20)


@pytest.mark.parametrize("waits", [False, True], ids=["nothing waits", "another commit waits"])
def test_a_commit_that_kafka_lost_behind_a_program_that_died_is_told_by_the_next_start(
    case: Case, at: Any, waits: bool
):
    case.fill(20)
    application = case.start()
    application.run_until()
    before = case.cluster.notes()
    case.fill(20, first=20)
    application.run_until()
    if waits:
        case.fill(5, first=40)
        at("after-manifest", crash)
        with pytest.raises(Crash):
            application.run_until()
    case.cluster.go_back_to(before)

    for _ in range(2):
        with pytest.raises(CommitError, match=r"has lost commit 2 .*its last one is 1.*The checkpoint is safe"):
            case.start()
    assert case.results() == expected(40)


def test_a_program_goes_on_without_a_lost_commit_when_its_group_is_removed(case: Case):
    case.fill(20)
    application = case.start()
    application.run_until()
    before = case.cluster.notes()
    case.fill(20, first=20)
    application.run_until()
    case.cluster.go_back_to(before)
    case.cluster.forget_group()
    case.fill(5, first=40)
    case.start().run_until()
    assert case.results() == expected(45)


def test_a_zombie_that_wakes_up_stops_and_puts_nothing_out(case: Case):
    case.fill(20)
    zombie = case.start()
    zombie.run_until()
    case.fill(20, first=20)
    case.start().run_until()
    with pytest.raises(FencedError, match="was taken over"):
        zombie.run_until()
    assert case.results() == expected(40)


def test_a_zombie_in_the_middle_of_publishing_is_fenced_and_its_commit_is_there_once(case: Case, at: Any):
    case.fill(20)
    zombie = case.start()
    others: list[LocalApplication] = []
    at("in-transaction", lambda: others.append(case.start()))
    zombie.run_until()
    case.fill(1, first=20)
    with pytest.raises(FencedError, match="was taken over"):
        zombie.run_until()
    case.fill(4, first=21)
    others[0].run_until()
    assert case.results() == expected(25)


def test_another_checkpoint_under_the_same_application_id_is_refused(case: Case):
    case.fill(5)
    case.start().run_until()
    with pytest.raises(ConfigError, match=r"from another checkpoint than this one.*kafka-consumer-groups --delete"):
        case.start(checkpoint="other")
    case.cluster.forget_group()
    case.start(checkpoint="other").run_until()
    assert len(case.results()) == 10


def test_a_group_that_kafka_has_forgotten_is_no_reason_to_put_out_anything_twice(case: Case):
    case.fill(20)
    case.start().run_until()
    case.cluster.forget_group()
    case.fill(5, first=20)
    case.start().run_until()
    assert case.results() == expected(25)


def test_what_nobody_knows_to_be_published_or_not_is_asked_for(case: Case, at: Any):
    case.fill(20)
    application = case.start()
    application.run_until()
    case.fill(5, first=20)
    at("after-manifest", crash)
    with pytest.raises(Crash):
        application.run_until()
    case.cluster.forget_group()
    with pytest.raises(CommitError, match=r"no longer has offsets.*Whether commit 2 was published is not known"):
        case.start()
    (case.folder / "checkpoint/outbox/published").unlink()
    case.start().run_until()
    assert case.results() == expected(25)


def test_at_least_once_has_no_transactions_and_every_result(case: Case, at: Any):
    case.fill(20)
    first = case.start(processing_guarantee="at_least_once")
    first.run_until()
    assert case.results() == expected(20)
    ends = case.cluster.opened().end_offsets(case.output)
    assert (sum(ends), sum(case.cluster.group().values())) == (20, sum(case.cluster.log.end_offsets(case.input)))

    case.fill(5, first=20)
    at("before-offsets", crash)
    with pytest.raises(Crash):
        first.run_until()
    case.start(processing_guarantee="at_least_once").run_until()
    assert len(case.results()) == 30


@pytest.mark.kip("KS-12")
def test_new_partitions_of_a_source_are_refused_while_it_runs_and_at_the_next_start(case: Case):
    case.fill(5)
    application = case.start()
    application.run_until()
    case.cluster.add_partition(case.input)
    with pytest.raises(ConfigError, match=r"has 3 partitions, and had 2 .* Everything committed is safe"):
        application.run_until()
    with pytest.raises(ConfigError, match="partitions"):
        case.start()


@pytest.mark.parametrize("which", ["input", "output"])
def test_a_topic_that_is_removed_while_it_runs_is_told(case: Case, which: str):
    case.fill(5)
    application = case.start()
    application.run_until()
    case.fill(5, first=5)
    ends = application.coordinator.end_offsets()
    case.cluster.log.delete_topic(getattr(case, which))
    case.cluster.wait_for(lambda: not case.cluster.log.exists(getattr(case, which)))
    with pytest.raises(TopicNotFoundError, match=r"was removed.*safe"):
        application.run_until(ends)


def test_a_source_that_was_made_anew_is_not_read_from_the_middle(case: Case):
    case.fill(5)
    case.start().run_until()
    case.cluster.made_anew(case.input, partitions=2)
    with pytest.raises(OffsetOutOfRangeError, match="it was removed and created again"):
        case.start()


@pytest.mark.parametrize("on_lost_records", ["fail", "skip"])
def test_records_that_retention_took_are_named_or_gone_past(case: Case, on_lost_records: str):
    case.fill(20)
    application = case.start(on_lost_records=on_lost_records)
    starts = {p: end - 2 for p, end in enumerate(case.cluster.log.end_offsets(case.input))}
    case.cluster.log.trim(case.input, starts)
    if on_lost_records == "fail":
        with pytest.raises(OffsetOutOfRangeError, match="goes on at offset 0, but the records before offset"):
            application.run_until()
    else:
        assert application.run_until() == 2  # of each partition the last one, with the marker behind it
        assert application.coordinator.lag(application.coordinator.end_offsets()) == 0


def test_a_result_that_the_topic_does_not_take_stops_the_application_before_anything_is_committed(case: Case):
    builder = StreamsBuilder()
    builder.stream(case.input, value=int).map_values(lambda value: b"x" * 2_000_000, value=bytes).to(case.output)
    case.fill(1)
    own = Settings.load(environment={}, folder=case.folder)
    storage = LocalStorage(case.folder / "checkpoint")
    application = LocalApplication(builder.build(), case.cluster.name, own, case.cluster.opened(), storage)
    before = application.coordinator.manifest.commit
    with pytest.raises(PenstockError, match=r"(?s)max\.message\.bytes.*nothing of this batch was committed"):
        application.run_until()
    assert application.coordinator.manifest.commit == before
    assert sum(case.cluster.log.end_offsets(case.output)) == 0  # no transaction, not even an empty one


def test_a_cluster_that_goes_away_stops_the_application_and_the_next_start_publishes_what_waits(case: Case, at: Any):
    case.fill(20)
    application = case.start()
    publisher = next(iter(application.coordinator.log._publishers.values()))

    def cut() -> None:
        publisher.close()
        publisher._clients.cluster = Kafka("127.0.0.1:1", timeout="1 second")

    at("after-manifest", cut)
    with pytest.raises((LogError, CommitError)):
        application.run_until()
    case.start().run_until()
    assert case.results() == expected(20)


@pytest.mark.kip("KS-06")
def test_topics_of_the_cluster_that_appear_and_match_are_taken_up(cluster: Cluster, tmp_path: Path):
    out, settings = cluster.topic("out"), Settings.load(environment={}, folder=tmp_path)
    builder = StreamsBuilder()
    builder.stream(re.compile(f"{cluster.name}-many-.*"), key=str, value=str).to(out)
    log = cluster.opened()
    application = LocalApplication(builder.build(), cluster.name, settings, log, LocalStorage(tmp_path))
    for number, key in enumerate(["a", "b"], 1):
        topic = cluster.topic(f"many-{number}")
        produce([(key, "x", number)], topic, key=str, value=str, log=cluster.log)
        cluster.wait_for_records(topic, 1)
        application.run_until()
        cluster.wait_for_records(out, number)
    application.close()
    assert cluster.rows(out, key=str, value=str) == [("a", "x", 1), ("b", "x", 2)]


@pytest.mark.kip("KS-07")
def test_the_first_record_of_a_time_is_found_without_reading_those_before_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    topic, ahead = (
        cluster.topic("in"),
        wall_clock_ms() + 600_000,
    )  # of marks of transactions, which have the broker's time
    for times in ([10, 30, 15], [20, 40, 5]):
        produce([("k", "x", ahead + time) for time in times], topic, key=str, value=str, log=cluster.log)
        cluster.log.end_offsets(topic)
    log, begun, read = cluster.opened(), [], type(cluster.log).read

    def noting(log: Log, topic: str, partition: int, start: int, end: int) -> Iterator[Records]:
        begun.append(start)
        return read(log, topic, partition, start, end)

    monkeypatch.setattr(type(log), "read", noting)
    assert [log.offset_at(topic, 0, time) for time in (-1, 0, ahead + 20, ahead + 40, ahead + 41)] == [0, 0, 1, 5, None]
    assert begun == [0, 0, 1, 5]
    with pytest.raises(TopicNotFoundError):
        log.offset_at(f"{topic}-not", 0, 5)


@pytest.mark.kip("KS-13")
def test_a_reset_application_begins_again_with_empty_outputs(case: Case):
    case.fill(20)
    application = case.start()
    application.run_until()
    application.close()
    wanted = Wanted(Target("earliest"), empty_outputs=True)
    Reset(LocalStorage(case.folder / "checkpoint"), case.cluster.opened(), wanted).execute()
    application = case.start()
    application.run_until()
    assert case.results() == expected(20)
    ends = case.cluster.opened().end_offsets(case.input)
    assert case.cluster.group() == {(case.input, 0): ends[0], (case.input, 1): ends[1]}


@pytest.mark.kip("KS-12")
def test_an_application_goes_on_when_its_topic_was_made_larger_and_it_was_rescaled(case: Case):
    case.fill(20)
    application = case.start()
    application.run_until()
    application.close()
    case.cluster.add_partition(case.input)
    planned = Rescale(case.topology(), LocalStorage(case.folder / "checkpoint"), case.cluster.opened(), 3)
    assert planned.plan.sources == [Source(case.input, 2, 3, False)]
    assert planned.execute() == 5
    rows = [(f"k{n}", n % 5, n + 1) for n in range(20, 40)]
    produce(rows, case.input, key=str, value=int, log=case.cluster.opened())  # the other has seen two partitions
    case.log = case.cluster.opened()
    own = Settings.load(environment={}, folder=case.folder, statestore_cache_max_bytes=0)
    checkpoint, tasks = LocalStorage(case.folder / "checkpoint"), case.folder / "tasks"
    application = LocalApplication(case.topology(), case.cluster.name, own, case.log, checkpoint, tasks)
    application.run_until()
    application.close()
    assert case.results() == expected(40)
