"""Logs for programs: one JSON object a line, separate from the results."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any

import click

from penstock.values.masking import masked

log_format_option = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    envvar="PENSTOCK_LOG_FORMAT",
    help="The format of messages: text for people, or JSON, one object a line.",
)

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formats a log record as one line of JSON: time, level, logger, message, exception, and fields of ``extra``,
    without secrets.

    >>> record = logging.makeLogRecord({"name": "app", "levelname": "INFO", "msg": "on", "created": 1.5})
    >>> JsonFormatter().format(record)
    '{"time": "1970-01-01T00:00:01.500Z", "level": "INFO", "logger": "app", "message": "on"}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        found: dict[str, Any] = {
            "time": f"{seconds}.{int(record.created * 1000) % 1000:03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": masked(record.getMessage()),
        }
        if record.exc_info:
            found["error"] = masked(self.formatException(record.exc_info))
        extra = {name: _masked(value) for name, value in vars(record).items() if name not in _OWN}
        return json.dumps(found | extra | found, ensure_ascii=False)


def json_line(level: str, message: str) -> str:
    """Return a message as one line, for places where a logger cannot run."""
    return JsonFormatter().format(logging.makeLogRecord({"name": "penstock.cli", "levelname": level, "msg": message}))


def _masked(value: Any) -> Any:
    """Return a value for JSON, without secrets."""
    if isinstance(value, Mapping):
        return {str(name): _masked(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float) else masked(str(value))


def logs_are_json() -> bool:
    """Return whether :func:`log_as_json` is in effect."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)


def log_as_json() -> None:
    """Write all of this process's logs, messages and warnings as JSON."""
    logging.captureWarnings(True)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(min(root.level or logging.INFO, logging.INFO))
    logging.getLogger("py4j").setLevel(logging.WARNING)
