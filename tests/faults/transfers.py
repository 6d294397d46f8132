"""The program of ``program.py`` with another topology: money that goes from account to account, in other partitions.

python transfers.py FOLDER --fill N    make the input topic, of N transfers
python transfers.py FOLDER --local     process it without Spark
python transfers.py FOLDER --read      check the balances again and again, until there is a file ``done`` in the folder
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import program
import pyarrow as pa

from penstock import StreamsBuilder, Topology, open_store
from penstock.arrays import partitions
from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog

PARTITIONS = 4
ACCOUNTS = 100
SETTINGS = {"commit_max_bytes": 8_000, "chunk_records": 40}
_PADDING = "x" * 400
"""So that a commit has the halves of all transfers that it reads: they are much smaller, and no task takes fewer."""


def topology() -> Topology:
    """The balances of all accounts: each transfer takes from one and gives to another."""
    builder = StreamsBuilder()
    halves = builder.stream(program.INPUT, key=str, value=dict).flat_map(
        lambda _, sent: [(sent["of"], -sent["amount"]), (sent["to"], sent["amount"])], key=str, value=int
    )
    halves.group_by_key().reduce(lambda balance, amount: balance + amount, "balances").to_stream().to("balances-out")
    return builder.build()


def fill(log: FileLog, count: int) -> None:
    rng = np.random.default_rng(7)
    log.create_topic(TopicInfo(program.INPUT, PARTITIONS, "str", "json"))
    one, gap, amount = (
        rng.integers(low, high, count).tolist() for low, high in ((0, ACCOUNTS), (1, ACCOUNTS), (1, 1000))
    )
    sent = [
        f'{{"of":"{of}","to":"{(of + other) % ACCOUNTS}","amount":{some},"padding":"{_PADDING}"}}'.encode()
        for of, other, some in zip(one, gap, amount, strict=True)
    ]
    key, value = pa.array([b"%d" % n for n in range(count)], pa.binary()), pa.array(sent, pa.binary())
    placed = partitions(key, PARTITIONS, 0)
    with log.writer(program.INPUT, "fill") as writer:
        for partition in range(PARTITIONS):
            rows = np.flatnonzero(placed == partition)
            writer.write(partition, key.take(pa.array(rows)), value.take(pa.array(rows)), rows, None, True)
    log.append(program.INPUT, writer.segments())


def read(folder: Path) -> None:
    """Look at all balances as often as there are new ones; how many commits were seen."""
    done, commits = folder / "done", set()
    while not (folder / "state" / "checkpoint" / "manifests").exists():
        time.sleep(0.05)
    with open_store(folder / "state" / "checkpoint", "balances") as store:
        while True:  # until the file is there
            is_last = done.exists()
            with store.snapshot() as now:
                balances = {account: balance for account, balance, _ in now.all()}
                assert sum(balances.values()) == 0, f"commit {now.commit}: the sum is {sum(balances.values())}"
                if balances:
                    commits.add(now.commit)
            if is_last:
                break
    print(len(commits), flush=True)


def main() -> None:
    folder, mode, *rest = sys.argv[1:]
    if mode == "--fill":
        fill(FileLog(Path(folder) / "log"), int(rest[0]))
    elif mode == "--read":
        read(Path(folder))
    else:
        program.run_local(Path(folder), topology(), **SETTINGS)
        print("done", flush=True)


if __name__ == "__main__":
    main()
