"""Each test of an operator runs in three ways, which must not differ."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from penstock import StreamsBuilder, Topology
from penstock.testing import TopologyTestDriver
from penstock.testing.cuts import CutDriver
from support.flows import Driver, Ran, Row, Run, pipe_rows

WAYS: dict[str, Callable[..., Driver]] = {
    "record by record": TopologyTestDriver,
    "one chunk": CutDriver,
    "random cuts": lambda topology, **settings: CutDriver(topology, 1, **settings),
}


@pytest.fixture(params=WAYS)
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Runs a topology over rows; every update is emitted unless the settings say otherwise."""
    with ExitStack() as stack:

        def run(topology: StreamsBuilder | Topology, rows: Iterable[Row], **settings: Any) -> Ran:
            built = topology.build() if isinstance(topology, StreamsBuilder) else topology
            driver = WAYS[request.param](built, **{"statestore_cache_max_bytes": 0, **settings})
            if isinstance(driver, CutDriver):
                stack.enter_context(driver)
            pipe_rows(driver, rows)
            return Ran(driver)

        yield run
