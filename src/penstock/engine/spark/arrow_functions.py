"""Functions of Arrow arrays as columns of Spark, also before Spark 4.1, which calls functions value by value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as f

from penstock.errors import ConfigError


def arrow_function(function: Callable[[pa.Array], pa.Array], argument: Any, returned: str, what: str) -> Any:
    """Return a function of columns, computed in Python.

    Args:
        argument: the Arrow type of the values that the function is given.
        returned: the type of its results, in Spark's words.
        what: the purpose, for the error.

    Raises:
        ConfigError: before Spark 4.1, for values with times of day in them: Spark gives these another zone on the way.
    """
    if hasattr(f, "arrow_udf"):
        return f.arrow_udf(function, returned)
    if _has_times(argument):
        raise ConfigError(
            f"{what} has the type {argument}, and Spark before 4.1 hands times to Python in the zone of the machine; "
            "cast it to text or to a number first, or use Spark 4.1 or newer"
        )
    return f.udf(lambda value: _plain(function(pa.array([_dicts(value)], argument))[0]), returned)


def _plain(result: Any) -> Any:
    return result.as_py()


def _dicts(value: Any) -> Any:
    """Return a value of Spark's, with dicts in place of rows."""
    return value.asDict(recursive=True) if hasattr(value, "asDict") else value


def _has_times(kind: Any) -> bool:
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return True
    return pa.types.is_nested(kind) and any(_has_times(kind.field(at).type) for at in range(kind.num_fields))
