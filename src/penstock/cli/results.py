"""Where the results of a program are: said at the end of ``penstock run``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.terminal import say
from penstock.log.cluster import SCHEME
from penstock.plan.dataframes import SinkTarget, TableTarget
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.engine.running.streams import Streams


def say_where_results_are(streams: Streams) -> None:
    """Say in which sinks, tables and topics the results of a program are that has ended."""
    topology = streams.topology
    outside = topology.sinks | topology.table_sinks
    for node in outside.values():
        assert isinstance(node.outside, SinkTarget | TableTarget)
        say(f"The results of {node.outside.name!r} are in {node.outside.shown}.")
    topics = [topic for topic in topology.sink_topics if topic not in outside]
    if not topics:
        return
    options = log_option(streams)
    say(f"The results are in topics in {streams.log.url}. To read them:")
    for topic in topics:
        say(f"  penstock topics cat {topic}{options}")


def log_option(streams: Streams) -> str:
    """Return the options that commands need to find the log."""
    log, usual = streams.log.url, Settings.load().topics_in
    is_usual = str(usual).startswith(log) if log.startswith(SCHEME) else Path(usual).resolve() == Path(log)
    return "" if is_usual else f" --log {shlex.quote(log)}"
