"""``penstock run --live``: a table of all steps of a running application, updated with each commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.progress import LiveDisplay
from penstock.cli.terminal import moment, size
from penstock.errors import PenstockError
from penstock.log.open import open_log

if TYPE_CHECKING:
    from penstock.engine.running.streams import Streams
    from penstock.watch.figures import Application

_COLUMNS = (
    ("step", "left"),
    ("records/s", "right"),
    ("records", "right"),
    ("left out", "right"),
    ("held", "right"),
    ("stream time", "left"),
    ("rows", "right"),
    ("state", "right"),
)


class TableDisplay(LiveDisplay):
    """The messages of :class:`LiveDisplay`, below a table of the steps."""

    _application: Application | None = None

    def running(self, streams: Streams) -> None:
        """Show the table from now on."""
        from penstock.watch.figures import Application

        super().running(streams)
        self._application = Application(streams.stores(), open_log(streams.log.place))

    def _picture(self) -> RenderableType:
        below = super()._picture()
        if self._application is None:
            return below
        try:
            picture, figures = self._application.picture(), self._application.figures()
        except (PenstockError, OSError):  # nothing is committed yet
            return below
        return Group(node_table(picture, figures), below)


def node_table(picture: dict[str, Any], figures: dict[str, Any]) -> Table:
    """Return a table of an application's steps with their metrics, a block for each sub-topology."""
    lag = sum(sum(topic.get("lag", ())) for topic in figures["topics"].values())
    at = f"commit {figures['commit']:,} · {figures['rate']:,.0f} records/s · {lag:,} behind"
    title = f"{picture['application']} · {at}"
    table = Table(title=title, title_justify="left", title_style="bold", expand=True, box=None, header_style="dim")
    for name, justify in _COLUMNS:
        table.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]
    for sub in picture["subs"]:
        if sub["parts"]:
            table.add_row(Text(f"sub-topology {sub['id']}, {sub['tasks']} tasks", style="dim"))
        for part in sub["parts"]:
            table.add_row(*_cells(part, figures))
    return table


def _cells(part: dict[str, Any], figures: dict[str, Any]) -> list[RenderableType]:
    one = figures["nodes"].get(part["name"], {})
    sizes = [figures["stores"][store] for store in part["stores"] if store in figures["stores"]]
    rate, dropped = one.get("rate", 0.0), sum(one.get("drops", {}).values())
    times = one.get("stream_time")
    return [
        Text(f"  {part['name']}", style="bold" if rate else ""),
        Text(f"{rate:,.1f}" if rate else "", style="green"),
        f"{one.get('records', 0):,}",
        Text(f"{dropped:,}" if dropped else "", style="red"),
        Text(f"{one['held']:,}" if "held" in one else "", style="yellow"),
        moment(times[0]) if times else "",
        f"{sum(found['rows'] for found in sizes):,}" if sizes else "",
        size(sum(found["bytes"] for found in sizes)) if sizes else "",
    ]
