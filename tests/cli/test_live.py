"""``penstock run --live``: the table of the steps."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from penstock.cli.live import node_table
from penstock.query.application import open_stores
from penstock.watch.figures import Application
from support.watched import SOLD, Shop, shop_topology


def test_the_table_has_each_step_with_its_figures(tmp_path: Path):
    shop = Shop(tmp_path, shop_topology())
    shop.sell(*SOLD)
    seen = Application(open_stores(shop.folder), shop.log)
    console = Console(width=150, record=True, file=io.StringIO())
    console.print(node_table(seen.picture(), seen.figures()))
    lines = {line.split()[0]: line.split() for line in console.export_text().splitlines() if line.strip()}
    assert lines["shop"][:4] == ["shop", "·", "commit", f"{shop.running.coordinator.manifest.commit}"]
    assert lines["sub-topology"] == ["sub-topology", "0,", "2", "tasks"]
    assert "5" in lines["by-minute"]  # records
    assert "1" in lines["by-minute"]  # dropped as late
    assert "2" in lines["final"]  # held
    assert "1970-01-01T00:00:03Z" in lines["final"]
