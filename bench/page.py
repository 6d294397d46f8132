"""The page beside W1: what an open page costs, next to what W1 costs meanwhile."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from bench.measure import RunError, session_cpu
from bench.plan import Plan
from bench.report import Row, Section, at_most, median, spread
from bench.running import PATIENCE
from bench.serve import WARM_UP_SECONDS, serving, waiting_w1

RECORDS = 25_000_000
AT_MOST_PERCENT = 2.0


def measure(plan: Plan) -> Section:
    """CPU seconds of W1, and of what serves a page that is open meanwhile."""
    found: list[tuple[float, float, int]] = []
    for _ in range(plan.runs):
        found.append(_once(plan))
        plan.say(f"page: {found[-1][1]:.2f} CPU s beside W1's {found[-1][0]:.2f}")
    w1, page, events = ([one[number] for one in found] for number in range(3))
    section = Section(
        "PAGE: a page that is open while W1 runs",
        f"penstock ui beside W1 (every update), which has {plan.size(RECORDS):,} records waiting; one page is open, "
        "that is, a client takes the figures as they come. CPU seconds of both, all processes together, from the "
        "append of the records until the last count is there.",
    )
    section.rows.append(Row("W1, CPU", f"{median(w1):.2f} s", spread(w1)))
    section.rows.append(Row("the page, CPU", f"{median(page):.3f} s", spread(page)))
    section.rows.append(Row("figures sent", f"{median(events):.0f}", spread(events)))
    section.rows.append(
        at_most("the page / W1", median([100 * two / one for one, two, _ in found]), AT_MOST_PERCENT, "%")
    )
    return section


def _once(plan: Plan) -> tuple[float, float, int]:
    """CPU seconds of W1 and of the page's server, and how often the page was told."""
    with waiting_w1(plan, RECORDS) as w1, serving(plan, "ui") as (server, url), _open(url) as told:
        before = session_cpu(w1.process.pid), session_cpu(server.pid), told.count
        w1.read()
        after = session_cpu(w1.process.pid), session_cpu(server.pid), told.count
    return after[0] - before[0], after[1] - before[1], after[2] - before[2]


class _Told(threading.Thread):
    """Takes the figures of a page as they come, until the connection is closed."""

    def __init__(self, url: str):
        super().__init__(daemon=True)
        self.count = 0
        self.first = threading.Event()
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)

    def run(self) -> None:
        self._connection.request("GET", "/api/picture")
        self._connection.getresponse().read()
        self._connection.request("GET", "/api/events")
        answer = self._connection.getresponse()
        while line := answer.readline():
            if line.startswith(b"event: figures"):
                self.count += 1
                self.first.set()


@contextmanager
def _open(url: str) -> Iterator[_Told]:
    """A page that has shown figures; it ends with its server."""
    told = _Told(url)
    told.start()
    if not told.first.wait(PATIENCE):
        raise RunError("the page showed no figures")
    time.sleep(WARM_UP_SECONDS)
    yield told
