"""``penstock ui``: a page that shows an application."""

from __future__ import annotations

from typing import Any

import click

from penstock.cli.access import server_options, serving
from penstock.cli.command import Command
from penstock.cli.state import APPLICATION_HELP
from penstock.cli.terminal import say
from penstock.watch.server import check_installed, page_app

UI_PORT = 8093


@click.command(cls=Command, epilog=APPLICATION_HELP)
@server_options(UI_PORT, "PENSTOCK_UI_PORT")
def ui(application: str, **options: Any) -> None:
    """Show an application on a page: its topology, with live figures on every step.

    It follows the application, which may be running or not, until Ctrl-C.
    It shows committed state, so it costs the application nothing. Prometheus finds all figures at /metrics. Beyond this
    machine (--host) it wants a token, for which the page asks, or --no-token.

    \b
    Examples:
      penstock ui app
      penstock ui app --port 0
      curl localhost:8093/metrics
      penstock ui app --host 0.0.0.0 --token-file token
    """
    check_installed()
    with serving(application, page_app, **options) as (server, at):
        say(f"{application} is shown at {server.url}{at.told}. Ctrl-C stops.")
        server.wait()
