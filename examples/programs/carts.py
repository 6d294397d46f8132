"""A shopping cart is open, paid and shipped, each in its time.

In: `steps`, keyed by cart: "open", "paid", "shipped". Out: `carts`, what has become of them. A cart that is not paid
within an hour of the stream's time is given up. One that is paid and not shipped within a day is told of also when
nothing comes in any more: that is by the clock on the wall. Run it with `penstock run carts.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock import (
    STREAM_TIME,
    WALL_CLOCK_TIME,
    KeyValueStore,
    Processor,
    ProcessorContext,
    Record,
    Stores,
    StreamsBuilder,
)

HOUR = 3_600_000
NEXT = {None: "open", "open": "paid", "paid": "shipped"}


@dataclass(frozen=True)
class Cart:
    state: str
    since: int
    is_told: bool = False
    """Whether it is known to be late."""


class Carts(Processor[str, str]):
    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.carts: KeyValueStore[str, Cart] = context.get_state_store("carts")
        context.schedule("10 minutes", STREAM_TIME, self.give_up)
        context.schedule("10 minutes", WALL_CLOCK_TIME, self.tell)

    def process(self, record: Record) -> None:
        cart = self.carts.get(record.key)
        state = cart.state if cart else None
        if record.value != NEXT[state]:
            self.context.forward(record.with_value(f"{record.value} after {state or 'nothing'}"))
        elif record.value == "shipped":
            self.carts.delete(record.key)
            self.context.forward(record.with_value("done"))
        else:
            self.carts.put(record.key, Cart(record.value, record.timestamp))

    def give_up(self, now: int) -> None:
        for key, cart in list(self.carts.all()):
            if cart.state == "open" and now - cart.since > HOUR:
                self.carts.delete(key)
                self.context.forward(Record(key, "given up", now))

    def tell(self, now: int) -> None:
        for key, cart in list(self.carts.all()):
            if cart.state == "paid" and not cart.is_told and now - cart.since > 24 * HOUR:
                self.carts.put(key, replace(cart, is_told=True))
                self.context.forward(Record(key, "not shipped yet", now))


builder = StreamsBuilder()
builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("carts"), key=str, value=Cart))
builder.stream("steps", key=str, value=str).process(Carts, "carts", value=str).to("carts")
topology = builder.build()
