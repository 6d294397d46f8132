"""Logs that programs read: one JSON object a line, beside the results."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any

import click

from penstock.masking import masked

log_format_option = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    envvar="PENSTOCK_LOG_FORMAT",
    help="What is said beside the results: for people, or JSON, one object a line.",
)

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """A log record as one line of JSON: time, level, logger, message, what was raised, and what ``extra`` gave under
    other names; nothing secret.

    >>> record = logging.makeLogRecord({"name": "app", "levelname": "INFO", "msg": "on", "created": 1.5})
    >>> JsonFormatter().format(record)
    '{"time": "1970-01-01T00:00:01.500Z", "level": "INFO", "logger": "app", "message": "on"}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
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
    """What is said in one line, where there is no time for a logger."""
    return JsonFormatter().format(logging.makeLogRecord({"name": "penstock.cli", "levelname": level, "msg": message}))


def _masked(value: Any) -> Any:
    """What JSON has of a value, without anything secret."""
    if isinstance(value, Mapping):
        return {str(name): _masked(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float) else masked(str(value))


def logs_are_json() -> bool:
    """Whether :func:`log_as_json` holds."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)


def log_as_json() -> None:
    """Have everything that this process logs, and says beside its results, come as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(min(root.level or logging.INFO, logging.INFO))
    logging.getLogger("py4j").setLevel(logging.WARNING)
