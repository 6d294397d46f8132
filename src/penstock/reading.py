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
    """A state store of an application that runs in another process, or not at all, for reading.

    Each call shows the application's newest commit, ``snapshot()`` stays as it is. Threads may share the store. It has
    a copy of its own in the folder for temporary files; the application does not notice. Close it, or use it in a
    ``with`` block, to have the copy removed.

    Args:
        application: the application's id, in the folder in which it runs; or its checkpoint: a folder, or the URL of an
            object store.
        name: the store's name.
        key: the type of the keys, or a serde, where it is none of Penstock's own; they are bytes otherwise. A class
            whose JSON the keys are is given here, or they are dicts.
        value: the same of the values.
        max_age: how old the newest commit that is known may be before a call looks for a newer one; a look at an object
            store takes a request each time.
        isolation_level: ``READ_UNCOMMITTED`` asks the running program for what it has written and not committed, if it
            runs on this machine and as this user (KIP-892).

    Returns:
        A view such as ``KeyValueView``, ``WindowView``, ``SessionView`` or ``VersionedView``, by the store's kind.

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
