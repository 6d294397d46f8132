"""A Kafka cluster and its connection options: librdkafka's own options, with secrets from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

from penstock.errors import ConfigError
from penstock.usage.signatures import telling
from penstock.values.connections import is_elsewhere, option_text, options_found
from penstock.values.durations import Duration, to_ms
from penstock.values.masking import MASK, SECRET_NAME

SCHEME = "kafka://"
_VARIABLE = "PENSTOCK_KAFKA_"
_PUBLIC = (".location", ".url", ".uri", ".type", ".mechanism", ".mechanisms")
"""Endings of option names that are never secret, whatever the rest of the name is."""
_OWN = ("group.id", "transactional.id", "enable.idempotence", "isolation.level", "enable.auto.commit")
"""Options that exactly-once depends on."""


_PORT = re.compile(r"^(?:[^:]*|\[.*\]):([^:]*)$")
"""The port behind a name, or behind an address of version 6 in brackets. Without one librdkafka takes 9092."""


class Kafka:
    """A Kafka cluster as the log: ``topology.start("app", log=Kafka("host:9092"))``.

    The value ``env:NAME`` stands for an environment variable, and ``file:PATH`` for the content of a file. Each process
    looks them up when it connects, so secrets do not travel. Variables ``PENSTOCK_KAFKA_...`` are options, too:
    ``PENSTOCK_KAFKA_SASL_PASSWORD`` is ``sasl.password``.

    Args:
        servers: ``host:port`` of some brokers, separated by commas, or ``kafka://host:port``, which may end with
            options: ``?name=value&...``.
        options: librdkafka's own, such as ``{"security.protocol": "SASL_SSL", "sasl.password": "env:PASSWORD"}``.
        timeout: how long the cluster may be out of reach before a program stops; in a URL, ``?timeout=...``.

    Raises:
        ConfigError: there are no servers, or an option would break exactly-once processing.

    >>> Kafka("localhost:9092", {"sasl.username": "app", "sasl.password": "secret"})
    Kafka('localhost:9092', {'sasl.username': 'app', 'sasl.password': '****'})
    """

    @telling
    def __init__(self, servers: str, options: Mapping[str, object] | None = None, timeout: Duration = "60 seconds"):
        if not isinstance(servers, str):
            raise ConfigError(f"Kafka(servers): write them like 'host:9092,other:9092'; got {servers!r}")
        hosts, _, rest = servers.removeprefix(SCHEME).partition("?")
        given = {name: option_text(value) for name, value in (dict(parse_qsl(rest)) | dict(options or {})).items()}
        self.servers = hosts.rstrip("/")
        self.timeout = to_ms(given.pop("timeout", timeout), "Kafka(timeout)") / 1000
        self._options = given
        if not self.servers or "@" in self.servers or "/" in self.servers:
            raise ConfigError(
                "Kafka(servers): write them like 'host:9092,other:9092'; user and password are the options "
                "sasl.username and sasl.password"
            )
        for server in self.servers.split(","):
            port = _PORT.search(server)
            if port is not None and not (port[1].isascii() and port[1].isdecimal() and 0 < int(port[1]) < 65_536):
                raise ConfigError(f"Kafka(servers): {port[1]!r} is no port; write them like 'host:9092,other:9092'")
        for name in _OWN:
            if name in given:
                raise ConfigError(f"the Kafka option {name} is not to be chosen: exactly once rests on it")

    @property
    def url(self) -> str:
        """The URL without options, to be shown."""
        return f"{SCHEME}{self.servers}"

    def open_url(self) -> str:
        """Return the URL with all options, for places where others may see it.

        Raises:
            ConfigError: an option contains a secret.

        >>> Kafka("localhost:9092", {"sasl.password": "env:WORD"}, timeout="5 s").open_url()
        'kafka://localhost:9092?sasl.password=env%3AWORD&timeout=5000+ms'
        """
        for name, value in self._options.items():
            if _is_secret(name, value) and not name.endswith(_PUBLIC):
                variable = _VARIABLE + name.upper().replace(".", "_")
                raise ConfigError(
                    f"the Kafka option {name} is a secret that is written out, and Spark shows the options of "
                    f"DataFrames. Say where it stands, '{name}': 'env:NAME' or 'file:PATH', or set the variable "
                    f"{variable}: executors look it up themselves"
                )
        return f"{self.url}?{urlencode({**self._options, 'timeout': f'{round(self.timeout * 1000)} ms'})}"

    def options(self, environment: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return all options with their values, including secrets: for librdkafka only.

        Raises:
            ConfigError: a variable or a file for a value is missing.
        """
        return options_found(self._options, _VARIABLE, "Kafka", environment)

    def __repr__(self) -> str:
        shown = {name: MASK if _is_secret(name, value) else value for name, value in self._options.items()}
        return f"Kafka({self.servers!r}{f', {shown}' if shown else ''})"


def _is_secret(name: str, value: str) -> bool:
    return not is_elsewhere(value) and SECRET_NAME.search(name) is not None
