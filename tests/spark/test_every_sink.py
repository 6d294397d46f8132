"""All ready sinks of a program are full, slow, away or restored from an older copy: on every engine, under Spark
Connect, and over Kafka."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock import produce
from penstock.errors import SinkError
from support.connect import connect_server, remote_session
from support.disks import Disk, why_not
from support.every_sink import click
from support.outside import KINDS, Outside
from support.postgres import PostgresServer

if TYPE_CHECKING:
    from support.s3 import S3Server
    from support.stored_lakes import StoredLakes

pytestmark = pytest.mark.slow

for _package in ("duckdb", "deltalake", "pyiceberg.table", "psycopg"):
    pytest.importorskip(_package)

_SECONDS = 180.0
_AWAY_SECONDS = 2.0
_FOREVER = 1 << 40


@dataclass
class Shop:
    """A program with all sinks.

    Attributes:
        outside: an ``Outside`` or ``StoredLakes``.
        options: of its starts.
        name: the application's, and that of its topic.
        count: how many clicks there are.
    """

    outside: Any
    options: dict[str, Any]
    name: str
    count: int = field(default=0)

    def feed(self, count: int) -> None:
        clicks = [click(n) for n in range(self.count, self.count + count)]
        produce(clicks, f"{self.name}-in", key=str, value=int, log=self.options["log"], partitions=2)
        self.count += count

    def start(self, **options: Any) -> Any:
        """Start the program.

        Args:
            options: of ``to_sink``.
        """
        return self.outside.topology(f"{self.name}-in", **options).start(self.name, **self.options)

    def has_all(self) -> bool:
        return self.outside.has_all(self.count)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk of the sinks alone."""
    if reason := why_not():
        pytest.skip(f"disks of one's own are left out: {reason}")
    with Disk(tmp_path / "disk", 64) as found:
        yield found


@pytest.fixture
def outside(request: pytest.FixtureRequest, tmp_path: Path, postgres: PostgresServer) -> Iterator[Outside]:
    """What is outside of the program; on a disk of its own in tests that have one."""
    own = request.getfixturevalue("disk") if "disk" in request.fixturenames else None
    found = Outside((own.folder if own else tmp_path) / "sinks", postgres, own)
    yield found
    found.close()


@pytest.fixture(scope="module")
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session of programs: of Spark Connect, a classic one, or none."""
    if request.param == "connect":
        with connect_server(tmp_path_factory.mktemp("server")) as server, remote_session(server) as remote:
            yield remote
    else:
        yield request.getfixturevalue("spark") if request.param == "classic" else None


@pytest.fixture
def lakes(s3: S3Server, tmp_path: Path) -> StoredLakes:
    """Sinks in an object store."""
    from support.stored_lakes import StoredLakes

    return StoredLakes(s3, tmp_path)


@pytest.fixture
def shop(request: pytest.FixtureRequest, session: Any, way: str, tmp_path: Path) -> Shop:
    """A program that runs in one of the ways: on an engine, or on this machine over Kafka."""
    outside = request.getfixturevalue("lakes" if "lakes" in request.fixturenames else "outside")
    engine, log, name = way, tmp_path / "log", "shop"
    if way == "kafka":
        cluster = request.getfixturevalue("cluster")
        engine, log, name = "local", f"kafka://{cluster.servers}", cluster.name
    options = {"engine": engine, "log": log, "state_dir": tmp_path / "state", "spark": session, "slots": 1}
    found = Shop(outside, options, name)
    found.feed(400)
    return found


WAYS = [
    *(("connect", "spark"), ("connect", "micro-batch")),  # first: a process has none of these beside a classic session
    *(("classic", "spark"), ("classic", "micro-batch"), ("no session", "local"), ("no session", "kafka")),
]


def runs_in(ways: list[tuple[str, str]]) -> pytest.MarkDecorator:
    """Run a test in several ways; all tests of one way run in a row."""
    return pytest.mark.parametrize(("session", "way"), ways, indirect=["session"], scope="module")


def told(streams: Any, words: dict[str, tuple[str, ...]], shop: Shop) -> None:
    """Feed clicks until sinks of each kind have said an error with its words."""
    missing = set(words)
    until = time.monotonic() + _SECONDS
    while missing:
        assert time.monotonic() < until, f"{missing} have not said what was expected: {streams._children.now()}"
        shop.feed(100)
        time.sleep(0.3)
        errors = [(one.name.partition("-")[0], one.error) for one in streams._children.now()]
        missing -= {kind for kind, error in errors if kind in missing and any(word in error for word in words[kind])}


FULL = dict.fromkeys(KINDS, ("No space left on device", "disk is full", "the service answered 507"))
"""What sinks say when there is no room."""

AWAY = {"http": ("the service cannot be reached",), "postgres": ("OperationalError: ",)}
"""What those say that are reached by a network."""


@runs_in(WAYS)
def test_sinks_without_room_say_so_and_get_everything_when_there_is_room(disk: Disk, shop: Shop):
    with shop.start() as streams:
        streams.process_all_available()
        with shop.outside.full():
            told(streams, FULL, shop)
        streams.process_all_available()
    assert shop.has_all()


@runs_in([("no session", "local")])
def test_a_program_that_ended_as_its_sinks_had_no_room_gives_them_everything_afterwards(disk: Disk, shop: Shop):
    with shop.start(retry_for="1 second") as streams:
        streams.process_all_available()
        with shop.outside.full():
            shop.feed(400)
            with pytest.raises(SinkError, match=r"failed: .*Everything committed is safe"):
                streams.process_all_available()
    with shop.start() as streams:
        streams.process_all_available()
    assert shop.has_all()


@runs_in(WAYS)
def test_slow_sinks_get_everything(disk: Disk, shop: Shop):
    with shop.start() as streams:
        streams.process_all_available()
        with shop.outside.slow():
            for _ in range(2):
                shop.feed(300)
                streams.process_all_available()
    assert shop.has_all()


@runs_in(WAYS)
def test_sinks_that_are_away_are_told_and_get_everything_when_they_are_back(shop: Shop):
    with shop.start() as streams:
        streams.process_all_available()
        with shop.outside.away():
            told(streams, AWAY, shop)
        streams.process_all_available()
    assert shop.has_all()


@runs_in(WAYS)
def test_sinks_that_are_restored_from_an_older_copy_are_told_and_get_what_they_lack(
    shop: Shop, caplog: pytest.LogCaptureFixture
):
    for becomes in (shop.outside.copy, shop.outside.restore, lambda: None):
        with shop.start() as streams:
            streams.process_all_available()
        becomes()
        shop.feed(300)
    with shop.start() as streams:
        streams.process_all_available()
    assert shop.has_all()
    warned = [message for message in caplog.messages if "it was restored from an older copy" in message]
    named = {message.partition("sink '")[2].partition("-")[0] for message in warned}
    assert named == {kind for kind in KINDS if kind != "http"}


@runs_in(WAYS)
def test_lakes_in_a_store_that_is_away_and_then_loses_each_fifth_request_have_each_record_once(
    lakes: StoredLakes, s3: S3Server, shop: Shop
):
    with shop.start() as streams:
        streams.process_all_available()
        s3.tell(failing=_FOREVER, failing_reads=_FOREVER)
        back = threading.Timer(_AWAY_SECONDS, lambda: s3.tell(failing=0, failing_reads=0))
        back.start()
        started = time.monotonic()
        shop.feed(100)
        streams.process_all_available()
        assert time.monotonic() - started >= _AWAY_SECONDS
        back.join()
        s3.tell(every=5)
        shop.feed(100)
        streams.process_all_available()
    s3.tell(every=0)
    assert shop.has_all()
