import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.spark_classes import QUICK_JVM

sys.path.insert(0, str(Path(__file__).parent.parent / "faults"))  # the topology of two stages, and its input


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session as users have their own, in an activated environment."""
    from pyspark.sql import SparkSession

    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    builder = SparkSession.builder.master("local[4]").appName("a user's own")
    builder = builder.config("spark.driver.host", "localhost").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.driver.extraJavaOptions", QUICK_JVM)
    builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "3")
    session = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse"))).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.sparkContext.pythonExec = sys.executable  # the JVM may be an earlier file's, with another PATH
    yield session
    session.stop()
