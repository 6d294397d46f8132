"""Slots in a session of Spark Connect: hosted by a DataFrame, since the client sees neither executors nor a JVM.

The job is a DataFrame of one row for each slot, and ``mapInArrow`` serves there until the program stops. Which process
gets which row says nothing, so slots come to the program's door without a number and get one there (``seating.py``).
Spark keeps such processes for any Python code of the session, so a slot closes its state when its job ends.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from penstock.engine.shipping.shipping import loads
from penstock.engine.slots.links import Address
from penstock.engine.slots.sessions import Host
from penstock.engine.slots.slot import serve_anywhere
from penstock.engine.spark.connect_server import check_server, own_address
from penstock.engine.spark.job import SlotsJob
from penstock.errors import ConfigError, SparkLostError

_LOOK_SECONDS = 10.0
"""How often to look whether it is there."""


class ConnectHost(Host):
    """Starts the application's slots in a session of Spark Connect.

    Args:
        spark: the session.
        about: a tag of the job, which Spark shows.
        program: the program for the slots, packed by ``shipping``.

    Raises:
        ConfigError: the settings ask for copies of state on other machines.
    """

    why_late = (
        "each of them keeps one of Spark's cores, and other work may have the rest; end that, or start with fewer slots"
    )

    def __init__(self, spark: Any, application_id: str, about: str, program: bytes, slots: int, copies: bool = False):
        if copies:
            raise ConfigError(
                "start: standby_replicas needs a classic session, because under Spark Connect a program does not see "
                "on which machines its slots are. Leave it out: a lost slot's state is restored from the checkpoint"
            )
        self.slots = slots
        self.name = self.bind = own_address(spark.client.host)
        self._spark = spark
        self._application_id = application_id
        self._about = about
        self._program = program

    def check(self) -> None:
        """Raise ``SparkLostError`` when the server does not answer."""
        check_server(self._spark, self._application_id)

    def start(self, run: str, number: int, address: Address, seconds: float, on_end: Callable[[], None]) -> SlotsJob:
        program, given = self._program, (run, number, address, seconds)

        def slots(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa

            for batch in batches:
                failure = serve_anywhere(*given, lambda: loads(program).on_executor())
                yield pa.record_batch({"failure": pa.array([failure] * batch.num_rows)})

        slots.__name__ = "penstock_" + re.sub(r"\W", "_", self._application_id)  # Spark shows it in the plan
        job = SlotsJob(_SlotsFrame(self._spark, self.slots, slots, self._about), number, on_end)
        threading.Thread(target=self._watch, args=(job,), name="penstock watches Spark", daemon=True).start()
        return job

    def _watch(self, job: SlotsJob) -> None:
        """End the job of a server that is gone: Spark's client would go on waiting for it."""
        while not job.wait(_LOOK_SECONDS):
            try:
                self.check()
            except SparkLostError as error:
                job.end_with(str(error))


class _SlotsFrame:
    """The DataFrame whose rows are slots."""

    def __init__(self, spark: Any, slots: int, body: Callable[[Iterator[Any]], Iterator[Any]], about: str):
        self._spark = spark
        self._slots = slots
        self._body = body
        self._tag = about.replace(",", ";")

    def run(self) -> list[str]:
        """Run the job, until all slots have ended or one has failed. Return why slots did nothing. Raise Spark's
        errors.
        """
        self._spark.addTag(self._tag)  # of this thread
        rows = self._spark.range(0, self._slots, 1, self._slots).mapInArrow(self._body, "failure string").collect()
        return [row[0] for row in rows if row[0]]

    def cancel(self) -> None:
        """Cancel the running job, without waiting for a server that may be gone."""
        threading.Thread(target=self._interrupt, name="penstock cancels", daemon=True).start()

    def _interrupt(self) -> None:
        with suppress(Exception):  # of a server that is gone, and the slots with it
            self._spark.interruptTag(self._tag)
