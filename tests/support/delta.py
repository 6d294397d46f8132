"""Delta Lake for tests: its files, which Maven gets once, and a session with them."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

VERSION = "4.4.0"
"""The newest for Spark 4.2 that Maven Central has."""

_ARTIFACTS = ("delta-spark_4.2_2.13", "delta-storage")
_GET = "org.apache.maven.plugins:maven-dependency-plugin:2.8:get"


@cache
def jars() -> str:
    """Its files, with commas between them; the test is left out where Maven cannot."""
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("tests with Delta Lake need Maven")
    found = []
    for name in _ARTIFACTS:
        file = Path.home() / f".m2/repository/io/delta/{name}/{VERSION}/{name}-{VERSION}.jar"
        if not file.exists():
            what = f"-Dartifact=io.delta:{name}:{VERSION}"
            command = [maven, "-q", "-B", _GET, "-Dtransitive=false", what]
            got = subprocess.run(command, capture_output=True, timeout=300)
            if got.returncode:
                pytest.skip(f"tests with Delta Lake are left out: Maven cannot get it: {got.stdout.decode()[-300:]}")
        found.append(str(file))
    return ",".join(found)


def with_delta(builder: Any, files: str) -> Any:
    """A builder of a session that knows Delta Lake."""
    builder = builder.config("spark.jars", files)
    builder = builder.config("spark.databricks.delta.snapshotPartitions", "1")  # 50 tasks for a few rows by default
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    return builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
