"""Checks the arguments of a start before anything is started."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from penstock.engine.operate.lifecycle import check_callable
from penstock.errors import ConfigError
from penstock.files.locations import scheme_of
from penstock.messages import show
from penstock.plan.names import check_application_id
from penstock.settings import Settings
from penstock.values.durations import to_ms

AVAILABLE_NOW = "available-now"


def check_arguments(application_id: Any, spark: Any, trigger: Any, slots: Any, on_progress: Any) -> None:
    """Raise ``ConfigError`` for arguments of ``start`` that would otherwise fail only after Spark has started."""
    check_application_id(application_id)
    if trigger not in (None, AVAILABLE_NOW):
        try:
            to_ms(trigger, "trigger")
        except ConfigError as error:
            raise ConfigError(f"start: {error}; or {AVAILABLE_NOW!r} to process all present records and stop") from None
    if slots is not None and (isinstance(slots, bool) or not isinstance(slots, int) or slots < 1):
        raise ConfigError(
            f"start: slots is a number of processes, an int of at least 1; got {show(slots)} of type "
            f"{type(slots).__name__}"
        )
    check_callable(on_progress, "start: on_progress", "(progress), called after every commit")
    if spark is not None and not hasattr(spark, "readStream"):
        raise ConfigError(
            f"start: spark is a SparkSession; got {show(spark)} of type {type(spark).__name__}; make one with "
            "SparkSession.builder.getOrCreate(), or leave spark= out"
        )


def settings_of(application_id: str, given: dict[str, Any]) -> Settings:
    """Return the settings of an application. Its folder is named after the application by default."""
    loaded = Settings.load(**given)
    if loaded.state_dir is None:
        loaded = Settings.load(**(given | {"state_dir": Path(".penstock") / application_id}))
    return loaded.resolved()


def check_folders(settings: Settings, log: str) -> None:
    """Raise ``ConfigError`` for folders that cannot be created or written.

    Args:
        log: where the topics are.
    """
    wanted = {"state_dir (--state-dir)": str(settings.state_dir), "log (--log)": log}
    if settings.checkpoint is not None:
        wanted["checkpoint (--checkpoint)"] = settings.checkpoint
    for setting, place in wanted.items():
        if scheme_of(place) is None and (why := _why_not(Path(place))):
            raise ConfigError(f"{setting} is {place}, and {why}; nothing was started. Choose another folder")


def _why_not(folder: Path) -> str:
    """Return why files cannot be created in a folder, which may not exist yet; empty if they can."""
    there = folder
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if not there.is_dir():
        return f"{there} is no folder"
    return "" if os.access(there, os.W_OK | os.X_OK) else f"{there} cannot be written by this user"
