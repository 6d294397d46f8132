"""A whole topology as one batch job of Spark: DataFrames in, DataFrames out (docs/decisions/0083)."""

from penstock.engine import spark  # noqa: F401 - says first where PySpark is missing
