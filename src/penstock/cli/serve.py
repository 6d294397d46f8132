"""``penstock serve``: the state of an application over HTTP."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.command import Command
from penstock.cli.options import log_of, log_option
from penstock.cli.state import APPLICATION_HELP, application_argument
from penstock.cli.terminal import say
from penstock.query.application import open_stores
from penstock.query.health import HealthCheck
from penstock.query.server import HOST, PORT, StateServer, app


@click.command(cls=Command, epilog=APPLICATION_HELP)
@application_argument
@click.option("--host", default=HOST, show_default=True, help="The address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 takes a free one.")
@log_option
def serve(application: str, host: str, port: int, log_dir: Path | str | None) -> None:
    """Answer questions about the state of an application over HTTP.

    It follows the application, which may be running or not, until Ctrl-C.
    There is no password: who reaches the address reads all stores.

    \b
    Examples:
      penstock serve app
      curl localhost:8092/health
      curl localhost:8092/stores/counts/JFK
      curl 'localhost:8092/stores/counts?from=J&limit=10'
      curl -H 'Accept: application/vnd.apache.arrow.stream' localhost:8092/stores/counts
    """
    stores = open_stores(application)
    stores.shapes()  # what is wrong is told before anything listens
    served = app(stores, HealthCheck(stores, log_of(stores, log_dir)))
    with StateServer(stores, host, port, served) as server:
        say(f"The state of {application} is at {server.url}/stores. Ctrl-C stops.")
        server.wait()
    stores.close()
