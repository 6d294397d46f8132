"""The queries of Spark that belong to a program: DataFrames into its topics, and its results into tables."""

from penstock.engine import spark  # noqa: F401 - says first where PySpark is missing
