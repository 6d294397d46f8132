"""The program of ``program.py`` with another topology: async functions are awaited, and kill their own process.

python awaiting.py FOLDER --fill N     make the input topic
python awaiting.py FOLDER --local      process it without Spark
python awaiting.py FOLDER --slots      process it in processes of this machine
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import numpy as np
import program
import pyarrow as pa

from penstock import StreamsBuilder, Topology
from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog

PARTITIONS = 2
DEADLY = "DEADLY_NUMBERS"
"""The variable with a folder: a call with the number of a file there removes the file and kills its process."""


async def tenfold(number: int) -> int:
    await asyncio.sleep(0.001)
    _die_if_told(number)
    return number * 10


async def are_even(keys: list[str], numbers: list[int]) -> list[bool]:
    await asyncio.sleep(0.001)
    return [number % 20 == 0 for number in numbers]


def _die_if_told(number: int) -> None:
    file = Path(os.environ.get(DEADLY, os.devnull)) / str(number)
    try:
        file.unlink()
    except OSError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def topology() -> Topology:
    """Numbers that are awaited one by one and in lists, and counted by key."""
    builder = StreamsBuilder()
    results = builder.stream(program.INPUT, key=str, value=int).map_values_async(tenfold, capacity=50)
    results.to("out")
    results.filter_async(are_even, batch=32).group_by_key().count("counts").to_stream().to("totals")
    return builder.build()


def fill(log: FileLog, count: int) -> None:
    log.create_topic(TopicInfo(program.INPUT, PARTITIONS, "str", "int"))
    with log.writer(program.INPUT, "fill") as writer:
        for partition in range(PARTITIONS):
            numbers = np.arange(partition, count, PARTITIONS)
            key = pa.array([b"user-%d" % (number % 7) for number in numbers.tolist()], pa.binary())
            value = pa.array([int(number).to_bytes(8, "big") for number in numbers.tolist()], pa.binary())
            writer.write(partition, key, value, numbers, None)
    log.append(program.INPUT, writer.segments())


def main() -> None:
    folder, mode, *rest = sys.argv[1:]
    if mode == "--fill":
        fill(FileLog(Path(folder) / "log"), int(rest[0]))
    elif mode in ("--spark", "--slots"):
        program.MODES[mode](Path(folder), topology())
    else:
        program.run_local(Path(folder), topology())


if __name__ == "__main__":
    main()
