"""The program of ``program.py`` with another topology: one that sends to itself.

python circling.py FOLDER --local   process the input of ``program.py --fill`` without Spark
python circling.py FOLDER --spark   process it on Spark
"""

from __future__ import annotations

import sys
from pathlib import Path

import program

from penstock import JoinWindows, StreamsBuilder, Topology


def host_of(page: str) -> str:
    """The user whose page it is."""
    return f"user-{page.removeprefix('page-')}"


def topology() -> Topology:
    """Pages that users looked at, with who looked at theirs meanwhile, and how many had before; users with where the
    one is on whose page they are; and how many users are on a page, with those who come to it."""
    builder = StreamsBuilder()
    pages = builder.stream(program.INPUT, key=str, value=dict).map_values(lambda click: click["page"], value=str)
    guests = pages.map(lambda user, page: (host_of(page), user), key=str, value=str)
    windows = JoinWindows.of_time_difference_and_grace(200, 4_000)
    pages.join(guests, lambda page, guest: f"{page} {guest}", windows, value=str).to("met-out")
    counted = guests.group_by_key().count("guests")
    pages.left_join(counted, lambda page, count: f"{page} {count}", value=str).to("guests-out")
    last = pages.to_table("last")
    last.left_join(
        last, lambda page, other: f"{page} {other}", value=str, foreign_key=host_of, store="hosts"
    ).to_stream().to("hosts-out")
    on_page = last.group_by(lambda user, page: (host_of(page), user), key=str, value=str).count("on-page")
    last.join(on_page, lambda page, count: f"{page} {count}", value=str, store="crowds").to_stream().to("crowds-out")
    return builder.build()


if __name__ == "__main__":
    program.MODES[sys.argv[2]](Path(sys.argv[1]), topology())
