"""``penstock serve``: the state of an application over HTTP."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.access import access, access_options
from penstock.cli.command import Command
from penstock.cli.options import log_of, log_option
from penstock.cli.state import APPLICATION_HELP, application_argument
from penstock.cli.terminal import say
from penstock.query.application import open_stores
from penstock.query.health import HealthCheck
from penstock.query.server import PORT, Served, StateServer, app


@click.command(cls=Command, epilog=APPLICATION_HELP)
@application_argument
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    envvar="PENSTOCK_SERVE_PORT",
    help="0 takes a free one.",
)
@access_options
@log_option
def serve(
    application: str, host: str, port: int, token_file: Path | None, no_token: bool, log_dir: Path | str | None
) -> None:
    """Answer questions about the state of an application over HTTP.

    It follows the application, which may be running or not, until Ctrl-C.
    Beyond this machine (--host) it wants a token, which all requests but those
    for /health bring, or --no-token.

    \b
    Examples:
      penstock serve app
      curl localhost:8092/health
      curl localhost:8092/stores/counts/JFK
      curl 'localhost:8092/stores/counts?from=J&limit=10'
      PENSTOCK_TOKEN=$(cat token) penstock serve app --host 0.0.0.0
      curl -H "Authorization: Bearer $(cat token)" machine:8092/stores
      curl -H 'Accept: application/vnd.apache.arrow.stream' localhost:8092/stores/counts
    """
    at = access(host, token_file, no_token)
    stores = open_stores(application)
    stores.shapes()  # what is wrong is told before anything listens
    served = Served(app(stores, HealthCheck(stores, log_of(stores, log_dir))))
    with StateServer(stores, host, port, served, at.token, at.is_open) as server:
        say(f"The state of {application} is at {server.url}/stores{at.told}. Ctrl-C stops.")
        server.wait()
    stores.close()
