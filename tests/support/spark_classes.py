"""What sessions that tests make as users do take over from Penstock's own: the class archive and a quick JVM."""

from __future__ import annotations

import os

from penstock.engine.spark import class_archive

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The simple compiler and collector: half the CPU of a JVM that lives for seconds."""

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"


def use() -> None:
    """Have the JVMs that are started from now on, by this process and its children, be quick, and drivers map the
    archive, if it is there."""
    place = class_archive.archive()
    archive = class_archive.java_options().replace('"', "") if place is not None and place.exists() else ""
    driver = f"spark.driver.defaultJavaOptions={QUICK_JVM} {archive}".strip()
    executor = f"spark.executor.defaultJavaOptions={QUICK_JVM}"
    os.environ.setdefault(_ARGUMENTS, f"--conf '{driver}' --conf '{executor}' pyspark-shell")
