"""The address at which ``run``, ``serve`` and ``ui`` listen, and who may use it (docs/decisions/0081); also the servers
of ``serve`` and ``ui``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from penstock.cli.options import log_of, log_option
from penstock.cli.state import application_argument
from penstock.errors import ConfigError
from penstock.log.base import Log
from penstock.query.application import ApplicationStores, open_stores
from penstock.query.guard import check_access, is_local
from penstock.query.server import HOST, Served, StateServer

F = TypeVar("F", bound=Callable[..., Any])

TOKEN = "PENSTOCK_TOKEN"


class Access(NamedTuple):
    """The address of a server, and the credentials that requests need."""

    host: str
    token: str | None
    is_open: bool

    @property
    def is_for_this_machine(self) -> bool:
        """Whether all users of this machine may read, and no other machine."""
        return self.token is None and is_local(self.host)

    @property
    def told(self) -> str:
        """The note about access in the line that shows the address."""
        if self.token is not None:
            return ", for those who have the token"
        return ", and all who reach it read all stores and topics" if self.is_open else ""


def access_options(function: F) -> F:
    """Add the options for the address and for access."""
    for option in (
        click.option(
            "--no-token",
            is_flag=True,
            envvar="PENSTOCK_NO_TOKEN",
            help="No token: everyone who reaches --host can read everything.",
        ),
        click.option(
            "--token-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            envvar="PENSTOCK_TOKEN_FILE",
            help=f"A file with the token that requests must send. [default: the variable {TOKEN}, if it is set]",
        ),
        click.option(
            "--host", default=HOST, show_default=True, envvar="PENSTOCK_HOST", help="The address to listen on."
        ),
    ):
        function = option(function)
    return function


def access(host: str, token_file: Path | None, no_token: bool) -> Access:
    """Return the address and its access rules. The token is removed from the environment, which child processes
    inherit.

    Raises:
        click.UsageError: everyone who reaches the address could read everything, and the user has not allowed that.
    """
    given = os.environ.pop(TOKEN, "").strip()
    try:
        if token_file is not None and given:
            raise ConfigError(f"there is a token in {token_file}, and one in {TOKEN} as well; give one of them")
        token = given if token_file is None else token_file.read_text(errors="replace").strip()
        if token_file is not None and not token:
            raise ConfigError(f"{token_file} is empty; write the token into it that requests must send")
        found = Access(host, token or None, no_token)
        check_access(*found)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    return found


def refuse_without_server() -> None:
    """Raise ``UsageError`` if the command line has an option of ``access_options``, for a run without a server.

    Variables may be set for several commands, so they are no error.
    """
    context = click.get_current_context()
    for name, option in (("host", "--host"), ("token_file", "--token-file"), ("no_token", "--no-token")):
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option} is for --ui and --serve: add one of them, or leave {option} out")


def server_options(port: int, variable: str) -> Callable[[F], F]:
    """Return a decorator that adds the options of a command that serves an application: its id, address, access and
    log.

    Args:
        port: the default port.
        variable: the environment variable for the port.
    """
    port_option = click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=port,
        show_default=True,
        envvar=variable,
        help="The port; 0 takes a free one.",
    )

    def with_options(function: F) -> F:
        for option in (log_option, access_options, port_option, application_argument):
            function = option(function)
        return function

    return with_options


@contextmanager
def serving(
    application: str,
    served: Callable[[ApplicationStores, Log, Access], Served],
    host: str,
    port: int,
    token_file: Path | None,
    no_token: bool,
    log_dir: Path | str | None,
) -> Iterator[tuple[StateServer, Access]]:
    """Run a server of an application, with the arguments of ``server_options``, while the context lasts.

    Args:
        served: makes the responses from the application's stores and topics.
    """
    at = access(host, token_file, no_token)
    with closing(open_stores(application)) as stores:
        stores.shapes()  # raises errors before anything listens
        log = log_of(stores, log_dir)
        with StateServer(stores, host, port, served(stores, log, at), at.token, at.is_open) as server:
            yield server, at
