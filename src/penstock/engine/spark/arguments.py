"""The arguments of a start, checked before anything is started."""

from __future__ import annotations

from typing import Any

from penstock.durations import to_ms
from penstock.engine.lifecycle import check_callable
from penstock.errors import ConfigError
from penstock.messages import show
from penstock.plan.names import check_name

AVAILABLE_NOW = "available-now"


def check_arguments(application_id: Any, spark: Any, trigger: Any, slots: Any, on_progress: Any) -> None:
    """Raise ``ConfigError`` for arguments of ``start`` that would only fail when Spark has started."""
    check_name(application_id)
    if trigger not in (None, AVAILABLE_NOW):
        try:
            to_ms(trigger, "trigger")
        except ConfigError as error:
            raise ConfigError(f"start: {error}; or {AVAILABLE_NOW!r} to process what is there and stop") from None
    if slots is not None and (isinstance(slots, bool) or not isinstance(slots, int) or slots < 1):
        raise ConfigError(f"start: slots is a number of processes from 1 on, got {show(slots)}")
    check_callable(on_progress, "start: on_progress", "(progress), called after every commit")
    if spark is not None and not hasattr(spark, "readStream"):
        raise ConfigError(f"start: spark is a SparkSession, got {show(spark)} of type {type(spark).__name__}")
