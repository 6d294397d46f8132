"""The class archive of Penstock's own sessions, for sessions that tests make as users do."""

from __future__ import annotations

import os

from penstock.engine.spark import class_archive

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"


def use() -> None:
    """Have the JVMs that are started from now on, by this process and its children, map the archive, if it is there."""
    place = class_archive.archive()
    if place is not None and place.exists():
        options = class_archive.java_options().replace('"', "")
        given = f"--conf 'spark.driver.defaultJavaOptions={options}' pyspark-shell"
        os.environ.setdefault(_ARGUMENTS, given)
