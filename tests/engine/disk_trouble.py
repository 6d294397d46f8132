"""Runs an application on a disk that is too small or read-only, then repairs the disk and runs it again.

python disk_trouble.py full|read-only FOLDER, in a mount namespace of its own
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from penstock import StreamsBuilder, Topology
from penstock.engine.commit.opening import open_application
from penstock.engine.local import LocalApplication
from penstock.errors import PenstockError
from penstock.log.consume import consume
from penstock.log.file.log import FileLog
from penstock.log.produce import produce
from penstock.query.committed import committed_store
from penstock.settings import Settings
from penstock.storage.base import LocalStorage

COUNT = 20_000


def topology() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", value=str).group_by_key().count("counts").to_stream().to("out")
    return builder.build()


def run(folder: Path) -> None:
    settings = Settings.load(environment={}, folder=folder, commit_max_bytes=100_000, chunk_records=1_000)
    log, storage = FileLog(folder / "log"), LocalStorage(folder / "checkpoint")
    application = LocalApplication(topology(), "app", settings, log, storage, folder / "tasks")
    application.run_until()
    application.close()


def outcome(folder: Path) -> tuple[list[object], list[object]]:
    settings = Settings.load(environment={}, folder=folder)
    log, storage = FileLog(folder / "log"), LocalStorage(folder / "checkpoint")
    with committed_store(open_application(topology(), "app", settings, log, storage), "counts") as store:
        return [tuple(record)[:2] for record in consume("out", log=log)], sorted(store.all())


def fill(folder: Path) -> None:
    produce(((f"key-{i % 3_000}", "x" * 50, i) for i in range(COUNT)), "in", value=str, log=FileLog(folder / "log"))


def mount(folder: Path, *options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)], check=True)


def main(trouble: str, folder: Path) -> None:
    well, ill = folder / "well", folder / "ill"
    for place in (well, ill):
        place.mkdir()
    mount(ill, "size=100m")
    for place in (well, ill):
        fill(place)
    run(well)
    if trouble == "full":
        (ill / "other files").write_bytes(bytes(shutil.disk_usage(ill).free - 1_000_000))
    else:
        subprocess.run(["mount", "-o", "remount,ro", str(ill)], check=True)
    try:
        run(ill)
        print("no error")
    except PenstockError as error:
        print(f"{type(error).__name__}: {error}".replace("\n", " "))
    subprocess.run(["mount", "-o", "remount,rw", str(ill)], check=True)
    (ill / "other files").unlink(missing_ok=True)
    run(ill)
    same = outcome(well) == outcome(ill)
    print("outputs and state equal those without trouble" if same else "DIFFERENT")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
