"""Settings of all tests. ``pytest --hypothesis-profile=deep`` looks longer for counterexamples, ``few`` not as long."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from penstock import faults
from penstock.errors import ConfigError
from penstock.testing import broker
from support import secure, spark_classes
from support.folders import MEMORY
from support.left_behind import kill_left_behind

if TYPE_CHECKING:
    from support.kafka import Cluster
    from support.postgres import PostgresServer
    from support.s3 import S3Server

_COMMON = {"deadline": None, "print_blob": True, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("few", max_examples=12, **_COMMON)
settings.register_profile("usual", max_examples=16, derandomize=True, **_COMMON)  # the same ones in each run
settings.register_profile("deep", max_examples=600, stateful_step_count=60, **_COMMON)
settings.load_profile("usual")

_ROOM = 4 << 30
"""Bytes: containers may have no more than 64 MB in memory."""

_LAST = -1000
"""After multiprocessing, too, has removed what it has there."""


_RUN = "PYTEST_RUN_OF_PENSTOCK"
"""The number of the process that runs all tests, for those that run some of them."""


def pytest_configure(config: pytest.Config) -> None:
    """Files of tests lie in memory where there is room: many would wait for the disk half of their time. What is
    killed loses nothing that the system has, whether it has it in memory or on its way to a disk."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs beside it; programs inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        os.environ[_RUN] = str(os.getpid())
    if MEMORY is not None and not hasattr(config, "workerinput") and shutil.disk_usage(MEMORY).free >= _ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)  # where failed tests leave theirs
        folder = os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="penstock-tests-", dir=MEMORY)
        tempfile.tempdir = None  # chosen anew
        Finalize(None, shutil.rmtree, [folder], {"ignore_errors": True}, exitpriority=_LAST)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Nothing that tests started lives on: whoever waits for the output of the run would wait for all of it."""
    if not hasattr(config, "workerinput"):
        run = str(os.getpid())
        for line in kill_left_behind(_RUN, run, _broker_folder(run).name):
            terminalreporter.write_line(f"left behind, and killed: {line[:300]}")


@pytest.fixture(scope="session")
def kafka(kafka_listeners: dict[str, str]) -> str:
    """The servers of a Kafka broker, one for all tests of a run; it ends with the run."""
    return kafka_listeners["PLAINTEXT"]


@pytest.fixture(scope="session")
def kafka_listeners() -> dict[str, str]:
    """Where that broker listens, by listeners: some want a password or a certificate."""
    pytest.importorskip("confluent_kafka", reason="tests with a Kafka broker need confluent-kafka")
    run = os.environ[_RUN]
    try:
        return broker.shared(_broker_folder(run), int(run), lambda: secure.extras(_certificates(run)))
    except ConfigError as error:
        pytest.skip(f"tests with a Kafka broker are left out: {error}")


@pytest.fixture
def cluster(kafka: str) -> Iterator[Cluster]:
    """That broker, with topics of the test's own."""
    from support.kafka import Cluster

    found = Cluster(kafka)
    yield found
    found.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of the system's packages; it ends with the tests."""
    from support.postgres import PostgresServer, programs

    pytest.importorskip("psycopg", reason="tests with PostgreSQL need psycopg")
    found = programs()
    if found is None:
        pytest.skip("tests with PostgreSQL need its server: apt-get install postgresql")
    server = PostgresServer(found)
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """An object store; each test has a bucket of its own."""
    pytest.importorskip("moto")
    from support.s3 import S3Server

    with S3Server() as server:
        yield server


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """That object store: it works, and its keys are in the environment."""
    s3_server.be_found(monkeypatch)
    s3_server.tell(failing=0, late=0, failing_reads=0, late_reads=0, every=0, is_conditional=True)
    return s3_server


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.slow)])
def engine(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What a program is started with on each engine: for tests of what programs do on any of them. The session is that
    of the file's fixture ``spark``."""
    given = {"engine": request.param}
    return given if request.param == "local" else {**given, "spark": request.getfixturevalue("spark")}


@pytest.fixture
def never_waits() -> Iterator[None]:
    """A test that waits for a pipe fails after half a minute."""

    def fail(*_: object) -> None:
        raise TimeoutError("it waits for a pipe")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def kafka_process(kafka: str) -> int:
    """The number of that broker's process."""
    return int((_broker_folder(os.environ[_RUN]) / "broker" / "pid").read_text())


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], None]], None]:
    """Have something done at a crash point, when it is come to for the first time from now on."""

    def told(point: str, action: Callable[[], None]) -> None:
        def listener(name: str) -> None:
            if name == point:
                monkeypatch.setattr(faults, "listener", None)
                action()

        monkeypatch.setattr(faults, "listener", listener)

    return told


@pytest.fixture(scope="session")
def kafka_certificates(kafka_listeners: dict[str, str]) -> Path:
    """The folder with the certificates of that broker and its users."""
    return _certificates(os.environ[_RUN])


def _broker_folder(run: str) -> Path:
    return Path(tempfile.gettempdir()) / f"penstock-broker-{run}"


def _certificates(run: str) -> Path:
    return _broker_folder(run) / "certificates"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Slow tests start Spark: faster with the quick JVM, and when its classes are in an archive, which ``make test``
    makes."""
    if item.get_closest_marker("slow") is not None:
        _use_quick_jvm()


_use_quick_jvm = cache(spark_classes.use)


_LONGEST = (
    *("examples/test_tutorial.py", "faults/test_tables.py", "batch/test_commits_on_spark.py"),
    *("faults/test_sources.py", "spark/test_every_sink.py", "spark/test_losses.py", "faults/test_kills_on_spark.py"),
    *("faults/test_joining.py", "ops/test_any_cut.py"),
    *("faults/test_chaos.py", "oracle/test_cases.py", "cli/test_run.py", "oracle/test_cases_on_spark.py"),
    *("examples/test_weather.py", "examples/test_readme.py", "faults/test_demo.py", "spark/test_streams.py"),
    *("spark/test_executors_come_and_go.py", "spark/test_connect.py", "spark/test_tables_out.py"),  # the last folder
    *("test_mutations.py", "state/test_row_counts.py", "batch/test_oracle_cases.py"),  # long, and without slow tests
)
"""Files of tests that take minutes, those that take most first; at the end those that would come last otherwise."""


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests with a Kafka broker are slow: it is a JVM."""
    if "kafka_listeners" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.slow)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kip", help="only the tests of one requirement, for example --kip 914-05")


def _is_of(item: pytest.Item, requirement: str) -> bool:
    return any(requirement in mark.args for mark in item.iter_markers("kip"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest files come first, and then those with slow tests: with ``--dist loadfile --no-loadscope-reorder`` no
    process is left alone with a long one in the end."""
    if (requirement := config.getoption("--kip")) is not None:
        items[:] = [item for item in items if _is_of(item, requirement)]
    slow = {_file(item) for item in items if item.get_closest_marker("slow") is not None}
    place = {f"tests/{name}": number for number, name in enumerate(_LONGEST)}
    others = {False: len(place) + 1, True: len(place)}
    items.sort(key=lambda item: place.get(_file(item), others[_file(item) in slow]))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """The tests themselves, eighteen thousand, stay to the end: looking through them for garbage, again and again, took
    two fifths of a run."""
    gc.collect()
    gc.freeze()


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
