"""The same flights from a producer that sends some of them again: cleaned, so that each comes out once (KIP-655).

A producer that gets no answer in time sends again, whether the first attempt arrived or not: at least once. Here one
flight in twenty is sent a second time, up to 500 flights later: within a day.

Run it: `python examples/flights/resent.py [FOLDER]`; everything is kept in the folder, and made anew each time.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import feed
from penstock import Deduplicated, StreamsBuilder, produce_columns

AGAIN = 0.05
LATER = 500

builder = StreamsBuilder()
flights = builder.stream("flights-resent", key=str, value=dict)
# The interval has to be longer than a flight can come after others that left later: the eleven hours of the longest
# flight and the day in which it may be sent again. What comes later is forwarded, for its id is forgotten.
once = flights.deduplicate_by_key_value("id", "2 days", Deduplicated("once", "seen"), dropped_to="flights-dropped")
once.to("flights")
topology = builder.build()


def resent(flights: pd.DataFrame, seed: int = 1) -> pd.DataFrame:
    """The flights as they are sent: each with an id, and some of them again behind others."""
    rng = np.random.default_rng(seed)
    departed = flights["departed"].dt.strftime("%Y%m%d%H%M")
    sent = flights.assign(id=flights["carrier"] + flights["flight"].astype(str) + "-" + departed)
    sent = sent.assign(at=np.arange(len(sent)))
    again = sent[rng.random(len(sent)) < AGAIN]
    again = again.assign(at=again["at"] + rng.integers(1, LATER, len(again)))
    return pd.concat([sent, again]).sort_values("at", kind="stable", ignore_index=True).drop(columns="at")


def fill(log: Path, sent: pd.DataFrame) -> None:
    """Write what is sent into the topic ``flights-resent``, keyed by the airport that the flights left."""
    produce_columns(sent, "flights-resent", key="origin", timestamp="departed", log=log, partitions=2)


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    log = folder / "log"
    flights, _ = feed.read()
    sent = resent(flights)
    fill(log, sent)
    print(f"{len(flights):,} flights were sent {len(sent):,} times.")
    streams = topology.start(application_id="resent", log=log, state_dir=folder / "state", trigger="available-now")
    streams.await_termination()
    counted = {name.split("|")[-1]: 0 for name in streams.metrics()}
    for name, count in streams.metrics().items():
        counted[name.split("|")[-1]] += count
    print(f"{counted['duplicates-dropped-total']:,} were dropped; they are in the topic flights-dropped.")
    print(f"{counted['entries-stored-total']:,} flights are in the topic flights, each once.")
    print(f"{counted['entries-purged-total']:,} ids were forgotten two days after their flight.")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".penstock/resent"))
