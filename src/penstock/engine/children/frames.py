"""Results as streaming DataFrames."""

from __future__ import annotations

from typing import Any

from penstock.engine.children.table_columns import typed
from penstock.engine.spark.dataframes import FORMAT, make_known
from penstock.engine.spark.log_option import option_of
from penstock.errors import ConfigError
from penstock.log.open import opened
from penstock.messages import show
from penstock.serdes import Serde


def frame_of(spark: Any, topic: str, log: Any, key: Serde, value: Serde) -> Any:
    """The records of a topic as a streaming DataFrame, with keys and values of their own types.

    Raises:
        ConfigError: it is no session, or Spark's processes cannot open the log.
    """
    if not hasattr(spark, "readStream"):
        raise ConfigError(f"to_dataframe takes a SparkSession; got {show(spark)} of type {type(spark).__name__}")
    make_known(spark)
    with opened(log) as topics:
        options = {"topic": topic, "log": option_of(topics)}
    return typed(spark.readStream.format(FORMAT).options(**options).load(), key, value)
