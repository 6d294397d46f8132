"""The parameters of a connection to PostgreSQL, and which of them are secrets."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from penstock.errors import ConfigError
from penstock.messages import show
from penstock.values.masking import SECRET_NAME

DEFAULTS = {"connect_timeout": 10, "application_name": "penstock", "keepalives_idle": 30, "keepalives_interval": 10}
"""Parameters that a connection string may leave out: a server that is away is noticed within a minute."""

_NAME_OF_SECRET = re.compile(SECRET_NAME.pattern.replace("|key", ""), re.IGNORECASE)
"""Parameters of a connection that are secrets: ``sslkey`` is a file."""


class Parameters:
    """The parameters that a connection string says.

    Args:
        conninfo: a connection string or URL.
        what: the name of the class that takes it, for messages.

    Raises:
        ConfigError: it is none, or psycopg is not installed.
    """

    def __init__(self, conninfo: Any, what: str):
        self._conninfo = conninfo
        self._said = _said(conninfo, what)

    @property
    def all(self) -> dict[str, Any]:
        """All parameters of the connection."""
        return DEFAULTS | self._said

    @property
    def shown(self) -> str:
        """Where the database is, for people."""
        words = (("in", "dbname"), ("at", "host"))
        return "".join(f" {word} {self._said[name]}" for word, name in words if self._said.get(name))

    @property
    def secrets(self) -> list[str]:
        """The texts to mask."""
        found = [str(value) for name, value in self._said.items() if _NAME_OF_SECRET.search(name)]
        return [*found, *(quote(one, safe="") for one in found), self._conninfo]


def _said(conninfo: Any, who: str) -> dict[str, Any]:
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        raise ConfigError(f"{who} needs psycopg: pip install 'penstock-streams[postgres]'") from None
    what = f"{who}: conninfo is {{}}a connection string or URL of PostgreSQL, such as 'postgresql://db.example/shop'"
    if not isinstance(conninfo, str):
        raise ConfigError(f"{what.format('')}; got {show(conninfo)}")
    try:
        return {name: value for name, value in conninfo_to_dict(conninfo).items() if value is not None}
    except ProgrammingError:  # its text may have the password
        raise ConfigError(f"{what.format('not ')}. Its text is not shown, as it may hold a password") from None
