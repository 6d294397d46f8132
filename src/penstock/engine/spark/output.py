"""What Spark and the slots print: a user's ``print``, warnings, stack traces of processes that are hung up on.

It is passed on to ``sys.stderr`` line by line, so that it neither runs into a progress bar nor misses a notebook, and
not at all while the session is being stopped: then no code of the user's runs any more, and what is left to be said
are complaints about broken pipes.
"""

from __future__ import annotations

import os
import sys
from threading import Thread
from typing import Any, TextIO

_NOISE = "WARNING: Using incubator modules"


class SparkOutput:
    """The standard error of the JVM, which is also that of the slots and takes their standard output."""

    def __init__(self) -> None:
        self._is_muted = False

    def launch(self, conf: Any) -> Any:
        """A new JVM for sessions of this process; what it prints is passed on."""
        from pyspark.java_gateway import launch_gateway

        read, write = os.pipe()
        lines = open(read, encoding="utf-8", errors="replace")  # noqa: SIM115 - read until the JVM ends
        Thread(target=self._pass_on, args=(lines,), name="penstock-spark-output", daemon=True).start()
        try:
            return launch_gateway(conf, {"stderr": write})
        finally:
            os.close(write)

    def unmute(self) -> None:
        self._is_muted = False

    def mute(self) -> None:
        """Drop what is printed from now on, until another session is made."""
        self._is_muted = True

    def _pass_on(self, lines: TextIO) -> None:
        for line in lines:
            if not self._is_muted and not line.startswith(_NOISE):
                sys.stderr.write(line)
                sys.stderr.flush()


SPARK_OUTPUT = SparkOutput()
"""A process has one JVM."""
