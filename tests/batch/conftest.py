"""One session of Spark for all tests of batches; a task that fails is run again."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.spark_classes import QUICK_JVM


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    builder = SparkSession.builder.master("local[2,3]").appName("batches")
    builder = builder.config("spark.driver.host", "localhost").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.driver.extraJavaOptions", QUICK_JVM).config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.default.parallelism", "2")
    session = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse"))).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.sparkContext.pythonExec = sys.executable  # the JVM may be an earlier file's, with another PATH
    yield session
    session.stop()
