"""Programs over a Kafka broker that is gone for a while, does not answer, is full, or leaves its work to another.

Each takes brokers of its own down, and waits: ``make outages``, not ``make test``, so the file's name is not that of
tests. What needs no broker to fall is in ``test_kafka.py`` and ``test_kafka_security.py`` of ``tests/engine``: too long
transactions, producers that are fenced, topics that are removed, wrong passwords, certificates that have expired.
"""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock import faults
from penstock.errors import CommitError, LogError, PenstockError
from penstock.testing.broker import Broker
from support.kafka import Cluster
from support.kafka_case import Case, expected

At = Callable[[str, Callable[[], None]], None]
AWAY_SECONDS = 30.0
SILENT_SECONDS = 12.0
"""Longer than a request to the broker may take."""
FULL_SECONDS = 6.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    pytest.importorskip("confluent_kafka")
    with Broker(tmp_path_factory.mktemp("broker")) as found:
        yield found


@pytest.fixture
def case(broker: Broker, tmp_path: Path) -> Iterator[Case]:
    cluster = Cluster(broker.servers)
    yield Case(cluster, tmp_path)
    cluster.close()


def restarted(broker: Broker, after: float = 0.0) -> Callable[[], None]:
    """Kills the broker, and has it come back after so many seconds, while whoever calls goes on."""

    def come_back() -> None:
        time.sleep(after)
        broker.start()

    def go() -> None:
        broker.kill()
        thread = threading.Thread(target=come_back)
        thread.start()
        if not after:
            thread.join()

    return go


POINTS = [
    "before-manifest",
    "after-manifest",
    "before-transaction",
    "in-transaction",
    "after-transaction",
    "after-publish",
]


@pytest.mark.parametrize("point", POINTS)
def test_a_broker_that_is_restarted_in_a_commit_loses_nothing_and_has_nothing_twice(
    case: Case, broker: Broker, at: At, point: str
):
    case.fill(20)
    application = case.start()
    application.run_until()
    case.fill(20, first=20)
    ends = application.coordinator.end_offsets()
    at(point, restarted(broker))
    application.run_until(ends)
    assert faults.listener is None, "the point was come to"
    case.fill(5, first=40)
    try:
        application.run_until(application.coordinator.end_offsets())
    except CommitError as error:  # docs/decisions/0048-acknowledged-and-lost.md: the broker's own loss, which is told
        if "has lost commit" not in str(error):
            raise
        return
    assert case.results() == expected(45)


@pytest.mark.parametrize("point", ["before-manifest", "in-transaction"])
def test_a_program_outlives_a_broker_that_is_away_for_half_a_minute(case: Case, broker: Broker, at: At, point: str):
    case.fill(20)
    application = case.start()
    at(point, restarted(broker, AWAY_SECONDS))
    application.run_until()
    case.fill(5, first=20)
    application.run_until(application.coordinator.end_offsets())
    assert case.results() == expected(25)


@pytest.mark.parametrize("point", ["before-manifest", "in-transaction", "after-transaction"])
def test_a_program_waits_for_a_broker_that_does_not_answer_for_a_while(case: Case, broker: Broker, at: At, point: str):
    def stop_answering() -> None:
        os.kill(broker.pid, signal.SIGSTOP)
        threading.Timer(SILENT_SECONDS, os.kill, (broker.pid, signal.SIGCONT)).start()

    case.fill(20)
    application = case.start()
    at(point, stop_answering)
    application.run_until()
    case.fill(5, first=20)
    application.run_until(application.coordinator.end_offsets())
    assert case.results() == expected(25)


@pytest.mark.parametrize("point", ["before-manifest", "before-transaction", "in-transaction"])
def test_a_program_outlives_a_broker_whose_disk_is_full_until_somebody_makes_room(
    case: Case, broker: Broker, at: At, point: str
):
    def make_room() -> None:
        time.sleep(FULL_SECONDS)
        broker.kill()  # a broker that cannot write ends by itself, too
        broker.start()

    def fill_the_disk() -> None:
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (1, 1))
        threading.Thread(target=make_room).start()

    case.fill(20)
    application = case.start()
    at(point, fill_the_disk)
    application.run_until()
    case.fill(5, first=20)
    application.run_until(application.coordinator.end_offsets())
    assert case.results() == expected(25)


@pytest.fixture
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Broker]]:
    """A cluster of two, of whom the first is also its controller; all topics are on both."""
    folder = tmp_path_factory.mktemp("pair")
    twice = {f"{kind}.replication.factor": "2" for kind in ("default", "offsets.topic", "transaction.state.log")}
    with Broker(folder / "1", twice) as first:
        second = Broker(folder / "2", {**twice, "node.id": "2", "process.roles": "broker", **_as_second(first)})
        second._properties["listeners"] = f"PLAINTEXT://{second.servers}"
        second.folder.mkdir()
        properties = second.folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in second._properties.items()))
        found = (first.folder / "data/meta.properties").read_text().splitlines()
        cluster = next(line.partition("=")[2] for line in found if line.startswith("cluster.id"))
        second._run("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)).wait()
        with second:
            yield first, second


def _as_second(first: Broker) -> dict[str, str]:
    return {"controller.quorum.voters": f"1@127.0.0.1:{first.ports['CONTROLLER']}"}


def test_a_program_goes_on_when_the_coordinator_of_its_transactions_moves(
    pair: tuple[Broker, Broker], tmp_path: Path, at: At
):
    first, second = pair
    cluster = Cluster(first.servers)
    cluster.wait_for(lambda: len(cluster.admin.list_topics(timeout=10).brokers) == 2)
    cluster.producer("anybody")  # from the first one on the topic is there that says who coordinates
    while _coordinator(cluster) != 2:
        cluster.name = f"t{os.urandom(6).hex()}"
    case = Case(cluster, tmp_path)
    case.fill(20)
    application = case.start()
    at("in-transaction", second.kill)
    application.run_until()
    assert _coordinator(cluster) == 1
    case.fill(5, first=20)
    application.run_until(application.coordinator.end_offsets())
    assert case.results() == expected(25)
    second.start()
    case.fill(5, first=25)
    application.run_until(application.coordinator.end_offsets())
    assert case.results() == expected(30)


def _coordinator(cluster: Cluster) -> int:
    """Which broker coordinates the transactions of an application with this name, by Kafka's own rule."""
    number = 0
    for letter in cluster.name:
        number = (31 * number + ord(letter)) & 0xFFFFFFFF
    number = 0 if number == 0x80000000 else abs(number - (1 << 32) if number >> 31 else number)
    partitions = cluster.admin.list_topics("__transaction_state", timeout=10).topics["__transaction_state"].partitions
    return int(partitions[number % len(partitions)].leader)


def test_a_program_whose_broker_stays_away_stops_and_the_next_start_goes_on(case: Case, broker: Broker, at: At):
    case.fill(20)
    case.cluster.opened = lambda timeout="3 seconds", options=None, opened=case.cluster.opened: opened(timeout, options)
    application = case.start()
    at("in-transaction", broker.kill)
    began = time.monotonic()
    with pytest.raises(PenstockError, match=r"safe") as stopped:
        application.run_until()
    assert time.monotonic() - began < 60
    with pytest.raises(LogError, match="did not answer for 3 s"):
        case.start()
    broker.start()
    case.start().run_until()
    assert "records are safe in the checkpoint, and go to Kafka at the next start" in str(stopped.value)
    assert case.results() == expected(20)
