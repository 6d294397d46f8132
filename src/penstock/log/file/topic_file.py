"""``topic.json``: what a topic is, with a checksum, written once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from penstock.errors import CorruptDataError
from penstock.log.base import TopicInfo
from penstock.storage import checksum, create_file


class _TopicFile(TopicInfo, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A topic's description as it lies on disk."""

    checksum: int = -1
    """That of the rest; -1 in a file that somebody wrote by hand."""

    def info(self) -> TopicInfo:
        return msgspec.convert(msgspec.structs.asdict(self), TopicInfo)


def create_topic_file(path: Path, info: TopicInfo) -> bool:
    """Write down what a topic is; False when it exists already."""
    fields = msgspec.structs.asdict(info)
    return create_file(path, msgspec.json.encode(_TopicFile(**fields, checksum=_checksum(info))))


def read_topic_file(path: Path) -> TopicInfo:
    """What a topic is; raises ``CorruptDataError``, and ``FileNotFoundError`` when there is no such topic."""
    try:
        stored = msgspec.json.decode(path.read_bytes(), type=_TopicFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, error) from None
    info = stored.info()
    if stored.checksum not in (-1, _checksum(info)):
        raise _damaged(path, "its checksum does not match")
    return info


def _checksum(info: TopicInfo) -> int:
    return checksum(msgspec.json.encode(info))


def _damaged(path: Path, reason: Any) -> CorruptDataError:
    return CorruptDataError(f"{path} is damaged: {reason}; restore it from a backup")
