"""SVG pictures of a topology, or of the steps that lead to one step, for notebooks and documents."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from penstock.plan.expressions.typed import computed_by
from penstock.plan.node import Node
from penstock.plan.physical import Part, SubTopology

_WIDTH, _HEIGHT, _GAP, _RISE, _PAD, _HEAD = 190, 42, 16, 28, 14, 24
_MADE_UP = re.compile(r"K[A-Z-]+-(\d{10}).*")
_MOST_LETTERS = 26


@dataclass(frozen=True)
class Box:
    """One step, or a topic at one end."""

    name: str
    title: str
    kind: str
    above: tuple[str, ...] = ()
    is_topic: bool = False


@dataclass(frozen=True)
class _Placed:
    box: Box
    x: float
    y: float


def of_topology(subs: Iterable[SubTopology]) -> str:
    """Draw all sub-topologies, one below the other, each in a frame."""
    pieces, y, width = [], 0.0, 0.0
    for sub in subs:
        placed, wide, tall = _laid_out(_boxes_of(sub), y + _HEAD)
        frame = (
            f'<rect x="1" y="{y + 1}" width="{wide - 2}" height="{tall + _HEAD - 2}" rx="12" fill="currentColor" '
            f'fill-opacity=".035" stroke="currentColor" stroke-opacity=".2"/>'
            f'<text x="{_PAD}" y="{y + 18}" font-size="11" opacity=".65">Sub-topology {sub.id}</text>'
        )
        pieces += [frame, _drawn(placed)]
        y, width = y + tall + _HEAD + _GAP, max(width, wide)
    return _svg(width, max(y - _GAP, 0), "".join(pieces))


def of_steps(node: Node) -> str:
    """Draw a step and all steps that lead to it."""
    every: dict[str, Box] = {}

    def add(one: Node) -> None:
        if one.name not in every:
            title = ", ".join(one.topics) or one.name
            computes = computed_by(one.function)
            about = f"{_words(one)} · {computes}" if computes else _words(one)
            every[one.name] = Box(one.name, title, about, tuple(p.name for p in one.parents), not one.parents)
            for parent in one.parents:
                add(parent)

    add(node)
    placed, width, height = _laid_out(list(every.values()), 0)
    return _svg(width, height, _drawn(placed))


def _boxes_of(sub: SubTopology) -> list[Box]:
    return [
        Box(
            part.name,
            part.name if part.kind == "processor" else ", ".join(part.topics),
            _about(part),
            part.predecessors,
            part.kind != "processor",
        )
        for part in sub.parts
    ]


def _about(part: Part) -> str:
    """Return the kind of a step, its expression and its stores."""
    computes = computed_by(part.node.function) if part.kind == "processor" else ""
    return (
        _words(part.node)
        + (f" · {computes}" if computes else "")
        + (f" · {', '.join(part.stores)}" if part.stores else "")
    )


def _words(node: Node) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).lower()


def _laid_out(boxes: list[Box], top: float) -> tuple[list[_Placed], float, float]:
    """Place the boxes layer by layer; return them with the total width and height."""
    by_name, layer = {box.name: box for box in boxes}, dict[str, int]()

    def depth(name: str) -> int:
        if name not in layer:
            layer[name] = max((depth(one) + 1 for one in by_name[name].above if one in by_name), default=0)
        return layer[name]

    rows: dict[int, list[Box]] = {}
    for box in boxes:
        rows.setdefault(depth(box.name), []).append(box)
    most = max((len(row) for row in rows.values()), default=0)
    width = most * (_WIDTH + _GAP) - _GAP + 2 * _PAD
    placed, at = [], dict[str, float]()
    for number in sorted(rows):
        row = sorted(rows[number], key=lambda box: _mean([at[one] for one in box.above if one in at], width / 2))
        x = (width - len(row) * (_WIDTH + _GAP) + _GAP) / 2
        for box in row:
            at[box.name] = x
            placed.append(_Placed(box, x, top + _PAD + number * (_HEIGHT + _RISE)))
            x += _WIDTH + _GAP
    return placed, width, len(rows) * (_HEIGHT + _RISE) - _RISE + 2 * _PAD


def _mean(numbers: list[float], otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise


def _drawn(placed: list[_Placed]) -> str:
    at = {one.box.name: one for one in placed}
    lines = "".join(_line(at[name], one) for one in placed for name in one.box.above if name in at)
    return lines + "".join(map(_box, placed))


def _line(above: _Placed, below: _Placed) -> str:
    x1, y1, x2, y2 = above.x + _WIDTH / 2, above.y + _HEIGHT, below.x + _WIDTH / 2, below.y
    bend = (y2 - y1) / 2
    path = f"M{x1:g} {y1:g}C{x1:g} {y1 + bend:g} {x2:g} {y2 - bend:g} {x2:g} {y2:g}"
    return f'<path d="{path}" fill="none" stroke="#1a9c8d" stroke-width="1.6"/>'


def _box(one: _Placed) -> str:
    made_up = _MADE_UP.fullmatch(one.box.title)
    title = f"{one.box.kind.partition(' · ')[0]} {int(made_up[1])}" if made_up else one.box.title
    radius, fill = (_HEIGHT / 2, ".16") if one.box.is_topic else (9, ".07")
    x, about = one.x + _WIDTH / 2, one.box.kind.partition(" · ")[2]
    return (
        f"<g><title>{escape(one.box.name)}{escape(f' · {about}') if about else ''}</title>"
        f'<rect x="{one.x:g}" y="{one.y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="{radius:g}" fill="#1a9c8d" '
        f'fill-opacity="{fill}" stroke="#1a9c8d" stroke-opacity=".55"/>'
        f'<text x="{x:g}" y="{one.y + 18:g}" text-anchor="middle" font-weight="600">{_cut(title)}</text>'
        f'<text x="{x:g}" y="{one.y + 33:g}" text-anchor="middle" font-size="10.5" opacity=".7">{_cut(one.box.kind)}'
        "</text></g>"
    )


def _cut(text: str) -> str:
    return escape(text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}…")


def _svg(width: float, height: float, content: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'style="max-width:100%;height:auto;color:inherit" font-family="system-ui,sans-serif" font-size="12.5" '
        f'fill="currentColor">{content}</svg>'
    )
