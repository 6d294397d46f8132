"""The address of a schema registry and how to connect: confluent-kafka's own options, with secrets from outside."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import ConfigError
from penstock.usage.signatures import telling
from penstock.values.connections import is_elsewhere, option_text, options_found

_VARIABLE = "PENSTOCK_SCHEMA_REGISTRY_"
_SCHEMES = ("http://", "https://", "mock://")
_SECRETS = ("basic.auth.user.info", "ssl.key.password", "bearer.auth.token", "bearer.auth.client.secret")


class SchemaRegistry:
    """A schema registry: ``Avro("orders-value", registry=SchemaRegistry("https://registry:8081", {...}))``.

    The value ``env:NAME`` stands for an environment variable, and ``file:PATH`` for the content of a file. Each process
    looks them up when it connects, so secrets do not travel. You cannot give secrets in another way. Variables
    ``PENSTOCK_SCHEMA_REGISTRY_...`` are options, too: ``PENSTOCK_SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO`` is
    ``basic.auth.user.info``.

    Args:
        url: ``http://host:8081``, ``https://...``, several with commas between them; ``mock://name`` is a registry in
            memory, for tests.
        options: those of confluent-kafka's ``SchemaRegistryClient``, such as ``{"basic.auth.user.info": "env:REGISTRY",
            "ssl.ca.location": "ca.pem"}``.

    Raises:
        ConfigError: the URL is not valid, or contains a secret in plain text.

    >>> SchemaRegistry("https://registry:8081", {"basic.auth.user.info": "env:REGISTRY"})
    SchemaRegistry('https://registry:8081', {'basic.auth.user.info': 'env:REGISTRY'})
    """

    @telling
    def __init__(self, url: str, options: Mapping[str, object] | None = None):
        if not isinstance(url, str) or not all(one.strip().startswith(_SCHEMES) for one in url.split(",")):
            shown = "" if not isinstance(url, str) or "@" in url else f"; got {url!r}"
            raise ConfigError(f"SchemaRegistry(url): write it like 'http://host:8081'{shown}")
        if "@" in url or "?" in url:
            raise ConfigError(
                "SchemaRegistry(url): user and password must not be in the URL, which is shown and stored; give the "
                "option basic.auth.user.info as 'env:NAME' or 'file:PATH', where user:password stands"
            )
        self.url = url
        self._options = {name: option_text(value) for name, value in (options or {}).items()}
        for name, value in self._options.items():
            if name in _SECRETS and not is_elsewhere(value):
                raise ConfigError(
                    f"the schema registry option {name} is a secret, which would be stored with the program: give it "
                    "as 'env:NAME' or 'file:PATH'"
                )

    def options(self, environment: Mapping[str, str] | None = None) -> dict[str, str]:
        """All options with their values, the secret ones too: only for the client.

        Raises:
            ConfigError: a variable or a file for a value is missing.
        """
        return options_found(self._options, _VARIABLE, "schema registry", environment)

    def __repr__(self) -> str:
        return f"SchemaRegistry({self.url!r}{f', {self._options}' if self._options else ''})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SchemaRegistry) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))
