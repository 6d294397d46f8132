"""Clients of librdkafka, and the meanings of their errors."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from penstock.errors import ConfigError, LogError, OffsetOutOfRangeError, PenstockError, TopicNotFoundError
from penstock.log.cluster import Kafka

_log = logging.getLogger(__name__)
_librdkafka = logging.getLogger(f"{__name__}.librdkafka")
_TOLD_EVERY = 60.0
"""Seconds until a message of librdkafka is told again."""

_REFUSED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "may not use the topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "may not use the consumer group that bears the application id",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "may not do this to the cluster",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "may not use the transactional id of this application",
}
_UNKNOWN_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_NOT_KNOWN = (KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._AUTHENTICATION)
_NOT_TRUSTED = re.compile("certificate verify failed|SSL alert number")
"""librdkafka's messages about a rejected certificate: the broker's, or this client's."""
_TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
_LOST = (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)
_PASSING = (
    *(KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.REPLICA_NOT_AVAILABLE),
    *(KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    *(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR),
    *(KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.UNSTABLE_OFFSET_COMMIT, KafkaError.CONCURRENT_TRANSACTIONS),
    *(KafkaError.BROKER_NOT_AVAILABLE, KafkaError.NOT_CONTROLLER, KafkaError.KAFKA_STORAGE_ERROR),
    *(KafkaError.REQUEST_TIMED_OUT, KafkaError.NETWORK_EXCEPTION, KafkaError.THROTTLING_QUOTA_EXCEEDED),
    *(KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN),
    KafkaError._NOENT,  # no partition has a leader: its broker has just come back
)
"""Errors that Kafka's own clients retry; librdkafka's ``retriable`` only refers to transactions."""
_PAUSE_SECONDS = 0.1
_REQUEST_SECONDS = 10.0
"""After this time a request is repeated: its broker may be gone permanently, and another one leads."""
_LOOK_SECONDS, _REFUSED_SECONDS = 0.2, 2.0
"""How often librdkafka's side messages are checked, and how long without an answer until one is believed: a single
broker may disagree with the others.
"""
_OF_RECORDS = (
    *_UNKNOWN_TOPIC,
    *_TOO_LARGE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError._INVALID_DIFFERENT_RECORD,  # another record of the batch is refused
)
"""Errors that refuse records, or all records of a topic. Other errors do not depend on the records."""
_FINAL = (*_REFUSED, *_NOT_KNOWN, *_LOST, *_OF_RECORDS)


class _Once(logging.Filter):
    """Lets each message through once a minute: every new client of a broker that is away says the same."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind, now = _CHANGING.sub("", record.getMessage()), time.monotonic()
        is_new = now - self._told.get(kind, -_TOLD_EVERY) >= _TOLD_EVERY
        if is_new:
            self._told[kind] = now
        return is_new


_CHANGING = re.compile(r"#[a-z]+-\d+|after \d+ms|, \d+ identical error.*suppressed")
"""The number of the client, the time, and how often: these differ in messages that say the same."""
_librdkafka.addFilter(_Once())


class Clients:
    """Makes the clients of one cluster.

    librdkafka retries forever when it cannot connect, and gives the reason only in a side message. The last such
    message becomes part of the error when a caller gives up waiting.
    """

    def __init__(self, cluster: Kafka):
        self.cluster = cluster
        self._admin: AdminClient | None = None
        self._trouble: KafkaError | None = None

    def make(
        self,
        kind: Callable[[dict[str, Any]], Any],
        own: Mapping[str, Any] | None = None,
        usual: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return a new client.

        Args:
            own: options that it must have.
            usual: default options, which the user may override.

        Raises:
            ConfigError: librdkafka does not know an option or its value, or a secret is not where it should come from.
        """
        always = {"bootstrap.servers": self.cluster.servers, "error_cb": self._heard, "logger": _librdkafka}
        options = {"client.id": "penstock", **(usual or {}), **self.cluster.options(), **(own or {}), **always}
        try:
            return kind(options)
        except (KafkaException, TypeError, ValueError) as error:
            raise ConfigError(
                f"{self.cluster.url}: {_said(error)}; correct the options in the URL, or those of Kafka(...)"
            ) from None

    @property
    def admin(self) -> AdminClient:
        """The client for topics and offsets."""
        if self._admin is None:
            self._admin = self.make(AdminClient)
        return self._admin

    def _heard(self, error: KafkaError) -> None:
        if self._trouble is None or error.code() != KafkaError._ALL_BROKERS_DOWN:  # which says less than those before
            self._trouble = error

    def ask(self, asking: Callable[[AdminClient, float], dict[Any, Any]], what: str) -> list[Any]:
        """Return the results of an admin request, which is repeated while the cluster elects leaders.

        Args:
            asking: called with the client and the seconds that a request may take; returns futures.

        Raises:
            PenstockError: the request failed, as described by ``error_of``.
        """

        def attempt(_: float) -> list[Any]:
            asked = asking(self.admin, min(self.cluster.timeout, _REQUEST_SECONDS))
            return [self._answer(future, what) for future in asked.values()]

        return self.until_answered(attempt, what)  # type: ignore[no-any-return]

    def metadata(self, what: str) -> Any:
        """Return the cluster's metadata of its topics."""
        return self.until_answered(lambda patience: self.admin.list_topics(timeout=patience), what)

    def until_answered(self, attempt: Callable[[float], Any], what: str) -> Any:
        """Repeat an attempt until it returns a result. Each attempt is given a longer time to wait."""
        until, patience = time.monotonic() + self.cluster.timeout, _REFUSED_SECONDS
        while True:
            try:
                answer = attempt(min(patience, self.cluster.timeout))
                self._trouble = None
                return answer
            except KafkaException as error:
                if not is_passing(error.args[0]):
                    raise self.error_of(error.args[0], what) from None
                self.admin.poll(0)  # serves librdkafka's side messages
                self._admin = None  # after a broker's restart, the old client may not find its coordinator
                if time.monotonic() > until or self.is_hopeless():
                    raise self.unreachable(what) from None
            patience *= 2
            time.sleep(_PAUSE_SECONDS)

    def _answer(self, future: Any, what: str) -> Any:
        """Return the result of a future. A cluster that rejects this user is not waited for."""
        begin = time.monotonic()
        while True:
            try:
                return future.result(_LOOK_SECONDS)
            except TimeoutError:
                self.admin.poll(0)
                if time.monotonic() > begin + _REFUSED_SECONDS and self.is_hopeless():
                    raise self.unreachable(what) from None

    @contextmanager
    def told(self, what: str) -> Iterator[None]:
        """Translate librdkafka's errors."""
        try:
            yield
        except KafkaException as error:
            raise self.error_of(error.args[0], what) from None

    def error_of(self, error: KafkaError, what: str) -> PenstockError:
        """Return Penstock's error for one of librdkafka's.

        Args:
            what: the failed operation, such as ``"cannot read topic 'a'"``.
        """
        code = error.code()
        if code in _REFUSED:
            return LogError(f"{what}: this user {_REFUSED[code]} ({error.str()}); nothing was written")
        if code in _UNKNOWN_TOPIC:
            return TopicNotFoundError(f"{what}: it does not exist in {self.cluster.url}")
        if code in _LOST:
            return OffsetOutOfRangeError(f"{what}: {error.str()}")
        if code in _TOO_LARGE:
            return LogError(f"{what}: a record or a batch of them is larger than the topic takes (max.message.bytes)")
        return LogError(f"{what}: {error.str()}{self.trouble()}")

    def unreachable(self, what: str) -> LogError:
        """Return the error for a cluster that did not answer in time."""
        if self.is_hopeless():
            return LogError(
                f"{what}: {self.cluster.url} does not let this user in{self.trouble()}. Nothing was written, and "
                "everything committed is safe; look at the options security.protocol, sasl.* and ssl.*, and start again"
            )
        return LogError(
            f"{what}: {self.cluster.url} did not answer for {self.cluster.timeout:g} s{self.trouble()}. Everything "
            "committed is safe; start again when it can be reached"
        )

    def trouble(self) -> str:
        """Return librdkafka's last side message, to be appended to a message."""
        return "" if self._trouble is None else f" (librdkafka: {self._trouble.str()})"

    def is_hopeless(self) -> bool:
        """Return whether waiting is hopeless because a side message said that the cluster rejects this user."""
        trouble = self._trouble
        return trouble is not None and (trouble.code() in _NOT_KNOWN or bool(_NOT_TRUSTED.search(trouble.str())))


def is_passing(error: KafkaError) -> bool:
    """Return whether a retry may help: brokers come and go, and leaders and coordinators move."""
    return error.code() in _PASSING or (error.retriable() and not is_final(error))


def is_final(error: KafkaError) -> bool:
    """Return whether a retry would give the same error."""
    return error.code() in _FINAL


def is_of_records(error: KafkaError) -> bool:
    """Return whether the error refuses certain records, so that others could succeed."""
    return error.code() in _OF_RECORDS


def _said(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return first.str() if isinstance(first, KafkaError) else str(first)


@cache
def bulk_or_none() -> Any:
    """Return the module for bulk reads and writes; None if it cannot be used. It imports a compiler, which takes a
    while.
    """
    if find_spec("numba") is None:
        _log.warning(
            "Numba is not installed, so messages are read and written one by one, which takes several times the CPU. "
            "Where Numba has a wheel, pip install 'penstock-streams[compiled]'"
        )
        return None
    from penstock.log.kafka import bulk

    return bulk if bulk.is_possible() else None
