"""A running application in a notebook: its steps, and their progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.log.open import open_log
from penstock.notebooks import html_table
from penstock.watch.figures import Application

if TYPE_CHECKING:
    from penstock.engine.running.streams import Streams

_COLUMNS = ("step", "records/s", "records", "left out", "held back", "rows of state")


def html_of(streams: Streams) -> str:
    """The table of its steps; a short description if there is nothing to show."""
    try:
        seen = Application(streams.stores(), open_log(streams.log.place))
        return application_html(repr(streams), seen.picture(), seen.figures())
    except (PenstockError, OSError) as error:
        return html_table(repr(streams), (), (), str(error))


def application_html(title: str, picture: dict[str, Any], figures: dict[str, Any]) -> str:
    """The steps of an application, with their figures."""
    parts = [part for sub in picture["subs"] for part in sub["parts"]]
    lag = sum(sum(topic.get("lag", ())) for topic in figures["topics"].values())
    return html_table(title.strip("<>"), _COLUMNS, (_row(part, figures) for part in parts), f"{lag:,} records behind")


def _row(part: dict[str, Any], figures: dict[str, Any]) -> list[str]:
    one = figures["nodes"][part["name"]]
    rows = [figures["stores"][store]["rows"] for store in part["stores"] if store in figures["stores"]]
    dropped = sum(one.get("drops", {}).values())
    return [
        part["name"],
        f"{one['rate']:,.1f}",
        f"{one['records']:,}",
        f"{dropped:,}" if dropped else "",
        f"{one['held']:,}" if "held" in one else "",
        f"{sum(rows):,}" if rows else "",
    ]
