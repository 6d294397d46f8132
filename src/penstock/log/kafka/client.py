"""Clients of librdkafka, and what their errors mean."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from penstock.errors import ConfigError, LogError, OffsetOutOfRangeError, PenstockError, TopicNotFoundError
from penstock.log.cluster import Kafka

_log = logging.getLogger(__name__)

_REFUSED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "may not use the topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "may not use the consumer group that bears the application id",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "may not do this to the cluster",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "may not use the transactional id of this application",
}
_UNKNOWN_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_NOT_KNOWN = (KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._AUTHENTICATION)
_TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
_LOST = (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)
_FINAL = (*_REFUSED, *_UNKNOWN_TOPIC, *_NOT_KNOWN, *_TOO_LARGE, *_LOST, KafkaError.INVALID_RECORD)


class Clients:
    """How clients of one cluster are made.

    librdkafka goes on for ever when it cannot connect, and tells why only beside: the last such reason is part of the
    error with which whoever waits gives up.
    """

    def __init__(self, cluster: Kafka):
        self.cluster = cluster
        self._admin: AdminClient | None = None
        self._trouble: KafkaError | None = None

    def options(self, **own: Any) -> dict[str, Any]:
        """What a client is made with.

        Raises:
            ConfigError: a secret is not where it is to come from.
        """
        named = {name.replace("_", "."): value for name, value in own.items()}
        given = self.cluster.options()
        return {"client.id": "penstock", **given, **named, **self._always()}

    def _always(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.cluster.servers, "error_cb": self._heard, "logger": _log}

    def make(self, kind: Callable[[dict[str, Any]], Any], **own: Any) -> Any:
        """A consumer or a producer.

        Raises:
            ConfigError: an option is none of librdkafka's, or has a value that it cannot have.
        """
        try:
            return kind(self.options(**own))
        except (KafkaException, TypeError, ValueError) as error:
            raise ConfigError(f"{self.cluster.url}: {_said(error)}") from None

    @property
    def admin(self) -> AdminClient:
        """The client that asks for topics and offsets."""
        if self._admin is None:
            self._admin = self.make(AdminClient)
        return self._admin

    def _heard(self, error: KafkaError) -> None:
        self._trouble = error

    def ask(self, future: Any, what: str) -> Any:
        """What a future of the admin client holds; raises what went wrong as ``error_of`` says it."""
        with self.told(what):
            return future.result(self.cluster.timeout + 5)

    @contextmanager
    def told(self, what: str) -> Iterator[None]:
        """Errors of librdkafka as Penstock's."""
        try:
            yield
        except KafkaException as error:
            raise self.error_of(error.args[0], what) from None

    def error_of(self, error: KafkaError, what: str) -> PenstockError:
        """An error of Penstock's for one of librdkafka's.

        Args:
            what: what was tried, such as ``"cannot read topic 'a'"``.
        """
        code = error.code()
        if code in _REFUSED:
            return LogError(f"{what}: this user {_REFUSED[code]} ({error.str()}); nothing was written. Grant it the right")
        if code in _UNKNOWN_TOPIC:
            return TopicNotFoundError(f"{what}: it does not exist in {self.cluster.url}")
        if code in _LOST:
            return OffsetOutOfRangeError(f"{what}: {error.str()}")
        if code in _TOO_LARGE:
            return LogError(f"{what}: a record or a batch of them is larger than the topic takes (max.message.bytes)")
        return LogError(f"{what}: {error.str()}{self.trouble()}")

    def unreachable(self, what: str) -> LogError:
        """The error of whoever has waited for long enough."""
        return LogError(
            f"{what}: {self.cluster.url} did not answer for {self.cluster.timeout:g} s{self.trouble()}. Everything "
            "committed is safe; start again when it can be reached"
        )

    def trouble(self) -> str:
        """What librdkafka last said beside, to stand behind a message."""
        return "" if self._trouble is None else f" (librdkafka: {self._trouble.str()})"

    def is_hopeless(self) -> bool:
        """Whether librdkafka said beside that waiting does not help: it is not let in."""
        return self._trouble is not None and self._trouble.code() in _NOT_KNOWN


def is_final(error: KafkaError) -> bool:
    """Whether trying again gives the same error."""
    return error.code() in _FINAL


def _said(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return first.str() if isinstance(first, KafkaError) else str(first)
