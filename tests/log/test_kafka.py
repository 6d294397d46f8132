"""The topics of a real Kafka broker as a log."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock import Kafka
from penstock.errors import (
    ConfigError,
    LogError,
    OffsetOutOfRangeError,
    TopicExistsError,
    TopicNotFoundError,
)
from penstock.log.base import Log, TopicInfo
from penstock.log.open import open_log
from penstock.log.records import Records
from penstock.log.watch import TopicWatch
from support.kafka import Cluster
from support.logs import append, write


@pytest.fixture(params=[sys.maxsize, 1], ids=["one by one", "in bulk"])
def reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many records there are to read."""
    monkeypatch.setattr("penstock.log.kafka.source._MUCH", request.param)


@pytest.fixture(params=[sys.maxsize, 1], ids=["one by one", "in bulk"])
def writing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many records there are to write."""
    monkeypatch.setattr("penstock.log.kafka.sink._MUCH", request.param)


def rows(log: Log, topic: str, partition: int = 0, start: int = 0, end: int | None = None) -> list[tuple[Any, ...]]:
    """Offset, key, value, timestamp and headers."""
    end = log.end_offsets(topic)[partition] if end is None else end
    return [row for piece in log.read(topic, partition, start, end) for row in _rows(piece)]


def _rows(piece: Records) -> list[tuple[Any, ...]]:
    offsets = piece.offsets.tolist()
    headers = [()] * len(piece) if piece.headers is None else piece.headers.to_pylist()
    pairs = [[(one["key"], one["value"]) for one in some or ()] for some in headers]
    return list(zip(offsets, piece.key.to_pylist(), piece.value.to_pylist(), piece.timestamp.tolist(), pairs))


def test_the_client_that_is_installed_is_one_of_those_whose_memory_is_known():
    """If it is not: look whether its clients still begin with their ``rd_kafka_t *``, and name it in ``bulk.py``."""
    from penstock.log.kafka import bulk

    assert bulk.is_possible()


@pytest.mark.usefixtures("writing")
@pytest.mark.parametrize("options", [{}, {"queue.buffering.max.messages": "4"}], ids=["", "with little room"])
def test_records_without_headers_are_written_as_they_were_given(cluster: Cluster, options: dict[str, str]):
    topic = cluster.topic("t", partitions=2)
    given = [(b"a", b"1", 0), (None, b"x" * 70_000, 2**45), (b"", None, 12), (b"b", b"", 13), (None, None, 14)] * 3
    key, value = (pa.array([row[i] for row in given], pa.binary()) for i in (0, 1))
    times = np.array([row[2] for row in given], np.int64)
    log = cluster.opened(options=options)
    with log.writer(topic, "name") as writer:
        writer.write(1, key, value, times)
        writer.write(0, key[4:9], value[4:9], times[4:9])
        writer.write(0, pa.nulls(2, pa.binary()), pa.nulls(2, pa.binary()), times[2:4])
    assert log.append(topic, writer.segments())
    log.end_offsets(topic)  # waits until it shows

    found = [row[1:4] for row in rows(cluster.opened(), topic, 1)]
    assert found == [(key, value, max(time, 1)) for key, value, time in given]
    found = [row[1:4] for row in rows(cluster.opened(), topic, 0)]
    assert found == [
        *((key, value, max(time, 1)) for key, value, time in given[4:9]),
        *((None, None, t) for t in (12, 13)),
    ]


@pytest.mark.usefixtures("reading")
def test_records_are_read_as_they_were_written(cluster: Cluster):
    topic = cluster.topic("t", partitions=2)
    written = [
        (b"a", b"1", 10, []),
        (None, b"without a key", 11, []),
        (b"deleted", None, 12, [("n", b"1"), ("n", b""), ("ä", b"\xff")]),
        (b"", b"", 5, []),
        (b"\x00\xff" * 3, b"x" * 100_000, 2**50, []),
    ]
    append(cluster.log, topic, *written, partition=1)
    assert cluster.log.end_offsets(topic) == [0, 6]

    assert rows(cluster.opened(), topic, 1) == [(offset, *row) for offset, row in enumerate(written)]
    assert rows(cluster.opened(), topic, 0) == []
    assert cluster.log.topic(topic).partitions == 2
    assert topic in cluster.log.topics()


@pytest.mark.usefixtures("reading")
def test_a_range_of_offsets_begins_and_ends_anywhere_and_offsets_have_gaps(cluster: Cluster):
    topic = cluster.topic("t")
    for first in (0, 3, 6):  # three transactions, with a marker behind each
        append(cluster.log, topic, *((b"k", b"%d" % n, n + 1) for n in range(first, first + 3)))

    every = [(n + n // 3, b"k", b"%d" % n, n + 1, []) for n in range(9)]
    assert cluster.log.end_offsets(topic) == [12]
    for start in range(13):
        for end in (start, start + 1, start + 4, 12):
            expected = [row for row in every if start <= row[0] < end]
            assert rows(cluster.log, topic, 0, start, min(end, 12)) == expected


@pytest.mark.usefixtures("reading")
def test_what_is_in_an_open_transaction_is_not_there_yet_and_what_was_aborted_never_was(cluster: Cluster):
    topic = cluster.topic("t")
    append(cluster.log, topic, (b"a", b"1", 10))
    other = cluster.producer(cluster.name)
    other.begin_transaction()
    other.produce(topic, b"2", b"b", 0, timestamp=11)
    other.flush(30)
    append(cluster.log, topic, (b"c", b"3", 12))
    log = cluster.opened()
    cluster.wait_for(lambda: log.end_offsets(topic) == [2])
    assert (log.end_offsets(topic), rows(log, topic)) == ([2], [(0, b"a", b"1", 10, [])])

    other.abort_transaction(30)
    cluster.wait_for(lambda: log.end_offsets(topic) == [6])
    assert (rows(log, topic, 0, 2)) == ([(3, b"c", b"3", 12, [])])


@pytest.mark.usefixtures("reading")
def test_a_reader_that_is_kept_open_sees_what_came_since(cluster: Cluster):
    topic, log = cluster.topic("t"), cluster.opened()
    for number in range(3):
        append(cluster.log, topic, (b"k", b"%d" % number, 7))
        end = cluster.log.end_offsets(topic)[0]
        assert rows(log, topic, 0, 2 * number, end) == [(2 * number, b"k", b"%d" % number, 7, [])]


def ends_a_wait(watch: TopicWatch, meanwhile: Callable[[], object]) -> bool:
    """Whether a wait that would last for long ends for what somebody does meanwhile."""
    began = monotonic()
    other = threading.Thread(target=meanwhile)
    other.start()
    watch.wait(20.0)
    other.join()
    return monotonic() - began < 20.0


def test_records_end_a_wait_and_so_do_new_partitions_and_who_wakes_it(cluster: Cluster):
    topic = cluster.topic("t", partitions=2)
    watch = cluster.opened().watch([topic])
    assert ends_a_wait(watch, lambda: append(cluster.log, topic, (b"a", b"1", 10)))  # without having seen anything
    for number in range(3):
        watch.has_seen({topic: cluster.log.end_offsets(topic)})
        assert ends_a_wait(watch, lambda: append(cluster.log, topic, (b"a", b"1", 10), partition=1)), number
    assert ends_a_wait(watch, lambda: None)  # what came before, as nobody has seen the last ones
    watch.has_seen({topic: cluster.log.end_offsets(topic)})
    assert ends_a_wait(watch, lambda: cluster.add_partition(topic))
    watch.has_seen({topic: cluster.log.end_offsets(topic)})
    assert ends_a_wait(watch, watch.wake)
    watch.close()


def test_a_wait_for_a_topic_that_is_removed_ends_with_an_error(cluster: Cluster):
    topic = cluster.topic("t")
    watch = cluster.opened().watch([topic])
    watch.has_seen({topic: [0]})
    cluster.log.delete_topic(topic)
    with pytest.raises(TopicNotFoundError):
        [watch.wait(20.0) for _ in range(1_000)]  # some end for nothing


@pytest.mark.usefixtures("reading")
def test_what_is_read_between_appends_is_each_record_once(cluster: Cluster):
    """A reader rests at the end of what it was asked for, and goes on from there, whatever was on its way."""
    topic, log = cluster.topic("t"), cluster.opened()
    producer, count = cluster.producer(), 3_000

    def put() -> None:
        for number in range(count):
            producer.produce(topic, b"%d" % number, b"k", 0, timestamp=1)
            if number % 50 == 0:
                producer.flush(30)
        producer.flush(30)

    other = threading.Thread(target=put)
    other.start()
    found: list[bytes] = []
    while len(found) < count:
        end = log.end_offsets(topic)[0]
        found += [row[2] for row in rows(log, topic, 0, len(found), end)]
    other.join()
    assert found == [b"%d" % number for number in range(count)]


def test_a_numbered_append_happens_once_whoever_repeats_it(cluster: Cluster):
    topic = cluster.topic("t")
    for number, expected in [(3, True), (3, False), (2, False), (4, True)]:
        log = cluster.opened()
        segments = write(log, topic, (0, [(b"k", b"%d" % number, number)]))
        assert log.append(topic, segments, cluster.name, number) is expected

    cluster.wait_for_records(topic, 2)  # those of another program show a moment after they were committed
    assert [row[1:4] for row in rows(cluster.log, topic)] == [(b"k", b"3", 3), (b"k", b"4", 4)]
    assert cluster.log.last_sequence(topic, cluster.name) == 4


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_what_was_written_for_a_topic_that_is_gone_goes_into_no_other_one(cluster: Cluster, is_made_anew: bool):
    topic = cluster.topic("t")
    first = cluster.log.topic_id(topic)
    segments = write(cluster.log, topic, (0, [(b"a", b"1", 10)]))
    cluster.log.delete_topic(topic)
    if is_made_anew:
        cluster.topic("t")
        assert cluster.log.topic_id(topic) != first

    with pytest.raises(TopicNotFoundError, match="was removed while" if is_made_anew else "does not exist"):
        cluster.log.append(topic, segments)
    if is_made_anew:
        assert rows(cluster.log, topic) == []


def test_a_topic_that_does_not_exist_is_named_by_whatever_asks_for_it(cluster: Cluster):
    log, topic = cluster.log, f"{cluster.name}-none"
    for ask in (
        lambda: log.topic(topic),
        lambda: log.start_offsets(topic),
        lambda: log.end_offsets(topic),
        lambda: list(log.read(topic, 0, 0, 1)),
        lambda: log.writer(topic, "name"),
        lambda: log.append(topic, []),
        lambda: log.topic_id(topic),
        lambda: log.delete_topic(topic),
        lambda: log.trim(topic, {0: 0}),
    ):
        with pytest.raises(TopicNotFoundError, match=topic):
            ask()
    assert log.exists(topic) is False
    assert log.topic_ids([topic]) == {topic: None}


def test_topics_are_made_once_with_what_they_keep(cluster: Cluster):
    info = TopicInfo(f"{cluster.name}-kept", 3, retention_ms=60_000, retention_bytes=10**9)
    cluster.log.create_topic(info)
    assert cluster.log.topic(info.name) == info
    with pytest.raises(TopicExistsError, match="exists already"):
        cluster.log.create_topic(info)


@pytest.mark.usefixtures("reading")
def test_reading_records_that_are_gone_says_where_the_first_one_is(cluster: Cluster):
    topic = cluster.topic("t")
    for number in range(4):
        append(cluster.log, topic, (b"k", b"%d" % number, 7))
    cluster.log.trim(topic, {0: 5})

    assert (cluster.log.start_offsets(topic), rows(cluster.log, topic, 0, 5)) == ([5], [(6, b"k", b"3", 7, [])])
    with pytest.raises(
        OffsetOutOfRangeError, match="offset 2 was removed by retention; the first one still there is 5"
    ):
        rows(cluster.opened(), topic, 0, 2)
    with pytest.raises(OffsetOutOfRangeError, match="cannot remove the records before offset 99"):
        cluster.log.trim(topic, {0: 99})


def test_a_record_that_the_topic_would_not_take_is_refused_when_it_is_written(cluster: Cluster):
    topic = cluster.topic("t")
    with pytest.raises(LogError, match=r"does not take the record with key b'large': it has 2000079 bytes"):
        write(cluster.log, topic, (0, [(b"small", b"1", 5), (b"large", b"x" * 2_000_000, 5)]))
    append(cluster.log, topic, (b"k", b"x" * 1_000_000, 5))
    assert [len(row[2]) for row in rows(cluster.log, topic)] == [1_000_000]


def test_a_record_that_the_client_would_not_take_is_refused_when_it_is_written(cluster: Cluster):
    topic, options = cluster.topic("t"), {"message.max.bytes": "2000"}
    with pytest.raises(LogError, match=r"takes at most 2032 \(message\.max\.bytes of the options\)"):
        write(cluster.opened(options=options), topic, (0, [(None, b"x" * 1_965, 5)]))
    log = cluster.opened(options=options)
    append(log, topic, (None, b"x" * 1_960, 5))
    assert [len(row[2]) for row in rows(log, topic)] == [1_960]


def test_a_record_whose_time_the_topic_would_not_take_is_refused_when_it_is_written(cluster: Cluster):
    topic = cluster.topic("t")
    cluster.configure(
        topic, {"message.timestamp.after.max.ms": "3600000", "message.timestamp.before.max.ms": "3600000"}
    )
    for time, found in ((2**50, "which is in the future"), (5, "which is long ago")):
        with pytest.raises(LogError, match=rf"key b'k': it has the time {time}, {found} \(message\.timestamp\."):
            write(cluster.opened(), topic, (0, [(b"k", b"1", time)]))


def test_a_cluster_that_does_not_answer_is_an_error_in_good_time():
    log = open_log(Kafka("127.0.0.1:1", timeout="1 second"))
    with pytest.raises(LogError, match=r"did not answer for 1 s \(librdkafka: .*[Cc]onnect"):
        log.end_offsets("t")


def test_what_librdkafka_says_of_a_cluster_that_is_away_is_told_once_a_minute(caplog: pytest.LogCaptureFixture):
    for _ in range(2):
        with pytest.raises(LogError, match="did not answer for 1 s"):
            open_log(Kafka("127.0.0.1:2", timeout="1 second")).end_offsets("t")
    told = [one for one in caplog.messages if "127.0.0.1:2" in one]
    assert (len(told), told[0].startswith("FAIL [penstock#producer-")) == (1, True)


def test_an_option_that_librdkafka_does_not_know_is_named():
    with pytest.raises(ConfigError, match='No such configuration property: "sasl\\.pasword"'):
        open_log(Kafka("127.0.0.1:1", {"sasl.pasword": "x"})).topics()


@pytest.mark.usefixtures("writing")
def test_a_writer_that_is_kept_open_writes_into_partitions_that_came_since(cluster: Cluster):
    topic = cluster.topic("t")
    append(cluster.log, topic, (b"a", b"1", 10))
    cluster.add_partition(topic)
    append(cluster.log, topic, (b"b", b"2", 20), partition=1)
    assert rows(cluster.opened(), topic, 1) == [(0, b"b", b"2", 20, [])]
