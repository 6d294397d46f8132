"""Records that a broker does not take: told before the commit, and put aside behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder
from penstock.engine.commit.putting_aside import PuttingAside
from penstock.engine.local import LocalApplication
from penstock.engine.operate.reset import Reset, Wanted
from penstock.engine.shared.manifest import Manifests
from penstock.errors import ConfigError, LogError, PenstockError, RefusedRecordError
from penstock.log.consume import consume
from penstock.settings import Settings
from support.kafka import Cluster
from support.kafka_case import Crash, crash
from support.kafka_refusals import ROWS, App

LIMIT = 10_000


@pytest.fixture
def app(kafka: str, tmp_path: Path) -> Iterator[App]:
    cluster = Cluster(kafka)
    yield App(cluster, tmp_path)
    cluster.close()


Row = tuple[bytes | None, bytes, int]
Refused = tuple[dict[str, str], Callable[[int], Row], str]

REFUSED: dict[str, Refused] = {
    "no key, compacted": ({"cleanup.policy": "compact"}, lambda now: (None, b"2", now), "cleanup.policy"),
    "no key, compacted and deleted": (
        {"cleanup.policy": "compact,delete"},
        lambda now: (None, b"2", now),
        "cleanup.policy",
    ),
    "one byte too large": (
        {"max.message.bytes": str(LIMIT)},
        lambda now: (b"kk", b"x" * 9_927, now),
        "it has 10001 bytes and the topic takes at most 10000 (max.message.bytes",
    ),
    "larger than a segment": (
        {"max.message.bytes": "9000000", "segment.bytes": "1048576"},
        lambda now: (b"kk", b"x" * 1_048_600, now),
        "segment.bytes",
    ),
    "too old": (
        {"message.timestamp.before.max.ms": "60000"},
        lambda now: (b"kk", b"2", now - 120_000),
        "message.timestamp.before.max.ms",
    ),
    "in the future": (
        {"message.timestamp.after.max.ms": "60000"},
        lambda now: (b"kk", b"2", now + 120_000),
        "message.timestamp.after.max.ms",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_record_that_its_topic_refuses_goes_the_way_that_on_error_says(app: App, case: str):
    config, row, told = REFUSED[case]
    for topic in (app.input, app.letters):
        app.cluster.configure(topic, {"max.message.bytes": "9000000"})
    app.cluster.configure(app.output, config)
    bad = row(app.now)
    app.send((b"a", b"1", app.now), bad, (b"c", b"3", app.now))
    with pytest.raises(PenstockError) as failed:
        app.run()
    for part in (told, app.output, f"'{app.input}', partition 0, offset 1", "kafka_refusals.py", "on_error"):
        assert part in str(failed.value)
    assert app.keys(app.output) == []
    app.run(on_error=f"dead_letter:{app.letters}")
    assert app.keys(app.output) == [b"a", b"c"]
    [letter] = consume(app.letters, log=app.cluster.opened(), key=bytes, value=bytes)
    assert (letter.key, letter.value) == bad[:2]
    app.send(bad, (b"d", b"4", app.now))
    app.run(on_error="skip")
    assert app.keys(app.output) == [b"a", b"c", b"d"]
    reason = RefusedRecordError.__name__
    assert sorted(app.losses()) == [("dead-letter-records-total", reason, 1), ("skipped-records-total", reason, 1)]


def test_the_handler_of_production_errors_is_asked_about_refused_records(app: App):
    app.cluster.configure(app.output, {"cleanup.policy": "compact"})
    app.send((None, b"1", app.now), (b"b", b"2", app.now))
    seen: list[tuple[str, str, int]] = []

    def handler(context: Any) -> str:
        seen.append((context.kind, type(context.error).__name__, context.offset))
        return "continue"

    app.run(production_exception_handler=handler)
    assert app.keys(app.output) == [b"b"]
    assert seen == [("production", "RefusedRecordError", 0)]


ALLOWED: dict[str, tuple[dict[str, str], Row]] = {
    "exactly as large as may be": ({"max.message.bytes": str(LIMIT)}, (b"kk", b"x" * 9_926, 5)),
    "exactly as large, without a key": ({"max.message.bytes": str(LIMIT)}, (None, b"x" * 9_928, 5)),
    "no key, deleted": ({"cleanup.policy": "delete"}, (None, b"1", 5)),
    "any time, where the broker gives it": (
        {"message.timestamp.type": "LogAppendTime", "message.timestamp.before.max.ms": "1"},
        (b"k", b"1", 5),
    ),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_what_the_broker_takes_is_not_refused(app: App, case: str):
    config, row = ALLOWED[case]
    app.cluster.configure(app.output, config)
    app.send(row)
    app.run()
    assert app.keys(app.output) == [row[0]]


def test_a_topic_of_the_clusters_own_is_refused_before_the_commit(app: App):
    builder = StreamsBuilder()
    builder.stream(app.input, key=bytes, value=bytes).to("__consumer_offsets")
    app.send((b"a", b"1", 5))
    own = Settings.load(environment={}, folder=app.folder)
    application = LocalApplication(builder.build(), app.cluster.name, own, app.cluster.opened(), app.storage)
    with pytest.raises(LogError, match=r"'__consumer_offsets' is one of Kafka's own"):
        application.run_until()
    newest = Manifests(app.storage).newest()
    assert newest is not None
    assert newest.sinks == {}


# --- behind the commit ---------------------------------------------------------------------------------------------


@pytest.fixture
def stuck(app: App, at: Any) -> App:
    """An application whose topic was made narrower when its commit was certain."""
    app.get_stuck(at)
    return app


@pytest.mark.parametrize(
    "point", ["before-put-aside", "after-put-aside", "before-transaction", "in-transaction", "after-transaction"]
)
def test_a_crash_while_records_are_put_aside_loses_nothing_and_repeats_nothing(stuck: App, at: Any, point: str):
    at(point, crash)
    with pytest.raises(Crash):
        _put_aside(stuck)
    _put_aside(stuck)
    stuck.run()
    assert stuck.keys(stuck.output) == [b"a", b"c", b"e"]
    assert [one.value for one in consume(stuck.letters, log=stuck.cluster.opened(), value=bytes)] == [
        value for _, value in (ROWS[1], ROWS[3], ROWS[5])
    ]
    assert stuck.losses() == [("dead-letter-records-total", "RefusedRecordError", 3)]


def _put_aside(app: App) -> None:
    found = PuttingAside(app.storage, app.cluster.opened())
    found.execute(app.letters)
    found.publish()


def test_a_commit_that_somebody_else_publishes_meanwhile_is_there_once(stuck: App):
    found = PuttingAside(stuck.storage, stuck.cluster.opened())
    stuck.cluster.configure(stuck.output, {"cleanup.policy": "delete", "max.message.bytes": "1000000"})
    other = PuttingAside(stuck.storage, stuck.cluster.opened())
    assert other.found.refused == []
    other.publish()
    found.execute(stuck.letters)
    found.publish()
    stuck.run()
    assert stuck.keys(stuck.output) == [key for key, _ in ROWS]
    assert stuck.keys(stuck.letters) == []


def test_a_topic_of_dead_letters_that_refuses_them_as_well_changes_nothing(stuck: App):
    stuck.cluster.configure(stuck.letters, {"cleanup.policy": "compact"})
    before = Manifests(stuck.storage).numbers()
    with pytest.raises(RefusedRecordError, match="it has no key"):
        _put_aside(stuck)
    assert Manifests(stuck.storage).numbers() == before


def test_a_stuck_application_can_be_reset(stuck: App):
    reset = Reset(stuck.storage, stuck.cluster.opened(), Wanted())
    assert reset.plan.refused == {stuck.output: 3}
    with pytest.raises(ConfigError, match="it is compacted, and Kafka removes records of no such topic"):
        Reset(stuck.storage, stuck.cluster.opened(), Wanted(empty_outputs=True))
    reset.execute()
    assert stuck.keys(stuck.output) == [b"a", b"c", b"e"]
    stuck.run(on_error="skip")
    assert stuck.keys(stuck.output) == [b"a", b"c", b"e"] * 2
