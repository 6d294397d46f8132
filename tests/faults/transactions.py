"""The program of ``program.py`` with another topology: processors that use transactions of their stores (KIP-892).

python transactions.py FOLDER --local   process the input of ``program.py --fill`` without Spark
python transactions.py FOLDER --slots   process it in processes of its own
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # where the tests' own stores are

import program

from penstock import (
    FixedKeyProcessor,
    SessionKey,
    Stores,
    StreamsBuilder,
    Topology,
    ValueAndTimestamp,
)
from support.own_timed_stores import TimedSupplier

DAY = 86_400_000
BUILDERS: dict[str, Any] = {
    "plain": lambda: Stores.key_value_store_builder(Stores.persistent_key_value_store("plain"), str, int),
    "memory": lambda: Stores.key_value_store_builder(Stores.in_memory_key_value_store("memory"), str, int),
    "timed": lambda: Stores.timestamped_key_value_store_builder(
        Stores.persistent_timestamped_key_value_store("timed"), str, int
    ),
    "windows": lambda: Stores.window_store_builder(Stores.persistent_window_store("windows", DAY, 1000), str, int),
    "sessions": lambda: Stores.session_store_builder(Stores.persistent_session_store("sessions", DAY), str, int),
    "versions": lambda: Stores.versioned_key_value_store_builder(
        Stores.persistent_versioned_key_value_store("versions", DAY), str, int
    ),
    "own": lambda: Stores.window_store_builder(TimedSupplier("sqlite", "window", "own"), str, int),
}


def write(store: str, target: Any, user: str, number: int, time: int) -> None:
    """Write a number in the store's way."""
    match store:
        case "plain" | "memory":
            target.put(user, number)
        case "timed":
            target.put(user, ValueAndTimestamp(number, time))
        case "windows" | "own":
            target.put(user, number, time // 1000 * 1000)
        case "sessions":
            target.put(SessionKey(user, time // 1000 * 1000, time // 1000 * 1000 + 999), number)
        case "versions":
            target.put(user, number, time)


def read(store: str, target: Any, user: str, time: int) -> int:
    """The number that was written last at this time; 0 if there is none."""
    match store:
        case "plain" | "memory":
            found = target.get(user)
        case "timed" | "versions":
            found = getattr(target.get(user), "value", None)
        case "windows" | "own":
            found = target.get(user, time // 1000 * 1000)
        case _:
            found = target.fetch_session(user, time // 1000 * 1000, time // 1000 * 1000 + 999)
    return found or 0


def processor_of(name: str) -> type[FixedKeyProcessor]:
    """A processor that begins transactions: it commits some, closes some, and leaves some open beyond its record."""

    class Pays(FixedKeyProcessor):
        def init(self, context: Any) -> None:
            self.context, self.store = context, context.get_state_store(name)
            self.open: Any = None

        def process(self, record: Any) -> None:
            number, user, time = record.value["n"], record.key, record.timestamp
            if self.open is not None and self.open.is_open and number % 3:
                self.open.commit({})
                self.open = None
            with self.store.new_transaction() as undone:
                write(name, undone, user, -number, time)  # closed without a commit: nothing of it may stay
            with self.store.new_transaction() as kept:
                write(name, kept, user, read(name, kept, user, time) + number, time)
                if number % 5:
                    kept.commit({})
            if number % 7 == 0:
                self.open = self.store.new_transaction()
                write(name, self.open, f"{user}-open", number, time)
            self.context.forward(record.with_value(read(name, self.store, user, time)))

    return Pays


def topology() -> Topology:
    """Each store with a processor of its own, whose results go out."""
    builder = StreamsBuilder()
    clicks = builder.stream(program.INPUT, key=str, value=dict)
    for name, build in BUILDERS.items():
        builder.add_state_store(build())
        clicks.process_values(processor_of(name), name, value=int).to(f"{name}-out")
    return builder.build()


if __name__ == "__main__":
    program.MODES[sys.argv[2]](Path(sys.argv[1]), topology(), commit_max_bytes=1_000, chunk_records=20)
