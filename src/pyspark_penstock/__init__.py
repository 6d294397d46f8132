"""Lets every Spark session find ``format("penstock")``: Spark looks for packages of this name by itself."""

from penstock.engine.spark.dataframes import PenstockSource as DefaultSource

__all__ = ["DefaultSource"]
