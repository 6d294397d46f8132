"""Detects a log that is older than the checkpoint, because it was restored from an earlier copy.

Each manifest names the last commit that put results into each output. An output that lacks those results, though it is
the same topic, was restored from an older copy, alone or with the whole log. It is refused: otherwise results that
readers have already seen would silently disappear.
"""

from __future__ import annotations

from collections.abc import Collection

from penstock.engine.shared.manifest import Manifest
from penstock.errors import CorruptDataError
from penstock.log.base import Log


def check_outputs(log: Log, manifest: Manifest, outputs: Collection[str], producer: str, application_id: str) -> None:
    """Raise ``CorruptDataError`` when an output lacks results that a manifest says it has.

    Also when the manifest's own results can no longer be appended to it.
    """
    for topic in sorted(manifest.outputs.keys() & set(outputs)):
        commit = manifest.outputs[topic]
        if _is_same(log, topic, manifest) and log.lacks(topic, producer, commit):
            raise older(log, topic, producer, commit, application_id)
    for topic in sorted(manifest.sinks.keys() & set(outputs)):
        if _is_same(log, topic, manifest) and _is_lost(log, topic, producer, manifest):
            raise older(log, topic, producer, manifest.sequence, application_id)


def _is_same(log: Log, topic: str, manifest: Manifest) -> bool:
    known = manifest.topics.get(topic)
    return known is not None and log.exists(topic) and log.topic_id(topic) == known


def _is_lost(log: Log, topic: str, producer: str, manifest: Manifest) -> bool:
    """Return whether a manifest's results are neither in an output nor in files beside it.

    A crash leaves them beside it. Once they are in the output the files may be removed, so the files are looked for
    first.
    """
    return log.has_lost(topic, manifest.sinks[topic]) and log.last_sequence(topic, producer) < manifest.sequence


def older(log: Log, topic: str, producer: str, commit: int, application_id: str) -> CorruptDataError:
    """Return the error for an output that lacks the results of a commit and of all later ones."""
    ends = ", ".join(f"{end:,}" for end in log.end_offsets(topic))
    has = log.last_sequence(topic, producer)
    until = f"the results of application {application_id!r} up to commit {has}" if has >= 0 else "none of its results"
    return CorruptDataError(
        f"the log is older than the checkpoint: topic {topic!r} in {log.url} ends at {ends} and has {until}, but "
        f"commit {commit} wrote more into it. It was brought back from a copy that was made before. Nothing was "
        "changed, and the checkpoint is safe. Restore log and checkpoint from one back-up. If the results that the "
        f"topic had may be lost, remove it (penstock topics rm {topic}): the next start creates it again, and adds "
        f"only new results"
    )
