"""The client of a schema registry, and the meaning of its errors."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

from penstock.errors import ConfigError, PenstockError, RegistryError, SerdeError
from penstock.messages import describe
from penstock.serdes.registry.place import SchemaRegistry

_NOT_LET_IN = (401, 403)
_NOT_FOUND, _CONFLICT, _INVALID = 404, 409, 422
_NUMBERS = (
    "timeout",
    "max.retries",
    "retries.wait.ms",
    "retries.max.wait.ms",
    "cache.capacity",
    "cache.latest.ttl.sec",
)
_SAFE = "no record was left out, and everything committed is safe; start again when it answers"


def needed(what: str, extra: str, *modules: str) -> None:
    """Raise ``ConfigError`` if a library that a format needs is missing."""
    for module in ("confluent_kafka.schema_registry", *modules):
        try:
            import_module(module)
        except ImportError as error:
            raise ConfigError(
                f"{what} needs libraries that are not installed ({error}): pip install 'penstock-streams[{extra}]'"
            ) from None


Said = dict[int, tuple[type[PenstockError], str]]
"""By HTTP status: the error that a request may end with, and its message."""


class RegistryClient:
    """The requests to one registry.

    Args:
        place: the registry.
    """

    def __init__(self, place: SchemaRegistry):
        from confluent_kafka.schema_registry import SchemaRegistryClient

        self._place = place
        options: dict[str, Any] = {"timeout": 10, **place.options(), "url": place.url}
        try:
            options |= {name: float(options[name]) for name in _NUMBERS if name in options}
            self.confluent = SchemaRegistryClient.new_client(options)
        except Exception as error:
            raise ConfigError(f"schema registry {place.url}: {error}") from None

    def by_id(self, number: int) -> Any:
        """The schema with an id; raises ``SerdeError`` if it does not exist."""
        what = f"cannot get schema {number}"
        return self.asked(lambda: self.confluent.get_schema(number), what, {_NOT_FOUND: (SerdeError, "it has no such")})

    def version(self, subject: str, version: int | None) -> Any:
        """A version of a subject as registered; the latest for None."""
        if version is None:
            return self.asked(
                lambda: self.confluent.get_latest_version(subject),
                f"cannot get the latest schema of subject {subject!r}",
                {_NOT_FOUND: (ConfigError, "it does not know the subject; register a schema, or give one: schema=...")},
            )
        return self.asked(
            lambda: self.confluent.get_version(subject, version),
            f"cannot get version {version} of subject {subject!r}",
            {_NOT_FOUND: (ConfigError, "it does not know the subject, or not this version of it")},
        )

    def registered(self, subject: str, schema: Any) -> int:
        """The id of a schema, which is registered if it is not yet."""
        return int(self.registering(lambda: self.confluent.register_schema(subject, schema), subject))

    def registering(self, ask: Callable[[], Any], subject: str) -> Any:
        """Send a request that registers a schema or finds it registered."""
        said: Said = {
            _NOT_FOUND: (ConfigError, "it is not registered there; register it, or take register=False away"),
            _CONFLICT: (ConfigError, "it is not compatible with the subject's earlier schemas; nothing was written"),
            _INVALID: (ConfigError, "it is no valid schema"),
        }
        return self.asked(ask, f"cannot register the schema for subject {subject!r}", said)

    def found(self, subject: str, schema: Any) -> int:
        """The id of a registered schema."""
        return int(self.registering(lambda: self.confluent.lookup_schema(subject, schema).schema_id, subject))

    def asked(self, ask: Callable[[], Any], what: str, said: Said) -> Any:
        """Send a request and return its answer.

        Args:
            said: the errors that this request may end with.

        Raises:
            RegistryError: the registry cannot be reached, or refuses.
        """
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        where = f"{what}, schema registry {self._place.url}"
        try:
            return ask()
        except SchemaRegistryError as error:
            status = error.http_status_code
            if status in said:
                kind, reason = said[status]
                raise kind(f"{where}: {reason} ({error.error_message})") from None
            if status in _NOT_LET_IN:
                reason = f"it does not let this user in (HTTP {status}); look at the option basic.auth.user.info"
                raise RegistryError(f"{where}: {reason}. No record was left out") from None
            raise RegistryError(f"{where}: {error}; {_SAFE}") from None
        except Exception as error:  # of any library that the client uses
            raise RegistryError(f"{where} did not answer: {describe(error)}; {_SAFE}") from None


def client_of(place: SchemaRegistry) -> RegistryClient:
    """The client of a registry in this process."""
    return _client(place, os.getpid())


@lru_cache
def _client(place: SchemaRegistry, process: int) -> RegistryClient:
    return RegistryClient(place)
