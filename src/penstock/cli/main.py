"""Entry point of the command line."""

from __future__ import annotations

import click

from penstock import __version__
from penstock.cli.batch import batch
from penstock.cli.chaos import chaos
from penstock.cli.command import RootGroup
from penstock.cli.config import config
from penstock.cli.doctor import doctor
from penstock.cli.explain import explain
from penstock.cli.lag import lag
from penstock.cli.plan import plan
from penstock.cli.publish import publish
from penstock.cli.rescale import rescale
from penstock.cli.reset import reset
from penstock.cli.run import run
from penstock.cli.serve import serve
from penstock.cli.state import state, status
from penstock.cli.topics import topics
from penstock.cli.topology import topology
from penstock.cli.ui import ui
from penstock.cli.why import why


@click.group(cls=RootGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="penstock")
def main() -> None:
    """The Kafka Streams DSL in Python, executed on Spark, with an embedded log instead of a broker.

    \b
    Examples:
      penstock topics produce departures --key-separator : < departures.txt
      penstock run app.py:topology
      penstock topics cat delays
    """


for command in (
    run,
    batch,
    topics,
    state,
    status,
    lag,
    publish,
    reset,
    rescale,
    serve,
    ui,
    topology,
    explain,
    why,
    config,
    plan,
    doctor,
    chaos,
):
    main.add_command(command)

if __name__ == "__main__":
    main()
