"""Which Python Spark runs: the one that runs Penstock, also where no environment is activated.

Spark looks for packages of data sources with the first ``python3`` on the path, unless the variables below say
another. From cron, an IDE or Jupyter that is often a Python without Penstock, and ``format("penstock")`` is not found.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

DRIVER = "PYSPARK_DRIVER_PYTHON"
"""What Spark looks for data sources with, in the driver."""
WORKERS = "PYSPARK_PYTHON"
"""What runs Python code in the executors, and what Spark looks with where the other one is not set."""


def let_spark_find_this_python() -> None:
    """Have sessions that begin later look for data sources with this Python, unless somebody chose one or the first
    on the path is it; and have a session that is there know Penstock's."""
    is_chosen = DRIVER in os.environ or WORKERS in os.environ
    if not is_chosen and sys.executable and not _is_this_environment(shutil.which("python3")):
        os.environ[DRIVER] = sys.executable
    session = _session()
    if session is not None:
        _make_known(session)


def lookup_python() -> str:
    """The Python with which Spark looks for data sources in sessions that this process begins."""
    return os.environ.get(DRIVER) or os.environ.get(WORKERS) or sys.executable


def _is_this_environment(python: str | None) -> bool:
    """Whether a Python lies beside this one; what it links to says nothing, since environments share that."""
    return python is not None and Path(python).parent.resolve() == Path(sys.executable).parent.resolve()


def _session() -> Any:
    """The session that is there, without importing Spark for it."""
    module = sys.modules.get("pyspark.sql.session")
    return None if module is None else module.SparkSession._instantiatedSession


def _make_known(session: Any) -> None:
    from penstock import state_frames
    from penstock.engine.spark.dataframes import make_known

    try:
        make_known(session)
        state_frames.make_known(session)
    except Exception:  # a session that is broken or of another kind: an import does not fail for that
        pass
