"""Whole programs whose records come from an outbox or from requests: on Spark over Kafka, and under Spark Connect. A
second start continues where the first one ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import ConfigError, Kafka, Streams, StreamsBuilder, consume
from penstock.sources import HttpSource, PostgresOutbox, Source
from penstock.testing.broker import free_ports
from support.connect import connect_server, remote_session
from support.kafka import Cluster
from support.postgres import PostgresServer
from support.sourcing import until

pytestmark = pytest.mark.slow

httpx = pytest.importorskip("httpx", reason="comes with penstock-streams[dev]")

Feed = Callable[[range], None]
"""Gives rows or requests with these numbers to a source."""


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with connect_server(tmp_path_factory.mktemp("server")) as server, remote_session(server) as session:
        yield session


@pytest.fixture
def requests() -> tuple[Callable[[], Source], Feed]:
    """A source of requests, and who posts them."""
    [port] = free_ports(1)

    def post(n: int) -> bool:
        try:
            key = {"Idempotency-Key": f"k{n}"}
            found = httpx.post(f"http://127.0.0.1:{port}", json={"who": f"w{n % 3}", "n": n}, headers=key, timeout=60)
        except httpx.TransportError:  # it does not listen yet
            return False
        return bool(found.status_code == 200)

    def feed(numbers: range) -> None:
        for n in numbers:
            until(lambda n=n: post(n))

    return lambda: HttpSource(port, key="who"), feed


@pytest.fixture
def outbox(postgres: PostgresServer) -> tuple[Callable[[], Source], Feed]:
    """An outbox, and who inserts rows."""
    url = postgres.database()

    def feed(numbers: range) -> None:
        until(lambda: postgres.ask(url, "SELECT to_regclass('outbox') IS NOT NULL") == [(True,)])
        values = ", ".join(f"""('w{n % 3}', '{{"n": {n}}}')""" for n in numbers)
        postgres.ask(url, f"INSERT INTO outbox (key, value) VALUES {values}")

    return lambda: PostgresOutbox(url, every="50 ms"), feed


def start(application_id: str, source: Source, counts: str, **options: Any) -> Streams:
    builder = StreamsBuilder()
    rows = builder.source(source, "rows", key=str, value=dict, partitions=2)
    rows.group_by_key().count("counts").to_stream().to(counts)
    return builder.build().start(application_id, slots=1, **options)


def run_twice(kind: tuple[Callable[[], Source], Feed], application_id: str, counts: str, **options: Any) -> None:
    """Feed a program that runs, stop it, and feed it again; the last numbers come twice as a client repeats them."""
    make, feed = kind
    source = make()
    for number in range(2):
        with start(application_id, source, counts, **options) as streams:
            again = isinstance(source, HttpSource) and number
            feed(range(30 * number - (3 if again else 0), 30 * number + 30))
            until(lambda wanted=30 * number + 30: taken(application_id, options["log"]) >= wanted)
            streams.process_all_available()


def taken(application_id: str, log: Any) -> int:
    return len(list(consume(f"{application_id}-rows-source", log=log)))


def check(application_id: str, counts: str, log: Any) -> None:
    found = consume(f"{application_id}-rows-source", key=str, value=dict, log=log)
    assert sorted((one.key, one.value["n"]) for one in found) == sorted((f"w{n % 3}", n) for n in range(60))
    assert {one.key: one.value for one in consume(counts, key=str, value=int, log=log)} == dict.fromkeys(
        ["w0", "w1", "w2"], 20
    )


@pytest.mark.parametrize("kind", ["outbox", "requests"])
def test_each_record_is_in_kafka_once_over_two_starts_on_spark(
    kind: str, cluster: Cluster, request: pytest.FixtureRequest, tmp_path: Path
):
    """The other engines over Kafka are killed in faults/test_sources.py."""
    counts, log = cluster.topic("counts", 2), Kafka(cluster.servers)
    given = {"engine": "spark", "log": log, "state_dir": tmp_path / "state"}
    run_twice(request.getfixturevalue(kind), cluster.name, counts, **given)
    cluster.wait_for(lambda: sum({one.key: one.value for one in consume(counts, str, int, log=log)}.values()) == 60)
    check(cluster.name, counts, log)


@pytest.mark.parametrize("engine", ["spark", "micro-batch"])
@pytest.mark.parametrize("kind", ["outbox", "requests"])
def test_each_record_counts_once_under_spark_connect(
    kind: str, engine: str, remote: Any, request: pytest.FixtureRequest, tmp_path: Path
):
    given = {"engine": engine, "spark": remote, "log": tmp_path / "log", "state_dir": tmp_path / "state"}
    run_twice(request.getfixturevalue(kind), "shop", "counts", **given)
    check("shop", "counts", tmp_path / "log")


@pytest.mark.parametrize("engine", ["spark", "micro-batch"])
def test_requests_have_no_end_under_spark_connect_either(engine: str, remote: Any, tmp_path: Path):
    given = {"engine": engine, "spark": remote, "log": tmp_path / "log", "state_dir": tmp_path / "state"}
    with pytest.raises(ConfigError, match=r"source 'rows' .* has no end, so no program can end with it"):
        start("shop", HttpSource(0), "counts", trigger="available-now", **given)
