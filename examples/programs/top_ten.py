"""The ten products that sold best in each hour, as one record an hour, final and with the sales that came late.

In: `sales`, any key. Out: `top-ten`, keyed by the hour's begin. Run it with `penstock run top_ten.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock import StreamsBuilder, Suppressed, TimeWindows


@dataclass(frozen=True)
class Sale:
    product: str
    pieces: int


@dataclass(frozen=True)
class Place:
    product: str
    pieces: int


def add(key: str, sale: Sale, pieces: dict[str, int]) -> dict[str, int]:
    return pieces | {sale.product: pieces.get(sale.product, 0) + sale.pieces}


def best(pieces: dict[str, int]) -> list[Place]:
    products = sorted(pieces, key=lambda product: (-pieces[product], product))
    return [Place(product, pieces[product]) for product in products[:10]]


builder = StreamsBuilder()
(
    builder.stream("sales", value=Sale)
    .group_by(lambda key, sale: "all", key=str)
    .windowed_by(TimeWindows.of_size_and_grace("1 hour", "10 minutes"))
    .aggregate(dict, add, value=dict[str, int], store="pieces")
    .suppress(Suppressed.until_window_closes())
    .map_values(best, value=list[Place])
    .to_stream(lambda window, places: window.start, key=int)
    .to("top-ten")
)
topology = builder.build()
