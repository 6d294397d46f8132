"""The JVM of Spark that Penstock starts itself: it comes up while the program still looks at its topics and its state.

PySpark starts one and waits for it, at once. Here that is two steps; the second is PySpark's own, for a JVM that is
there already. Two things that its script does are left out: a Python that looks for Spark's folder, which is known, and
the optimizing compiler for the short-lived JVM that puts the command together.
"""

from __future__ import annotations

import os
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from penstock import temporary
from penstock.engine.spark.class_archive import spark_home
from penstock.engine.spark.output import SPARK_OUTPUT
from penstock.engine.spark.surroundings import allow_open_files, cause, check_java, temporary_folder

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The JVM only coordinates: records never pass through it. The simple compiler and collector cost it half the CPU."""

_LOOK_SECONDS = 0.005
_LAST_SECONDS = 5.0
"""How long one may take to end that does not answer any more."""
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


class JvmEndedError(Exception):
    """A JVM ended before Spark was there.

    Attributes:
        code: with which one.
        said: its lines.
    """

    def __init__(self, code: int | None, said: list[str]):
        super().__init__(cause(said, code))
        self.code = code
        self.said = said

    @property
    def has_crashed(self) -> bool:
        """Whether it was a fault of the JVM's own, and nobody's who ended it."""
        number = -self.code if self.code is not None and self.code < 0 else (self.code or 0) - 128
        return number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)


class StartingJvm:
    """A JVM that is coming up.

    Args:
        home: Spark's folder.
        options: Spark's options; those of the JVM itself take effect now only.
    """

    def __init__(self, home: Path, options: Mapping[str, str]):
        temporary_folder()  # or say what is missing
        self.options = options
        self._folder = temporary.folder("jvm")
        self._told = self._folder / "connection"
        """Where it says how it is reached."""
        own = [part for name, value in options.items() for part in ("--conf", f"{name}={value}")]
        more = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_CONNECT_MODE": "0",
            "SPARK_LAUNCHER_OPTS": f"{QUICK} {os.environ.get('SPARK_LAUNCHER_OPTS', '')}",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._told),
        }
        allow_open_files()
        SPARK_OUTPUT.hold()
        errors = SPARK_OUTPUT.pipe()
        try:
            self._process = subprocess.Popen(
                [str(home / "bin" / "spark-submit"), *own, *more],
                stdin=subprocess.PIPE,  # it ends when this end is closed
                stdout=errors,  # where Java tells why it does not start
                stderr=errors,
                env=environment,
                preexec_fn=_ignore_interrupts,
                pass_fds=[temporary.lock_of(folder)] if (folder := folder_of_jvm()) else [],
            )
        except BaseException:
            temporary.remove(self._folder)
            raise
        finally:
            os.close(errors)

    def gateway(self) -> Any:
        """PySpark's connection to it, once it is there.

        Raises:
            JvmEndedError: it ended.
        """
        from pyspark.java_gateway import launch_gateway

        try:
            while not self._told.exists():
                if self._process.poll() is not None:
                    raise self._ended()
                time.sleep(_LOOK_SECONDS)
            port, secret = _read(self._told.read_bytes())
        finally:
            temporary.remove(self._folder)
        try:
            with _environment({_PORT: str(port), _SECRET: secret}):
                gateway = launch_gateway()
        except Exception as error:  # what py4j raises is of many kinds
            raise self._ended() from error
        gateway.proc = self._process
        return gateway

    def _ended(self) -> JvmEndedError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_SECONDS)
        code = self._process.poll()
        self._process.kill()
        self._process.wait()
        return JvmEndedError(code, SPARK_OUTPUT.taken())

    def end(self) -> None:
        """Let it go: nobody wants it any more."""
        self._process.kill()
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._process.wait()
        SPARK_OUTPUT.taken()
        temporary.remove(self._folder)


_LONGEST = 60
"""How long the path of that folder may be: paths of sockets in it have 107 characters at most."""
_folders: dict[int, Path] = {}


def folder_of_jvm() -> Path | None:
    """The folder for what Spark and its Python workers write beside their work.

    The JVM of this process has one, and holds it as this process does. None where paths would become too long.
    """
    pid = os.getpid()
    if pid not in _folders and len(tempfile.gettempdir()) + len("/penstock.spark.12345678") <= _LONGEST:
        _folders[pid] = temporary.folder("spark")
    return _folders.get(pid)


def let_go_of_folder(jvm: Any) -> None:
    """Have the JVM remove its folder as the last thing that it does, if nothing is left in it."""
    folder = folder_of_jvm()
    if folder is not None:
        jvm.java.io.File(str(folder)).deleteOnExit()


_lock = threading.Lock()
_starting: list[StartingJvm] = []
"""At most one: a process has one JVM."""


def begin(options: Mapping[str, str]) -> None:
    """Have a JVM come up, unless there is one, or it is to be started in PySpark's own way."""
    home = _home()
    with _lock:
        if home is not None and not _starting and not _is_there() and _PORT not in os.environ:
            check_java()
            _starting.append(StartingJvm(home, options))


def options_of_starting() -> Mapping[str, str]:
    """Spark's options with which a JVM is coming up; none where there is no such JVM."""
    with _lock:
        return _starting[0].options if _starting else {}


def gateway(options: Mapping[str, str]) -> Any:
    """PySpark's connection to the JVM that is coming up; to a new one if there is none.

    Raises:
        JvmEndedError: it ended; PySpark's own error of one that PySpark started.
    """
    with _lock:
        if _starting:
            return _starting.pop().gateway()
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    errors = SPARK_OUTPUT.pipe()
    try:
        return launch_gateway(SparkConf(loadDefaults=False).setAll(list(options.items())), {"stderr": errors})
    finally:
        os.close(errors)


def give_up() -> None:
    """Let go of a JVM that is coming up for nobody, if there is one."""
    with _lock:
        while _starting:
            _starting.pop().end()


def _is_there() -> bool:
    """Whether PySpark has a JVM already."""
    core = sys.modules.get("pyspark.core.context")
    return core is not None and core.SparkContext._gateway is not None


def _home() -> Path | None:
    """Spark's folder; None where only PySpark itself finds it, or its script is not for this system."""
    home = spark_home()
    is_whole = (home / "bin" / "spark-submit").is_file() and (home / "jars").is_dir()
    return home if is_whole and os.name == "posix" else None


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _read(told: bytes) -> tuple[int, str]:
    """The port, and what proves that one may use it."""
    port, length = struct.unpack_from(">ii", told)
    return port, told[8 : 8 + length].decode()


@contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    """PySpark takes these from there, and slots and other programs are not to find them."""
    os.environ.update(more)
    try:
        yield
    finally:
        for name in more:
            os.environ.pop(name, None)
