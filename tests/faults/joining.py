"""The program of ``program.py`` with another topology: joins.

python joining.py FOLDER --local   process the input of ``program.py --fill`` without Spark
python joining.py FOLDER --spark   process it on Spark
"""

from __future__ import annotations

import sys
from pathlib import Path

import program

from penstock import Joined, Materialized, StreamsBuilder, Topology

GRACE = 2_000
HISTORY = 5_000


def topology() -> Topology:
    """Clicks with the page where their user was at their time, at once and after a grace period; users with what was
    clicked last on the page where they are, by foreign key; and corrected results of two versioned tables."""
    builder = StreamsBuilder()
    clicks = builder.stream(program.INPUT, key=str, value=dict)
    numbers = clicks.map_values(lambda click: click["n"], value=int)
    visits = clicks.filter(lambda user, click: click["n"] % 3 == 0).map_values(lambda click: click["page"], value=str)
    pages = visits.to_table(materialized=Materialized.as_versioned("pages", HISTORY))
    numbers.join(pages, lambda n, page: f"{n} {page}", value=str).to("at-once-out")
    waiting = Joined.with_name("waiting").with_grace_period(GRACE)
    numbers.left_join(pages, lambda n, page: f"{n} {page}", value=str, joined=waiting).to("waiting-out")
    last = clicks.group_by(lambda user, click: click["page"], key=str).reduce(lambda old, new: new, "last-on-page")
    pages.left_join(
        last, lambda page, click: [page, click and click["n"]], value=list, foreign_key=lambda page: page, store="users"
    ).to_stream().to("users-out")
    even = numbers.filter(lambda user, n: n % 2 == 0).to_table(materialized=Materialized.as_versioned("even", HISTORY))
    corrected = Materialized.as_versioned("corrected", HISTORY)
    pages.join(
        even, lambda page, n: f"{page} {n}", value=str, materialized=corrected, versioned_join="complete"
    ).to_stream().to("corrected-out")
    return builder.build()


if __name__ == "__main__":
    program.MODES[sys.argv[2]](Path(sys.argv[1]), topology())
