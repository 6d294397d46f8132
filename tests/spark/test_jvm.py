"""The JVM of Penstock's own Spark is begun before the rest of a start, and ended where that is refused."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import StreamsBuilder
from penstock.engine.spark import jvm
from penstock.errors import ConfigError, TopicNotFoundError


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where a script in the place of Spark's writes down which process it is; it then does what ``does`` says."""
    home = tmp_path / "spark"
    for name in ("bin", "jars"):
        (home / name).mkdir(parents=True)
    script = home / "bin" / "spark-submit"
    script.write_text(
        f'#!/bin/sh\necho $$ > "{tmp_path}/pid.new"\nmv "{tmp_path}/pid.new" "{tmp_path}/pid"\n. "{tmp_path}/does"\n'
    )
    script.chmod(0o755)
    (tmp_path / "does").write_text("exec sleep 60\n")
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setattr(jvm, "_is_there", lambda: False)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    jvm.give_up()


def process(folder: Path) -> int:
    while not (folder / "pid").exists():
        time.sleep(0.01)
    return int((folder / "pid").read_text())


def is_there(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def test_one_jvm_is_begun_and_ends_when_nobody_takes_it(begun: Path):
    jvm.begin({"spark.app.name": "app"})
    first = process(begun)
    jvm.begin({"spark.app.name": "app"})
    assert int((begun / "pid").read_text()) == first
    assert is_there(first)
    jvm.give_up()
    assert not is_there(first)


def test_a_refused_start_leaves_no_jvm_behind(begun: Path, monkeypatch: pytest.MonkeyPatch):
    begin = jvm.begin
    monkeypatch.setattr(jvm, "begin", lambda options: (begin(options), process(begun)))
    builder = StreamsBuilder()
    builder.stream("nowhere", value=str).to("out")
    with pytest.raises(TopicNotFoundError, match="nowhere"):
        builder.build().start("app", log=begun / "log")
    assert not is_there(process(begun))


def test_a_jvm_that_ends_at_once_is_an_error_with_advice(begun: Path, monkeypatch: pytest.MonkeyPatch):
    from penstock.engine.spark.session import context_for

    (begun / "does").write_text("exit 3\n")
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    jvm.begin({})
    with pytest.raises(ConfigError, match=r"Spark did not start .*It needs Java 17 or newer"):
        context_for(None, "app", begun / "spark.log")


def test_what_the_jvm_says_of_itself_is_read(begun: Path):
    assert jvm._read((7077).to_bytes(4, "big") + (3).to_bytes(4, "big") + b"key") == (7077, "key")
    with jvm._environment({"PYSPARK_GATEWAY_PORT": "7077"}):
        assert os.environ["PYSPARK_GATEWAY_PORT"] == "7077"
    assert "PYSPARK_GATEWAY_PORT" not in os.environ


PROGRAM = """
import os, sys, tempfile
from pathlib import Path
from penstock.engine.spark.session import context_for, stop_context
context, _ = context_for(None, "leaves", Path("spark.log").resolve())
assert context.parallelize([3, 4], 2).map(lambda n: n + 1).sum() == 9
print(len(os.listdir(tempfile.gettempdir())), flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), 9)
stop_context(context)
"""


def test_what_a_killed_program_and_its_spark_leave_goes_with_the_next_start_and_one_that_ends_leaves_nothing(
    tmp_path: Path, request: pytest.FixtureRequest
):
    short = tempfile.TemporaryDirectory(prefix="pt-", dir="/tmp")  # sockets in it have short paths
    request.addfinalizer(short.cleanup)
    place, work = Path(short.name), tmp_path
    environment = {**os.environ, "TMPDIR": str(place)}
    for how, there in (("killed", 1), ("killed", 1), ("ended", 0)):
        command = [sys.executable, "-c", PROGRAM, how]
        ran = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=120)
        assert ran.stdout == "1\n", ran.stderr  # that of this program alone
        deadline = time.monotonic() + 30
        while len(left := os.listdir(place)) > there or (how == "killed" and _holds(place / left[0])):
            assert time.monotonic() < deadline, left
            time.sleep(0.1)


def _holds(folder: Path) -> bool:
    """Whether a JVM still holds a folder of which the program is gone."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
