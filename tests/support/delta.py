"""Delta Lake for tests: its files, and a session with them."""

from __future__ import annotations

from typing import Any

from support.maven import jar

VERSION = "4.4.0"
"""The newest for Spark 4.2 that Maven Central has."""


def jars() -> str:
    """Its files, with commas between them; the test is left out where Maven cannot get them."""
    return ",".join(jar("io.delta", name, VERSION) for name in ("delta-spark_4.2_2.13", "delta-storage"))


def with_delta(builder: Any, files: str) -> Any:
    """A builder of a session that knows Delta Lake."""
    builder = builder.config("spark.jars", files)
    builder = builder.config("spark.databricks.delta.snapshotPartitions", "1")  # 50 tasks for a few rows by default
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    return builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
