"""What sessions that tests make as users do take over from Penstock's own: the class archive and a quick JVM."""

from __future__ import annotations

import os
from functools import cache

from penstock.engine.spark import class_archive

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The simple compiler and collector: half the CPU of a JVM that lives for seconds."""

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"


@cache
def prepared_jvm() -> str:
    """Options of a quick JVM that maps the class archive, if it is there: half the CPU of a start once more. For all
    JVMs of Spark that tests start: drivers, executors, servers, masters and workers have the same class path."""
    place = class_archive.archive()
    archive = class_archive.java_options().replace('"', "") if place is not None and place.exists() else ""
    return f"{QUICK_JVM} {archive}".strip()


def use() -> None:
    """Have drivers and executors that are started from now on, by this process and its children, be such JVMs."""
    kinds = [f"--conf 'spark.{kind}.defaultJavaOptions={prepared_jvm()}'" for kind in ("driver", "executor")]
    os.environ.setdefault(_ARGUMENTS, f"{' '.join(kinds)} pyspark-shell")
