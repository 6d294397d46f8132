"""Draw docs/pictures/speed.svg from bench/results.jsonl: CPU seconds per million records, Penstock beside its peers.

.venv/bin/python scripts/plot.py
"""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PICTURE = ROOT / "bench" / "results.jsonl", ROOT / "docs" / "pictures" / "speed.svg"
SHOWN = {
    "W0: filter and project": "filter and project",
    "W2: windowed count, final results": "windowed count, final results",
    "W3: session count, every update": "session count",
    "W4: deduplication by id": "deduplication by id",
    "JOIN: stream-stream join": "stream-stream join",
    "W5: stream-table join": "stream-table join",
    "W6: foreign-key join": "foreign-key join",
    "W10: processor with a count for each key": "processor with a store",
}
"""Sections of the benchmark, by their titles, and what the plot calls them."""
PEERS = {"Penstock": "#00897b", "Kafka Streams": "#8d99ae", "Spark's own operator": "#e09f3e"}
"""Engines, by the names that the benchmark gives them, with the colours of their bars."""
LABELS = {"Spark's own operator": "Spark's own operator, where there is one"}
LEFT, WIDTH, BAR, GAP, TOP = 210, 760, 13, 14, 64
TEXT = "#8a8f98"
"""A grey that can be read on white and on black."""


def newest() -> dict[str, dict[str, float]]:
    """Return CPU seconds by section and engine, of the newest run of each section that measured a peer."""
    found: dict[str, dict[str, float]] = {}
    for line in RESULTS.read_text(encoding="utf-8").splitlines():
        section = json.loads(line)
        measured = {row["what"]: row["measured"] for row in section["rows"]}
        if section["title"] in SHOWN and "Kafka Streams" in measured:
            seconds = {peer: float(measured[peer].split()[0]) for peer in PEERS if peer in measured}
            found[section["title"]] = seconds
    return found


def drawn(figures: dict[str, dict[str, float]]) -> str:
    """Return the plot as SVG: a group of bars for each section, the longest bar as long as there is room."""
    longest = max(seconds for section in figures.values() for seconds in section.values())
    scale = (WIDTH - LEFT - 60) / longest
    parts, y = [*_legend()], TOP
    for title, name in SHOWN.items():
        section = figures[title]
        middle = y + len(section) * BAR / 2 + 4
        parts.append(f'<text x="{LEFT - 10}" y="{middle:.0f}" text-anchor="end">{name}</text>')
        for peer, seconds in section.items():
            width = max(seconds * scale, 1)
            parts.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR - 2}" fill="{PEERS[peer]}"/>')
            parts.append(f'<text x="{LEFT + width + 6:.1f}" y="{y + BAR - 3}">{seconds:.1f}</text>')
            y += BAR
        y += GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}"'
    style = f'font-family="Helvetica, Arial, sans-serif" font-size="12" fill="{TEXT}"'
    return "\n".join([f"{head} {style}>", *parts, "</svg>", ""])


def _legend() -> list[str]:
    title = "CPU seconds per million records (shorter is better)"
    parts, x = [f'<text x="{LEFT}" y="18" font-size="14" font-weight="bold">{title}</text>'], LEFT
    for peer, colour in PEERS.items():
        label = LABELS.get(peer, peer)
        parts.append(f'<rect x="{x}" y="32" width="11" height="11" fill="{colour}"/>')
        parts.append(f'<text x="{x + 17}" y="42">{label}</text>')
        x += 40 + 7 * len(label)
    return parts


if __name__ == "__main__":
    PICTURE.write_text(drawn(newest()), encoding="utf-8")
