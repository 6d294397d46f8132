"""``penstock ui``: a page that shows an application."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from penstock.cli.access import Access, server_options, serving
from penstock.cli.command import Command
from penstock.cli.state import APPLICATION_HELP
from penstock.cli.terminal import say
from penstock.log.base import Log
from penstock.log.cluster import SCHEME
from penstock.query.application import ApplicationStores
from penstock.query.server import Served
from penstock.settings import Settings
from penstock.watch.server import check_installed, page_app
from penstock.watch.why import Replays

UI_PORT = 8093


@click.command(cls=Command, epilog=APPLICATION_HELP)
@server_options(UI_PORT, "PENSTOCK_UI_PORT")
@click.option(
    "--program", metavar="PROGRAM", help="The program, with which the page can show why a key got its result."
)
def ui(application: str, program: str | None, **options: Any) -> None:
    """Serve a web page that shows an application.

    The page shows the topology with live figures, stores and topics.

    The command runs until Ctrl-C. It shows committed state of the application, which may be running or stopped, and
    costs the application nothing. Prometheus finds all figures at /metrics. By default the page answers only this
    machine. To let others in, set --host, and a token, for which the page asks. --no-token allows requests without one.
    Without a token, the page also shows the other applications whose state is in the same folder.

    \b
    Examples:
      penstock ui app
      penstock ui app --port 0
      penstock ui app --program app.py
      curl localhost:8093/metrics
      penstock ui app --host 0.0.0.0 --token-file token
    """
    check_installed()

    def page(stores: ApplicationStores, log: Log, at: Access) -> Served:
        replays = None if program is None else Replays(program, _place_of(log, options["log_dir"]))
        return page_app(stores, log, replays=replays, shows_others=at.is_for_this_machine)

    with serving(application, page, **options) as (server, at):
        say(f"{application} is shown at {server.url}{at.told}. Ctrl-C stops.")
        server.wait()


def _place_of(log: Log, given: Path | str | None) -> Path | str:
    """The argument with which another process opens the log; that of the settings has a cluster's options."""
    usual = Settings.load().topics_in if given is None else given
    return usual if given is not None or str(usual).startswith(SCHEME) else log.url
