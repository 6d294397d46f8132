"""The topology as text in Kafka Streams' own form, and as Mermaid.

The text equals that of ``Topology#describe()`` to the letter, so that every viewer of it works. Therefore sets are
printed in the order of Java's hash sets where Kafka Streams does so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from functools import cmp_to_key, partial

from penstock.plan.expressions.typed import computed_by
from penstock.plan.node import Node
from penstock.plan.physical import Part, SubTopology

_MADE_UP = re.compile(r"(K.*)-([0-9]{10})")


def as_text(sub_topologies: Iterable[SubTopology]) -> str:
    """Kafka's own text form."""
    described = "".join(
        f"  Sub-topology: {sub.id}{_kind(sub)}\n{_parts_text(sub)}{_end(sub)}" for sub in sub_topologies
    )
    return f"Topologies:\n {described}"


def _kind(sub: SubTopology) -> str:
    return " for global store (will not generate tasks)" if sub.is_global else ""


def _end(sub: SubTopology) -> str:
    return "" if sub.is_global else "\n"


def _parts_text(sub: SubTopology) -> str:
    below, above, sizes = _neighbours(sub)
    lines = []
    for part in _sorted(list(sub.parts), sizes):
        successors = ", ".join(n.name for n in below[part.name]) or "none"
        predecessors = ", ".join(n.name for n in above[part.name]) or "none"
        if part.kind == "source":
            topics = ", ".join(_java_order(part.topics))
            of = part.node.pattern or f"[{topics}]"
            lines += [f"    Source: {part.name} (topics: {of})", f"      --> {successors}"]
        elif part.kind == "sink":
            to = f"topic: {part.topics[0]}" if part.topics else f"extractor class: {_selector(part)}"
            lines += [f"    Sink: {part.name} ({to})", f"      <-- {predecessors}"]
        else:
            stores = ", ".join(_java_order(part.stores))
            lines += [f"    Processor: {part.name} (stores: [{stores}])", f"      --> {successors}"]
            lines += [f"      <-- {predecessors}"]
    return "\n".join(lines) + "\n"


Neighbours = dict[str, list[Part]]


def _neighbours(sub: SubTopology) -> tuple[Neighbours, Neighbours, dict[str, int]]:
    """The successors, predecessors and sizes of all parts.

    The size of a part is the number of paths down from it. Neighbours are sorted by their sizes at the time when they
    are connected, so the order of connecting matters. It is Java's order.
    """
    by_name = {part.name: part for part in sub.parts}
    below: Neighbours = {name: [] for name in by_name}
    above: Neighbours = {name: [] for name in by_name}
    sizes = dict.fromkeys(by_name, 1)

    def grow(name: str, by: int) -> None:
        sizes[name] += by
        for part in above[name]:
            grow(part.name, by)

    for name in _java_order(_java_order(part.name for part in sub.parts)):
        for predecessor in by_name[name].predecessors:
            _insert(above[name], by_name[predecessor], sizes)
            _insert(below[predecessor], by_name[name], sizes)
            grow(predecessor, sizes[name])
    return below, above, sizes


def _compare(a: Part, b: Part, sizes: dict[str, int]) -> int:
    if sizes[a.name] != sizes[b.name]:
        return sizes[b.name] - sizes[a.name]
    return (a.name > b.name) - (a.name < b.name)


def _insert(sorted_parts: list[Part], part: Part, sizes: dict[str, int]) -> None:
    place = next((i for i, other in enumerate(sorted_parts) if _compare(part, other, sizes) < 0), len(sorted_parts))
    sorted_parts.insert(place, part)


def _sorted(parts: list[Part], sizes: dict[str, int]) -> list[Part]:
    compare: Callable[[Part, Part], int] = partial(_compare, sizes=sizes)
    return sorted(parts, key=cmp_to_key(compare))


def _java_order(texts: Iterable[str]) -> list[str]:
    """Sort strings like a Java ``HashSet`` to which they were added in this order.

    >>> _java_order(["in", "out", "KSTREAM-SOURCE-0000000000"])
    ['in', 'KSTREAM-SOURCE-0000000000', 'out']
    """
    every = list(dict.fromkeys(texts))
    capacity = 16
    while len(every) > capacity * 3 // 4:
        capacity *= 2
    return sorted(every, key=lambda text: _java_spread(text) & (capacity - 1))


def _java_spread(text: str) -> int:
    h = 0
    for unit in text.encode("utf-16-be")[1::2] if text.isascii() else _utf16(text):
        h = (31 * h + unit) & 0xFFFFFFFF
    return h ^ (h >> 16)


def _utf16(text: str) -> list[int]:
    data = text.encode("utf-16-be")
    return [int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2)]


def as_mermaid(sub_topologies: Iterable[SubTopology], versioned: Container[Node] = ()) -> str:
    """A Mermaid flowchart: a box for each sub-topology, topics as stadiums, stores as cylinders.

    Expressions and versioned tables are shown, too: Kafka's text has no place for them.
    """
    lines = ["flowchart TD"]
    topics: dict[str, str] = {}
    edges: list[str] = []
    for sub in sub_topologies:
        lines.append(f'  subgraph sub{sub.id}["Sub-topology {sub.id}"]')
        for part in sub.parts:
            note = "<br/>versioned" if part.kind == "processor" and part.node in versioned else ""
            if computes := computed_by(part.node.function) if part.kind == "processor" else "":
                note += f"<br/>{_in_label(computes)}"
            lines.append(f'    {_id(part.name)}["{_label(part)}{note}"]')
            for store in part.stores:
                lines.append(f'    {_id("store " + store)}[("{store}")]')
                edges.append(f"  {_id(part.name)} -.- {_id('store ' + store)}")
            edges += [f"  {_id(above)} --> {_id(part.name)}" for above in part.predecessors]
            for topic in part.topics:
                topics[topic] = _id("topic " + topic)
                ends = (topics[topic], _id(part.name))
                edges.append("  {} --> {}".format(*(ends if part.kind == "source" else reversed(ends))))
        lines.append("  end")
    lines += [f'  {id_}(["{topic}"])' for topic, id_ in topics.items()]
    return "\n".join(lines + edges) + "\n"


def _id(name: str) -> str:
    return "n_" + "".join(c if c.isalnum() and c.isascii() else f"_{ord(c):x}_" for c in name)


def _label(part: Part) -> str:
    """The name of a part; for a generated name, its kind and its number without leading zeros."""
    made_up = _MADE_UP.fullmatch(part.name)
    return f"{made_up[1]} {int(made_up[2])}" if made_up else part.name


def _in_label(text: str) -> str:
    """Return a text in the form that labels of Mermaid have."""
    codes = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;"}
    return "".join(codes.get(letter, letter) for letter in text)


def _selector(part: Part) -> str:
    """The function that chooses the topics of a sink."""
    assert part.node.selector is not None
    return part.node.selector.name
