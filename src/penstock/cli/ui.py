"""``penstock ui``: a page that shows an application."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.access import access, access_options
from penstock.cli.command import Command
from penstock.cli.options import log_of, log_option
from penstock.cli.state import APPLICATION_HELP, application_argument
from penstock.cli.terminal import say
from penstock.query.application import open_stores
from penstock.query.server import StateServer
from penstock.watch.server import check_installed, page_app

UI_PORT = 8093


@click.command(cls=Command, epilog=APPLICATION_HELP)
@application_argument
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=UI_PORT,
    show_default=True,
    envvar="PENSTOCK_UI_PORT",
    help="0 takes a free one.",
)
@access_options
@log_option
def ui(application: str, host: str, port: int, token_file: Path | None, no_token: bool, log_dir: Path | None) -> None:
    """Show an application on a page: its topology, and on every step what it does.

    It follows the application, which may be running or not, until Ctrl-C.
    What it shows is what the application has committed, so it costs the
    application nothing. Prometheus finds all figures at /metrics. Beyond this
    machine (--host) it wants a token, for which the page asks, or --no-token.

    \b
    Examples:
      penstock ui app
      penstock ui app --port 0
      curl localhost:8093/metrics
      penstock ui app --host 0.0.0.0 --token-file token
    """
    check_installed()
    at = access(host, token_file, no_token)
    stores = open_stores(application)
    stores.shapes()  # what is wrong is told before anything listens
    page = page_app(stores, log_of(stores, log_dir))
    with StateServer(stores, host, port, page, at.token, at.is_open) as server:
        say(f"{application} is shown at {server.url}{at.told}. Ctrl-C stops.")
        server.wait()
    stores.close()
