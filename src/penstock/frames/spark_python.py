"""Makes Spark use the Python that runs Penstock, also if no environment is activated.

Spark looks for packages of data sources with the first ``python3`` on the path, unless the variables below name
another. From cron, an IDE or Jupyter that is often a Python without Penstock, so ``format("penstock")`` is not found.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

DRIVER = "PYSPARK_DRIVER_PYTHON"
"""The Python with which Spark looks for data sources, in the driver."""
WORKERS = "PYSPARK_PYTHON"
"""The Python of the executors, and of the look-up if the other variable is not set."""


def let_spark_find_this_python() -> None:
    """Make later sessions look for data sources with this Python, unless one was chosen or the first on the path is
    this one.

    Also register Penstock's data sources in an existing session.
    """
    is_chosen = DRIVER in os.environ or WORKERS in os.environ
    if not is_chosen and sys.executable and not _is_this_environment(shutil.which("python3")):
        os.environ[DRIVER] = sys.executable
    session = _session()
    if session is not None:
        _make_known(session)


def lookup_python() -> str:
    """Return the Python with which this process's sessions look for data sources."""
    return os.environ.get(DRIVER) or os.environ.get(WORKERS) or sys.executable


def _is_this_environment(python: str | None) -> bool:
    """Return whether a Python is in the same folder as this one. Its link target does not count: environments share
    it.
    """
    return python is not None and Path(python).parent.resolve() == Path(sys.executable).parent.resolve()


def _session() -> Any:
    """Return the existing session, without importing Spark for it."""
    module = sys.modules.get("pyspark.sql.session")
    return None if module is None else module.SparkSession._instantiatedSession


def _make_known(session: Any) -> None:
    from penstock.engine.spark.dataframes import make_known
    from penstock.frames import state_frames

    try:
        make_known(session)
        state_frames.make_known(session)
    except Exception:  # a broken or unusual session: the import must not fail
        pass
