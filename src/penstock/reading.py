"""State stores from any process. Importing Penstock imports only this file of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.usage.signatures import telling
from penstock.values.durations import Duration

if TYPE_CHECKING:
    from penstock.query.stores import AnyView
    from penstock.serdes import Serde
    from penstock.state.interface import IsolationLevel


@telling
def open_store(
    application: Path | str,
    name: str,
    key: Serde | type | None = None,
    value: Serde | type | None = None,
    max_age: Duration = 0,
    isolation_level: IsolationLevel | None = None,
) -> AnyView:
    """Open a state store of an application for reading. The application may run in another process, or be stopped.

    Each call reads the newest commit of the application; ``snapshot()`` stays at one commit. Threads may share the
    store. The store reads its own copy of the state, in the folder for temporary files, and does not disturb the
    application. Close the store, or use a ``with`` block, to remove the copy.

    Args:
        application: the application's id, if this process runs in the same folder; otherwise the checkpoint: a folder,
            or the URL of an object store.
        name: the store's name.
        key: the type or the serde of the keys, if the keys are JSON of a class (otherwise you get dicts), or if a serde
            of your own wrote them (otherwise you get bytes).
        value: the same for the values.
        max_age: how old the state may be that a call returns. A call that may return older state saves a look for a
            newer commit, which is a request to an object store.
        isolation_level: ``READ_UNCOMMITTED`` also returns the uncommitted writes of the running program, if it runs on
            this machine as the same user (KIP-892).

    Returns:
        A view of the store's kind: ``KeyValueView``, ``WindowView``, ``SessionView`` or ``VersionedView``.

    Raises:
        ConfigError: there is no such application, nothing is committed yet, or there is no such store.
        CorruptDataError: a file of the checkpoint is damaged or missing.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from penstock import StreamsBuilder, produce
    >>> from penstock.engine.local import LocalApplication  # as topology.start, without Spark
    >>> from penstock.log.file.log import FileLog
    >>> from penstock.settings import Settings
    >>> from penstock.storage.base import LocalStorage
    >>> builder = StreamsBuilder()
    >>> builder.stream("words", value=str).group_by(lambda key, word: word).count("counts").to_stream().to("out")
    >>> folder = Path(tempfile.mkdtemp())
    >>> log, commits = FileLog(folder / "log"), LocalStorage(folder / "checkpoint")
    >>> _ = produce([(None, "hello"), (None, "you"), (None, "hello")], "words", value=str, log=log)
    >>> app = LocalApplication(builder.build(), "app", Settings(), log, commits)
    >>> _ = app.run_until()
    >>> with open_store(folder / "checkpoint", "counts") as counts:
    ...     counts.get("hello"), [key for key, _, _ in counts.all()]
    (2, ['hello', 'you'])
    """
    from penstock.query.application import open_view

    return open_view(application, name, key, value, max_age, isolation_level)
