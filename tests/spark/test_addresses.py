"""Where slots find the driver, and what is said when they do not."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from penstock.engine.slots.links import Address
from penstock.engine.slots.slot import Place, serve
from penstock.engine.spark.job import SlotsJob


def test_a_slot_that_cannot_reach_the_driver_says_where_it_looked():
    class Graph:
        """As that of a job of two slots."""

        def run(self) -> list[str]:
            place, address = Place("run", 1, 0), Address("127.0.0.1", unused, b"key")
            return [serve(place, address, dict, 1.0), ""]  # type: ignore[arg-type]

        def cancel(self) -> None:
            """It has ended."""

    with socket.create_server(("127.0.0.1", 0)) as taken:
        unused = taken.getsockname()[1]
    ended = threading.Event()
    job = SlotsJob(Graph(), 1, ended.set)
    assert ended.wait(10)
    assert job.failure == (
        f"slot 0, on {socket.gethostname()}, cannot reach the driver at 127.0.0.1:{unused} ([Errno 111] Connection "
        "refused): executors connect to spark.driver.host; set it to an address of the driver that they reach, and "
        "spark.driver.bindAddress to one that the driver has. Where executors may not connect to the driver at all, "
        'start with engine="micro-batch": it needs no connection'
    )


@pytest.mark.slow
def test_slots_of_a_local_session_find_the_driver_whatever_its_addresses_are(tmp_path: Path):
    """Spark itself needs no network there, so nothing else would tell of an address that leads nowhere."""
    program = (
        "from pathlib import Path\n"
        "from pyspark.sql import SparkSession\n"
        "from penstock import StreamsBuilder, consume, produce\n"
        "conf = {'spark.driver.host': '127.0.0.9', 'spark.driver.bindAddress': '127.0.0.1'}\n"
        "spark = SparkSession.builder.master('local[2]').config(map=conf).getOrCreate()\n"
        "produce([('a', 'x', 1)], 'in', str, str, log=Path('log'))\n"
        "builder = StreamsBuilder()\n"
        "builder.stream('in', key=str, value=str).to('out')\n"
        "given = {'log': Path('log'), 'state_dir': Path('state'), 'spark': spark, 'slots': 1}\n"
        "with builder.build().start('app', **given) as streams:\n"
        "    streams.process_all_available()\n"
        "print([tuple(record[:3]) for record in consume('out', str, str, Path('log'))])\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert ran.stdout.splitlines()[-1:] == ["[('a', 'x', 1)]"], ran.stderr[-3000:]
