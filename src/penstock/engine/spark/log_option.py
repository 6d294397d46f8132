"""The place of a DataFrame's topics: the data source's option ``log``, or the settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from penstock.errors import ConfigError
from penstock.files.locations import log_place
from penstock.log.base import Log
from penstock.log.cluster import Kafka
from penstock.settings import Settings

_OF_CONNECT = "SPARK_JOB_ARTIFACT_UUID"
"""The variable that Spark sets in the Python processes of a Connect session; each session has a working folder."""

Place = str | Kafka
"""The absolute path of a folder, or a cluster; ``open_log`` takes it in any process."""


def option_of(log: Log) -> str:
    """Return the option's value for this log.

    Raises:
        ConfigError: other processes cannot open it, or the option would contain a secret.
    """
    if isinstance(log.place, Kafka):
        return log.place.open_url()
    if log.place is None:
        raise ConfigError(f"write: Spark needs a log that its processes share, not a {type(log).__name__}")
    return str(Path(log.place).resolve())


def place_of(options: Mapping[str, str]) -> Place:
    """Return the place of the topics that a data source's options mean; by default that of the settings.

    Raises:
        ConfigError: it is neither a folder nor a Kafka cluster, or the option contains a secret.
    """
    given = options.get("log")
    where = Settings.load().topics_in if given is None else log_place(given, 'format("penstock"): the option log')
    if isinstance(where, Path):
        if not where.is_absolute() and os.environ.get(_OF_CONNECT, "default") != "default":
            raise ConfigError(
                f'format("penstock"): the topics are in the folder {str(where)!r}, which under Spark Connect is one '
                'beside the server, not beside your program. Give its absolute path: .option("log", "/.../topics")'
            )
        return os.path.abspath(where)
    cluster = Kafka(where)
    if given is not None:
        cluster.open_url()
    return cluster
