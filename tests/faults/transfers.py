"""The program of ``program.py`` with another topology: money that goes from account to account, in other partitions.

python transfers.py FOLDER --fill N    make the input topic, of N transfers
python transfers.py FOLDER --local     process it without Spark
python transfers.py FOLDER --read      check the balances again and again, until there is a file ``done`` in the folder
python transfers.py FOLDER --prove N KILLS [--keep]    all of it: four readers, and a program that is killed so often

Each transfer is two records behind a repartition topic, for two accounts. The tasks there stop at their own limits, so
a commit may have one half of a transfer in a balance and the other still on its way: in Kafka Streams, too, these are
transactions of several tasks. What each commit says is where everything is: the balances of all partitions and what
its manifest has waiting are nothing together, to the cent, or a reader was shown parts of several commits.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import harness
import numpy as np
import program
import pyarrow as pa

from penstock import StreamsBuilder, Topology, open_store
from penstock.arrays import partitions
from penstock.engine.shared.exchange import read_exchange
from penstock.engine.shared.manifest import Manifest, Manifests
from penstock.errors import CorruptDataError
from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog
from penstock.serdes import of
from penstock.storage.base import LocalStorage

PARTITIONS = 4
ACCOUNTS = 100
SETTINGS = {"commit_max_bytes": 8_000, "chunk_records": 40}
READERS = 4
_INT = of(int, "amount")


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
        f'{{"of":"{account}","to":"{(account + other) % ACCOUNTS}","amount":{some}}}'.encode()
        for account, other, some in zip(one, gap, amount, strict=True)
    ]
    key, value = pa.array([b"%d" % n for n in range(count)], pa.binary()), pa.array(sent, pa.binary())
    placed = partitions(key, PARTITIONS, 0)
    with log.writer(program.INPUT, "fill") as writer:
        for partition in range(PARTITIONS):
            rows = np.flatnonzero(placed == partition)
            writer.write(partition, key.take(pa.array(rows)), value.take(pa.array(rows)), rows, None, True)
    log.append(program.INPUT, writer.segments())


def read(folder: Path) -> None:
    """Look at all balances as often as there are new ones; in how many commits they were held against what was on its
    way, and in how many of these something was."""
    done, checked, on_the_way = folder / "done", set(), set()
    storage = LocalStorage(folder / "state" / "checkpoint")
    while Manifests(storage).newest() is None:
        time.sleep(0.05)
    with open_store(folder / "state" / "checkpoint", "balances") as store:
        is_last = False
        while not is_last:
            is_last = done.exists()
            with store.snapshot() as now:
                sum_ = sum(balance for _, balance, _ in now.all())
                commit, amount = now.commit, waiting(storage, now.commit)
            if amount is not None:
                assert sum_ + amount == 0, f"commit {commit}: balances {sum_}, on their way {amount}"
                checked.add(commit)
                on_the_way.update([commit] if amount else [])
            time.sleep(0.02)
    print(len(checked), len(on_the_way), flush=True)


def waiting(storage: LocalStorage, commit: int) -> int | None:
    """The sum of the halves that are in no balance yet as of a commit; None where later ones have removed them."""
    try:
        manifest: Manifest = Manifests(storage).read(commit)
        refs = [ref for topics in manifest.waiting.values() for some in topics.values() for ref in some]
        amounts = [amount for records in read_exchange(storage, refs) for amount in records.value.to_pylist()]
    except (FileNotFoundError, CorruptDataError):
        return None
    return sum(_INT.decode(amount) for amount in amounts)


class Proof(NamedTuple):
    """What a program and its readers went through.

    Attributes:
        kills: how often the program was killed.
        readers: in how many commits each reader held the balances against what was on its way, and in how many of
            these something was.
    """

    kills: int
    readers: list[tuple[int, int]]


def prove(folder: Path, count: int, kills: int, seed: int = 4) -> Proof:
    """Have four processes read while a program goes through so many transfers and is killed so often, and hold what it
    comes to against an undisturbed run."""
    base = harness.prepared(folder / "base", count, Path(__file__))
    killed, calm = harness.copy_of(base, folder / "killed"), harness.copy_of(base, folder / "calm")
    readers = [harness.Program(killed, "--read", Path(__file__)) for _ in range(READERS)]
    try:
        times = harness.run_to_the_end(killed, "--local", ["driver"], kills, seed, Path(__file__))
        assert times > kills // 2, f"killed only {times} times"
        (killed / "done").touch()
        assert [reader.wait() for reader in readers] == [True] * READERS, "".join(one.errors() for one in readers)
    finally:
        for reader in readers:
            reader.kill_what_is_left()
    assert harness.Program(calm, "--local", Path(__file__)).wait()
    assert balances(killed) == balances(calm) != []
    told = [[int(number) for number in reader.lines[-1].split()] for reader in readers]
    return Proof(times, [(checked, on_the_way) for checked, on_the_way in told])


def keep(count: int, proof: Proof) -> None:
    """Keep what was gone through among the results of the benchmark."""
    import figures

    about = (
        f"{READERS} processes hold the balances of all partitions against what is on its way as of the same commit, "
        f"while the program that makes them is killed; by `make readers TRANSFERS={count}`."
    )
    rows = [
        figures.Row("transfers", f"{count}"),
        figures.Row("kills", f"{proof.kills}"),
        figures.Row("commits looked at, of all readers", f"{sum(checked for checked, _ in proof.readers)}"),
        figures.Row("of these, something was on its way", f"{sum(on_the_way for _, on_the_way in proof.readers)}"),
        figures.none_differed("commits whose sum"),
    ]
    figures.keep("READERS: readers while the writer is killed", about, rows)


def balances(folder: Path) -> list[Any]:
    return harness.outcome(folder, topology())["balances"]


def main() -> None:
    folder, mode, *rest = sys.argv[1:]
    if mode == "--fill":
        fill(FileLog(Path(folder) / "log"), int(rest[0]))
    elif mode == "--read":
        read(Path(folder))
    elif mode == "--prove":
        count, kills, *flags = rest
        proof = prove(Path(folder), int(count), int(kills))
        for checked, on_the_way in proof.readers:
            print(f"a reader held {checked} commits against what was on its way; in {on_the_way} something was")
        print(f"{proof.kills} kills, and no difference")
        if "--keep" in flags:
            keep(int(count), proof)
    else:
        program.run_local(Path(folder), topology(), **SETTINGS)
        print("done", flush=True)


if __name__ == "__main__":
    main()
