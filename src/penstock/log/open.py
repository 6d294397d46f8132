"""Opens a log: an existing one, a folder, a Kafka cluster, or the one of the settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import ConfigError
from penstock.files.locations import log_place
from penstock.log.base import Log
from penstock.log.cluster import Kafka
from penstock.log.file.log import FileLog
from penstock.settings import Settings


def open_log(log: Log | Kafka | Path | str | None = None) -> Log:
    """Return the given log, the topics of a Kafka cluster, the file log in a folder, or by default the settings' log.

    Raises:
        ConfigError: it is neither a folder nor a Kafka cluster, or a cluster without the extra
            ``penstock-streams[kafka]``.

    >>> open_log("somewhere").url
    'somewhere'
    """
    if isinstance(log, Log):
        return log
    if log is None:
        log = Settings.load().topics_in
    if not isinstance(log, Kafka):
        place = log_place(log)
        if isinstance(place, Path):
            return FileLog(place)
        log = Kafka(place)
    return _kafka_log(log)


@contextmanager
def opened(log: Log | Kafka | Path | str | None = None) -> Iterator[Log]:
    """Yield the log of ``open_log``, and close its connections at the end, unless the caller opened it."""
    found = open_log(log)
    try:
        yield found
    finally:
        if found is not log:
            found.close()


def shared_log(log: Log | Kafka | Path | str | None, settings: Settings) -> Log:
    """Return the log of an application that all of its processes open: folders by their absolute path.

    Raises:
        ConfigError: only this process has it.
    """
    where = settings.topics_in if log is None else log
    if not isinstance(where, Log | Kafka) and isinstance(place := log_place(where), Path):
        where = place.resolve()
    found = open_log(where)
    check_shared(found)
    return found


def check_shared(log: Log | Kafka | Path | str | None) -> None:
    """Raise ``ConfigError`` for a value that cannot be an application's log, without opening it."""
    if isinstance(log, Log):
        if log.place is None:
            raise ConfigError(
                f"an application on Spark needs a log that its processes share, not a {type(log).__name__}"
            )
    elif log is not None and not isinstance(log, Kafka):
        log_place(log)


def _kafka_log(cluster: Kafka) -> Log:
    try:
        from penstock.log.kafka.log import KafkaLog
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "confluent_kafka":
            raise
        raise ConfigError(f"{cluster.url} needs confluent-kafka: pip install 'penstock-streams[kafka]'") from None
    return KafkaLog(cluster)
