"""Starts Spark's JVM in a thread, while the program looks at its topics and its state.

PySpark alone would start one and wait for it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.engine.spark import private
from penstock.engine.spark.output import SPARK_OUTPUT
from penstock.engine.spark.surroundings import allow_open_files, cause, check_java, temporary_folder
from penstock.files import temporary

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The JVM only coordinates: records never pass through it. The simple compiler and collector halve its CPU time."""

_LAST_SECONDS = 5.0
"""How long a JVM that no longer answers may take to end."""


class JvmEndedError(Exception):
    """A JVM ended before Spark was ready.

    Attributes:
        code: its exit code; None if there was no process.
        said: its lines.
    """

    def __init__(self, code: int | None, said: list[str]):
        super().__init__(cause(said, code))
        self.code = code
        self.said = said

    @property
    def keeps_no_classes(self) -> bool:
        """Whether its Java cannot make an archive of classes, and does not start when it is asked for one."""
        return any("DynamicDumpSharedSpaces is unsupported" in line for line in self.said)

    @property
    def has_crashed(self) -> bool:
        """Whether the JVM itself crashed, and was not ended from outside."""
        number = -self.code if self.code is not None and self.code < 0 else (self.code or 0) - 128
        return number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)


class StartingJvm:
    """A JVM that is starting.

    Args:
        options: Spark's options. Options of the JVM itself take effect only here.
    """

    def __init__(self, options: Mapping[str, str]):
        temporary_folder()  # raises if none is writable
        self.options = options
        self._gateway: Future[Any] = Future()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_unwanted = False
        self._changing = threading.Lock()
        self._folder = folder_of_jvm()
        allow_open_files()
        SPARK_OUTPUT.hold()
        self._thread = threading.Thread(target=self._launch, name="penstock-jvm", daemon=True)
        self._thread.start()

    def gateway(self) -> Any:
        """Return PySpark's connection to the JVM, once the JVM is ready.

        Raises:
            JvmEndedError: the JVM ended.
        """
        try:
            return self._gateway.result()
        except (Exception, SystemExit) as error:  # PySpark and py4j raise many kinds of errors
            raise self._ended(error) from error
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """End the JVM, which is no longer needed."""
        with self._changing:
            self._is_unwanted = True
            self._kill()
        self._thread.join()
        SPARK_OUTPUT.taken()

    def _launch(self) -> None:
        try:
            self._gateway.set_result(self._launched())
        except BaseException as error:
            self._gateway.set_exception(error)

    def _launched(self) -> Any:
        errors = SPARK_OUTPUT.pipe()  # Java reports there why it does not start
        held = [temporary.lock_of(self._folder)] if self._folder else []
        try:
            return private.launch(self.options, self._begun, stdout=errors, stderr=errors, pass_fds=held)
        finally:
            os.close(errors)

    def _begun(self, process: subprocess.Popen[bytes]) -> None:
        with self._changing:
            self._process = process
            if self._is_unwanted:
                self._kill()

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _ended(self, error: BaseException) -> JvmEndedError:
        if self._process is None:
            return JvmEndedError(None, [*SPARK_OUTPUT.taken(), str(error)])
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_SECONDS)
        code = self._process.poll()
        self._kill()
        return JvmEndedError(code, SPARK_OUTPUT.taken())


_LONGEST = 60
"""Longest path of that folder: paths of sockets in it have at most 107 characters."""
_folders: dict[int, Path] = {}


def folder_of_jvm() -> Path | None:
    """Return the folder for files that Spark and its Python workers write in addition to their output.

    The JVM of this process has one, locked as long as this process runs. None if paths would become too long.
    """
    pid = os.getpid()
    if pid not in _folders and len(tempfile.gettempdir()) + len("/penstock.spark.12345678") <= _LONGEST:
        _folders[pid] = temporary.folder("spark")
    return _folders.get(pid)


def let_go_of_folder(jvm: Any) -> None:
    """Make the JVM remove its folder at its very end, if nothing is left in it."""
    folder = folder_of_jvm()
    if folder is not None:
        jvm.java.io.File(str(folder)).deleteOnExit()


_lock = threading.Lock()
_starting: list[StartingJvm] = []
"""At most one: a process has one JVM."""


def begin(options: Mapping[str, str]) -> None:
    """Start a JVM, unless there is one, or one to connect to."""
    with _lock:
        if not _starting and private.gateway() is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
            check_java()
            _starting.append(StartingJvm(options))


def options_of_starting() -> Mapping[str, str]:
    """Return the Spark options of the starting JVM; empty if no JVM is starting."""
    with _lock:
        return _starting[0].options if _starting else {}


def gateway(options: Mapping[str, str]) -> Any:
    """Return PySpark's connection to the starting JVM; starts one if necessary.

    Raises:
        JvmEndedError: the JVM ended.
    """
    with _lock:
        starting = _starting.pop() if _starting else StartingJvm(options)
    return starting.gateway()


def give_up() -> None:
    """End the starting JVM, if any, that is no longer needed."""
    with _lock:
        while _starting:
            _starting.pop().end()
