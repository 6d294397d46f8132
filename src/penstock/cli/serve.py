"""``penstock serve``: the state of an application over HTTP."""

from __future__ import annotations

from typing import Any

import click

from penstock.cli.access import Access, server_options, serving
from penstock.cli.command import Command
from penstock.cli.state import APPLICATION_HELP
from penstock.cli.terminal import say
from penstock.log.base import Log
from penstock.query.application import ApplicationStores
from penstock.query.health import HealthCheck
from penstock.query.server import PORT, Served, app


@click.command(cls=Command, epilog=APPLICATION_HELP)
@server_options(PORT, "PENSTOCK_SERVE_PORT")
def serve(application: str, **options: Any) -> None:
    """Serve the state of an application over HTTP.

    The command runs until Ctrl-C. It shows each commit of the application, which may be running or stopped. By default
    it answers only this machine. To let others in, set --host, and a token that all requests except those for /health
    must send. --no-token allows requests without one.

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
    with serving(application, _state, **options) as (server, at):
        say(f"The state of {application} is at {server.url}/stores{at.told}. Ctrl-C stops.")
        server.wait()


def _state(stores: ApplicationStores, log: Log, at: Access) -> Served:
    return Served(app(stores, HealthCheck(stores, log)))
