"""Topics that sinks choose record by record at run time."""

from __future__ import annotations

from contextlib import suppress

from penstock.errors import ConfigError, TopicExistsError
from penstock.log.base import Log, TopicInfo
from penstock.log.schema import new_topic, other_kind
from penstock.serdes import Serde, fits
from penstock.settings import Settings


class ChosenTopics:
    """The topics that a task's sinks choose at run time.

    Args:
        partitions: the partition counts of known topics; chosen ones are added.
    """

    def __init__(self, log: Log, partitions: dict[str, int], settings: Settings):
        self._log = log
        self._partitions = partitions
        self._settings = settings

    def partitions_of(self, topic: str, makes: bool, key: Serde, value: Serde) -> int:
        """Return the partition count of a topic. If it does not exist, create it when the sink may.

        Raises:
            TopicNotFoundError: it does not exist, and must not be created.
            ConfigError: it holds other types.
        """
        if topic not in self._partitions:
            if makes and not self._log.exists(topic):
                self._make(topic, key, value)
            self._partitions[topic] = self._checked(self._log.topic(topic), key, value)
        return self._partitions[topic]

    def _make(self, topic: str, key: Serde, value: Serde) -> None:
        count = self._settings.output_partitions or max(self._partitions.values(), default=1)
        with suppress(TopicExistsError):  # another task may have been faster
            self._log.create_topic(new_topic(topic, count, key, value))

    @staticmethod
    def _checked(info: TopicInfo, key: Serde, value: Serde) -> int:
        for what, held, serde in (("key", info.key, key), ("value", info.value, value)):
            if not fits(held, serde):
                raise ConfigError(
                    f"topic {info.name!r}, which was chosen for the record, holds {what}s of type {held}, and the sink "
                    f"writes {what}s of type {serde.name}"
                )
            if kinds := other_kind(info, what, serde):
                raise ConfigError(
                    f"topic {info.name!r}, which was chosen for the record, has {what}s of the schema {kinds[0]}, and "
                    f"the sink writes {what}s of {kinds[1]}. Choose a topic of that schema, or convert the {what}s"
                )
        return info.partitions
