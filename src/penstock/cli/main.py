"""Entry point of the command line. The file of a command is imported when that command is called."""

from __future__ import annotations

import click

from penstock import __version__
from penstock.cli.command import RootGroup

COMMANDS = {
    "run": ("run", "Run a program."),
    "batch": ("batch", "Run a program once over its present input, as a batch job of Spark."),
    "topics": ("topics", "Make, read, write and remove the topics of the log."),
    "state": ("state", "Read the state stores of an application, as of its newest commit."),
    "status": ("state", "Show an application's progress: its newest commit, its input, its tasks."),
    "lag": ("lag", "Say how far an application is behind its source topics, partition by partition."),
    "publish": ("publish", "Publish the last commit of a stopped application, without what its topics refuse."),
    "reset": ("reset", "Have a stopped application begin again: from other offsets, with empty stores."),
    "rescale": ("rescale", "Move a stopped application's state to its sources' new number of partitions."),
    "serve": ("serve", "Answer questions about the state of an application over HTTP."),
    "ui": ("ui", "Show an application on a page: its topology, with live figures on every step."),
    "topology": ("topology", "Show the steps, stores and topics of a program."),
    "explain": (
        "explain",
        "Show the records that suppressed tables and windows that emit on close hold back, and until when; "
        "also the ids that deduplications remember.",
    ),
    "why": ("why", "Say which records of a key went into which windows of a step, which were late, and why."),
    "config": ("config", "Show every setting and where it comes from."),
    "plan": (
        "plan",
        "Say how many slots, how much memory and disk, how long a restore takes, and Spark's options.",
    ),
    "doctor": ("doctor", "Check what a run needs, and say what to do."),
    "chaos": ("chaos", "Prove that nothing of a program is lost or done twice."),
}
"""The file of each command below ``penstock.cli``, and what it does, which is the first line of its own help."""


@click.group(
    cls=RootGroup,
    commands_in=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="penstock")
def main() -> None:
    """The Kafka Streams DSL in Python, executed on Spark, with an embedded log instead of a broker.

    \b
    Examples:
      penstock topics produce departures --key-separator : < departures.txt
      penstock run app.py:topology
      penstock topics cat delays
    """


if __name__ == "__main__":
    main()
