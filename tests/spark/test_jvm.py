"""The JVM of Penstock's own Spark is begun before the rest of a start, and ended where that is refused."""

from __future__ import annotations

import fcntl
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import StreamsBuilder
from penstock.engine.spark import class_archive, jvm, private, session, surroundings
from penstock.engine.spark.job import SlotsJob
from penstock.engine.spark.session import context_for
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
    monkeypatch.setattr(private, "gateway", lambda: None)
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


ENDS = {
    "exit 3": "Spark did not start: its JVM ended with code 3. It said nothing. `penstock doctor` looks at",
    "echo 'Caused by: java.io.IOException: x (Too many open files)' >&2; exit 1": r"may open only \d+ files.*Too many",
    "echo '# There is insufficient memory for the Java'; kill -ABRT $$": "too little memory .*It said: # There is",
    "echo 'java.nio.file.FileSystemException: /tmp/x: Read-only file system' >&2; exit 1": "Temporary ones go to",
    "echo 'Error: UnsupportedClassVersionError' >&2; exit 1": "It needs Java 17 or newer: install one|it needs Java 17",
    "echo 'Unrecognized option: -Xyz' >&2; echo 'Error: Could not create the Java Virtual Machine.' >&2; exit 1": (
        "did not start: its Java does not take an option that it is given. It said: Unrecognized option: -Xyz$"
    ),
    "echo 'Picked up JAVA_TOOL_OPTIONS: -Dkey=secret -XX:+No' >&2; echo \"Unrecognized VM option 'No'\" >&2; exit 1": (
        "not take an option that it is given; it has options from JAVA_TOOL_OPTIONS: correct or unset them. It said: "
        "Unrecognized VM option 'No'$"
    ),
    "echo 'NOTE: Picked up JDK_JAVA_OPTIONS: -Dkey=secret' >&2; echo 'Error occurred during initialization of VM' >&2; "
    "echo 'Too small maximum heap' >&2; exit 1": (
        "option that it is given; it has options from JDK_JAVA_OPTIONS: correct or unset them. It said: Too small"
    ),
    "echo 'Picked up _JAVA_OPTIONS: -Dkey=secret' >&2; exit 1": (
        "It said nothing. It has options from _JAVA_OPTIONS: correct or unset them. `penstock doctor` looks at"
    ),
    "echo 'Exception in thread \"main\" java.lang.InitializerError' >&2; echo 'Caused by: java.lang.Oh: b' >&2; "
    "echo 'Caused by: java.net.UnknownHostException: no-ip: not known' >&2; exit 1": (
        "its JVM ended with code 1. It said: Caused by: java.net.UnknownHostException: no-ip: not known. `"
    ),
    "echo '/x/java: 1: garbage: not found' >&2; echo '/x/spark-class: line 97: CMD: bad array subscript' >&2; exit 1": (
        "it needs Java 17 or newer, and .*java,.* does not run programs: install one .* It said: /x/java: 1: garbage"
    ),
}


@pytest.fixture
def starting(begun: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """There is no Spark in this process yet."""
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    return begun


@pytest.mark.parametrize("does", ENDS)
def test_why_a_jvm_does_not_start_is_told_and_nothing_else_that_it_says(
    starting: Path, capfd: pytest.CaptureFixture[str], does: str
):
    (starting / "does").write_text(f"{does}\n")
    jvm.begin({})
    with pytest.raises(ConfigError, match=ENDS[does]) as told:
        context_for(None, "app", starting / "spark.log")
    assert ("install one" in str(told.value)) == ("UnsupportedClass" in does or "subscript" in does)
    assert "secret" not in str(told.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_folder_for_blocks_that_spark_cannot_make_is_told_though_its_jvm_just_ends(tmp_path: Path):
    code = (
        "from pathlib import Path\n"
        "from penstock.engine.spark.session import context_for\n"
        "context_for(None, 'app', Path('spark.log'))\n"
    )
    environment = {**os.environ, "SPARK_LOCAL_DIRS": "/proc"}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert ran.stderr.splitlines()[-1] == (
        "penstock.errors.ConfigError: Spark did not start: it can make no folder in SPARK_LOCAL_DIRS (/proc): name one "
        "that it can write to. It said: DiskBlockManager: Failed to create any local dir."
    )


def test_a_script_of_sparks_that_cannot_be_run_is_told(starting: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPARK_HOME", str(starting / "nowhere"))
    with pytest.raises(ConfigError, match=r"Spark did not start: It said: .*No such file .*nowhere.*spark-submit"):
        context_for(None, "app", starting / "spark.log")


def test_a_jvm_that_is_given_up_before_it_has_a_process_ends_as_soon_as_it_has_one(
    begun: Path, monkeypatch: pytest.MonkeyPatch
):
    launch, may_launch = private.launch, threading.Event()
    monkeypatch.setattr(private, "launch", lambda *given, **more: may_launch.wait(10) and launch(*given, **more))
    jvm.begin({})
    threading.Timer(0.1, may_launch.set).start()
    jvm.give_up()
    assert not (begun / "pid").exists() or not is_there(process(begun))
    assert [one for one in threading.enumerate() if one.name == "penstock-jvm"] == []


def test_without_java_nothing_is_begun(begun: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(ConfigError, match=r"it needs Java 17 .* JAVA_HOME is /nowhere, which has no bin/java"):
        jvm.begin({})
    assert not (begun / "pid").exists()


def test_a_java_that_may_not_be_run_is_told_from_one_that_is_missing(begun: Path, monkeypatch: pytest.MonkeyPatch):
    (begun / "jre" / "bin").mkdir(parents=True)
    (begun / "jre" / "bin" / "java").write_text("#!/bin/sh\n")
    monkeypatch.setenv("JAVA_HOME", str(begun / "jre"))
    with pytest.raises(
        ConfigError, match=r"needs Java 17 .* and .*/jre/bin/java, of JAVA_HOME, may not be run \(chmod"
    ):
        jvm.begin({})
    assert not (begun / "pid").exists()


def test_without_a_folder_for_temporary_files_nothing_is_begun(begun: Path, monkeypatch: pytest.MonkeyPatch):
    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp', '/var/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    with pytest.raises(ConfigError, match=r"no folder for temporary files .*\['/tmp', '/var/tmp'\].*set TMPDIR to one"):
        jvm.begin({})


def test_a_folder_for_temporary_files_with_a_comma_is_refused_before_spark_takes_it_apart(
    begun: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "a,b"))
    with pytest.raises(ConfigError, match=r"and Spark takes its path apart at each comma: set"):
        jvm.begin({})
    assert not (begun / "pid").exists()


def test_a_jvm_that_crashes_with_the_archive_is_started_once_more_without(
    starting: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(starting / "cache"))
    place = class_archive.archive()
    assert place is not None
    place.parent.mkdir(parents=True)
    left = place.with_name(f"{place.stem}-77.made")
    left.write_bytes(bytes(2 << 20))
    os.utime(left, (2000, 2000))
    (starting / "does").write_text(f'echo "$@" >> "{starting}/starts"\nkill -ABRT $$\n')
    jvm.begin(session._options("app", starting / "spark.log"))
    with pytest.raises(ConfigError, match="its JVM ended with code -6"):
        context_for(None, "app", starting / "spark.log")
    assert [f'SharedArchiveFile="{place}"' in line for line in (starting / "starts").read_text().splitlines()] == [
        True,
        False,
    ]
    assert not place.exists()


def test_a_java_that_can_make_no_archive_is_started_once_more_and_not_asked_for_one(
    starting: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(class_archive, "_given_up", set())
    monkeypatch.setenv("XDG_CACHE_HOME", str(starting / "cache"))
    said = "Error occurred during initialization of VM\\nDynamicDumpSharedSpaces is unsupported when base CDS archive"
    (starting / "does").write_text(f'echo "$@" >> "{starting}/starts"\nprintf "{said}\\n" >&2\nexit 1\n')
    jvm.begin(session._options("app", starting / "spark.log"))
    with pytest.raises(ConfigError, match="of VM: DynamicDumpSharedSpaces is unsupported"):
        context_for(None, "app", starting / "spark.log")
    lines = (starting / "starts").read_text().splitlines()
    assert ["ArchiveClassesAtExit" in line for line in lines] == [True, False]


def test_a_start_that_fails_leaves_no_archive_of_classes(starting: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(starting / "cache"))
    (starting / "does").write_text(
        'left=$(echo "$@" | sed \'s/.*ArchiveClassesAtExit="\\([^"]*\\)".*/\\1/\')\n'
        f'echo classes > "$left"; ls "{starting}/cache/penstock" > "{starting}/made"; exit 1\n'
    )
    with pytest.raises(ConfigError, match="its JVM ended with code 1"):
        context_for(None, "app", starting / "spark.log")
    assert (starting / "made").read_text().endswith(f"-{os.getpid()}.made\n")
    assert list((starting / "cache" / "penstock").iterdir()) == []


def test_a_start_makes_the_checksum_of_the_archive_once(starting: Path, monkeypatch: pytest.MonkeyPatch):
    made: list[None] = []
    monkeypatch.setattr(class_archive, "java_options", lambda: made.append(None) or "")
    (starting / "does").write_text("exit 3\n")
    session.begin_jvm(None, "app", starting / "spark.log")
    with pytest.raises(ConfigError, match="its JVM ended with code 3"):
        context_for(None, "app", starting / "spark.log")
    assert len(made) == 1


def test_a_jvm_has_the_drivers_folder_for_temporary_files_and_any_path_for_its_log(tmp_path: Path):
    options = session._options("app", tmp_path / 'a "b"' / "spark.log")
    java = options["spark.driver.extraJavaOptions"]
    assert f'-Djava.io.tmpdir="{jvm.folder_of_jvm() or tempfile.gettempdir()}"' in java
    assert f'-Dpenstock.log="{tmp_path}/a \\"b\\"/spark.log"' in java
    java = session._options("app", tmp_path / "20%c" / "spark.log")["spark.driver.extraJavaOptions"]
    assert f'-Dpenstock.log="{tmp_path}/20%c/spark.log"' in java
    assert f'-Dpenstock.rolled="{tmp_path}/20%%c/spark.log"' in java, "a pattern of log4j's"
    assert options["spark.driver.host"] == options["spark.driver.bindAddress"] == "127.0.0.1"


def test_few_open_files_are_made_more_where_the_system_allows_it(monkeypatch: pytest.MonkeyPatch):
    made: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: made.append(limits))
    for limits in ((256, 4096), (256, 512), (2048, 4096), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limits=limits: limits)
        surroundings.allow_open_files()
    assert made == [(1024, 4096), (512, 512)]


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


@pytest.mark.parametrize(
    ("last", "told"),
    [
        ("ValueError: no", "ValueError: no"),
        ("ModuleNotFoundError: No module named 'penstock'", "the Python that Spark runs has no Penstock: install"),
    ],
)
def test_a_job_says_how_its_python_processes_failed(last: str, told: str):
    said = f'It failed.\nTraceback (most recent call last):\n  File "worker.py", line 1\n{last}\n\n\tat org.x'

    class Graph:
        def run(self) -> list[str]:
            raise RuntimeError(said)

        def cancel(self) -> None:
            """It has ended."""

    ended = threading.Event()
    job = SlotsJob(Graph(), 1, ended.set)
    assert ended.wait(10)
    assert job.failure.startswith(told)


def test_a_job_whose_jvm_is_gone_before_it_begins_ends_without_a_stack_trace(capfd: pytest.CaptureFixture[str]):
    class Graph:
        def run(self) -> list[str]:
            raise ConnectionRefusedError("the JVM is gone")

        def cancel(self) -> None:
            """There is nothing to cancel."""

    ended = threading.Event()
    job = SlotsJob(Graph(), 1, ended.set)
    assert ended.wait(10)
    assert (job.has_ended, job.failure) == (True, "the JVM is gone")
    assert capfd.readouterr() == ("", "")
