"""Entry point of the command line. The file of a command is imported when that command is called."""

from __future__ import annotations

import click

from penstock import __version__
from penstock.cli.command import RootGroup

COMMANDS = {
    "run": ("run", "Run a program."),
    "batch": ("batch", "Run a program once over all new records, as a Spark batch."),
    "topics": ("topics", "Create, read, write and remove topics."),
    "state": ("state", "Read an application's state stores, as of its newest commit."),
    "status": ("state", "Show an application's newest commit, input position and tasks."),
    "lag": ("lag", "Show how many records an application has not read yet."),
    "publish": ("publish", "Publish a commit without the records that Kafka refuses."),
    "reset": ("reset", "Reset a stopped application to other offsets and empty stores."),
    "rescale": ("rescale", "Move a stopped application's state to new partitions."),
    "serve": ("serve", "Serve the state of an application over HTTP."),
    "ui": ("ui", "Serve a web page that shows an application."),
    "topology": ("topology", "Show the steps, stores and topics of a program."),
    "explain": ("explain", "Show the results that steps hold back, and until when."),
    "why": ("why", "Show which records are in the windows of one key, and why."),
    "config": ("config", "Show every setting and where it comes from."),
    "plan": ("plan", "Estimate slots, memory, disk and restore time."),
    "doctor": ("doctor", "Check what a run needs, and say how to fix problems."),
    "chaos": ("chaos", "Check that a program loses no record when it is killed."),
}
"""The file of each command below ``penstock.cli``, and what it does, which is the first line of its own help."""


@click.group(
    cls=RootGroup,
    commands_in=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="penstock")
def main() -> None:
    """Stream processing in Python with the DSL of Kafka Streams, on Spark or without it.

    Topics are in a folder on disk, or in Kafka.

    \b
    Examples:
      penstock topics produce departures --key-separator : < departures.txt
      penstock run app.py:topology
      penstock topics cat delays
    """


if __name__ == "__main__":
    main()
