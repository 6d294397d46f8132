"""Which log is meant: one that is there, a folder, or the one of the settings."""

from __future__ import annotations

from pathlib import Path

from penstock.log.base import Log
from penstock.log.file.log import FileLog
from penstock.settings import Settings


def open_log(log: Log | Path | str | None = None) -> Log:
    """The log itself, the file log in a folder, or by default the one of the setting ``log_dir``.

    >>> open_log("somewhere").url
    'somewhere'
    """
    if isinstance(log, Log):
        return log
    return FileLog(Settings.load().log_dir if log is None else log)
