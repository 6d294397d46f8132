"""Where the topics of a DataFrame lie: the option ``log`` of the data source, or the settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from penstock.errors import ConfigError
from penstock.locations import log_place
from penstock.log.base import Log
from penstock.log.cluster import Kafka
from penstock.settings import Settings

Place = str | Kafka
"""A folder by its whole path, or a cluster; what ``open_log`` takes in any process."""


def option_of(log: Log) -> str:
    """What the option has to be to mean this log.

    Raises:
        ConfigError: other processes cannot open it, or a secret would be in the option.
    """
    if isinstance(log.place, Kafka):
        return log.place.open_url()
    if log.place is None:
        raise ConfigError(f"write: Spark needs a log that its processes share, not a {type(log).__name__}")
    return str(Path(log.place).resolve())


def place_of(options: Mapping[str, str]) -> Place:
    """Where the topics lie that the options of a data source mean; by default those of the settings.

    Raises:
        ConfigError: it is neither a folder nor a Kafka cluster, or a secret is written out in the option.
    """
    given = options.get("log")
    where = Settings.load().topics_in if given is None else log_place(given, 'format("penstock"): the option log')
    if isinstance(where, Path):
        return os.path.abspath(where)
    cluster = Kafka(where)
    if given is not None:
        cluster.open_url()
    return cluster
