"""``penstock topology``: draws a topology."""

from __future__ import annotations

import click

from penstock.cli.command import Command
from penstock.cli.options import json_option
from penstock.cli.program import PROGRAM_HELP, load_program, program_argument
from penstock.cli.terminal import print_json


@click.command(cls=Command, epilog=PROGRAM_HELP)
@program_argument
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "mermaid"]),
    default="text",
    show_default=True,
    help="The form of the output.",
)
@click.option("--mermaid", is_flag=True, help="The same as --format mermaid.")
@json_option
def topology(program: str, format_: str, mermaid: bool, as_json: bool) -> None:
    """Show the steps, stores and topics of a program.

    The text is that of Kafka Streams, so viewers made for Kafka Streams can draw it. GitHub and notebooks draw Mermaid.

    \b
    Examples:
      penstock topology app.py
      penstock topology app.py:topology --mermaid > topology.mmd
    """
    built = load_program(program)
    if not as_json:
        click.echo(built.describe("mermaid" if mermaid else format_), nl=False)
        return
    for sub in built.sub_topologies:
        for part in sub.parts:
            print_json(
                {
                    "sub_topology": sub.id,
                    "kind": part.kind,
                    "name": part.name,
                    "predecessors": part.predecessors,
                    "topics": part.topics,
                    "stores": part.stores,
                }
            )
