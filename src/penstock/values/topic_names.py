"""Rules for topic names."""

from __future__ import annotations

import re

from penstock.errors import ConfigError
from penstock.messages import show

MOST_PARTITIONS = 100_000
"""Far more than programs can read as tasks, and few enough that a topic with them can still be listed and removed."""
TOPIC_NAMES = "use 1 to 249 letters, digits, dots, underscores and hyphens"
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """Return whether this is a valid topic name, by Kafka's rules."""
    return isinstance(name, str) and bool(_NAME.fullmatch(name)) and name not in (".", "..")


def check_topic_name(name: str) -> str:
    """Return the name, if it is valid; raises ``ConfigError``."""
    if not isinstance(name, str):
        raise ConfigError(f"a topic's name is text, such as 'orders'; got {show(name)} of type {type(name).__name__}")
    if not is_topic_name(name):
        raise ConfigError(f"{name!r} cannot be a topic's name: {TOPIC_NAMES}")
    return name
