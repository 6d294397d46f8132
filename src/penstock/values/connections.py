"""Options of connections, by their clients' names. Secrets stay elsewhere until a connection is made."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from penstock.errors import ConfigError

_ELSEWHERE = ("env:", "file:")


def option_text(value: object) -> str:
    """Return a value of an option as text.

    >>> option_text(True), option_text(5)
    ('true', '5')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_elsewhere(value: str) -> bool:
    """Return whether a value is only a reference to a variable or a file."""
    return value.startswith(_ELSEWHERE)


def options_found(
    given: Mapping[str, str], prefix: str, what: str, environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return all options with their values, including secrets.

    Args:
        given: options by name; they override those of the environment.
        prefix: the prefix of variables that are options as well.
        what: the client, for messages.
        environment: the variables; those of this process by default.

    Raises:
        ConfigError: a variable or a file with a value does not exist.

    >>> variables = {"APP_SASL_USERNAME": "me", "WORD": "secret"}
    >>> options_found({"sasl.password": "env:WORD"}, "APP_", "Kafka", variables)
    {'sasl.username': 'me', 'sasl.password': 'secret'}
    """
    environment = os.environ if environment is None else environment
    found = {
        name.removeprefix(prefix).lower().replace("_", "."): value
        for name, value in environment.items()
        if name.startswith(prefix)
    }
    return {name: _looked_up(name, value, environment, what) for name, value in (found | dict(given)).items()}


def _looked_up(name: str, value: str, environment: Mapping[str, str], what: str) -> str:
    kind, _, where = value.partition(":")
    if kind == "env":
        if where not in environment:
            raise ConfigError(f"the {what} option {name} comes from the variable {where}, which is not set")
        return environment[where]
    if kind == "file":
        try:
            return Path(where).read_text().strip()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise ConfigError(f"the {what} option {name} comes from the file {where}: {reason}") from None
    return value
