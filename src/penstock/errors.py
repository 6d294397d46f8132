"""Every error Penstock raises, as one tree; catch a family or a leaf.

PenstockError
├── ConfigError            a setting or an argument is wrong; nothing was started
├── NoSuchElementError     a test reads a record that is not there
├── TopologyError          the topology cannot be built (Kafka's name ``TopologyException`` is an alias)
├── SerdeError             a value does not fit its serde
├── RegistryError          a schema registry is out of reach, or refuses; what is committed is safe
├── ProcessingError        a record failed: it did not decode, or a user's function raised
│   └── BufferFullError    a suppression holds more than it may
├── LogError               a topic cannot be created, read or written
│   ├── RefusedRecordError a topic does not take a record: its size, its time, or that it has no key
│   ├── TopicNotFoundError
│   ├── TopicExistsError
│   ├── OffsetOutOfRangeError
│   └── CorruptDataError   a checksum does not match, or a file is torn or missing
├── StoreError             a state store cannot be opened, read or written
└── CommitError            a commit did not happen; what was committed before is safe
    ├── AlreadyRunningError   another program runs under this application id on this machine
    ├── FencedError           another program has taken over this application id
    └── SparkLostError        Spark's JVM is gone, or its session was stopped

Warnings are of ``PenstockWarning``, and are shown once where a topology is built:

PenstockWarning
└── PartitioningWarning    a processor's store may have the rows of one key in several partitions
"""

from __future__ import annotations


class PenstockError(Exception):
    """The root of all errors of this library."""


class ConfigError(PenstockError, ValueError):
    """A setting or an argument is wrong."""


class NoSuchElementError(PenstockError, LookupError):
    """A test driver's output topic was asked for a record, and has none that was not read yet."""


class TopologyError(PenstockError):
    """The topology cannot be built as asked."""


TopologyException = TopologyError


class SerdeError(PenstockError):
    """A value does not fit its serde."""

    got: type | None = None
    """The type of the value, where that is what is wrong with it."""
    shown: str = ""
    """That value, as messages show it."""


class RegistryError(PenstockError):
    """A schema registry is out of reach, or does not let this user in: no fault of a record, so none is left out."""


class ProcessingError(PenstockError):
    """A record failed while it was processed; nothing of its batch was committed."""


class BufferFullError(ProcessingError):
    """A suppression would hold more than it may (``shut_down_when_full``); nothing is lost."""


class LogError(PenstockError):
    """A topic cannot be created, read or written."""


class RefusedRecordError(LogError):
    """A topic does not take a record, by its own settings."""

    way_out: str = ""
    """What to do about it."""


class TopicNotFoundError(LogError):
    """The topic does not exist."""


class TopicExistsError(LogError):
    """The topic exists already."""


class OffsetOutOfRangeError(LogError):
    """The offset asked for was removed by retention, does not exist yet, or is that of a topic made anew since."""


class CorruptDataError(LogError):
    """A file is missing, torn or does not match its checksum."""


class StoreError(PenstockError):
    """A state store cannot be opened, read or written."""

    unwritable: str = ""
    """The file for which its disk has no room, or whose disk cannot be written; empty for all else."""


class CommitError(PenstockError):
    """A commit did not happen; everything committed before is safe."""


class AlreadyRunningError(CommitError):
    """Another program runs under this application id on this machine."""


class FencedError(CommitError):
    """Another program has taken over this application id."""


class SparkLostError(CommitError):
    """Spark's JVM is gone, or its session was stopped; start again."""


class PenstockWarning(UserWarning):
    """The root of all warnings of this library about programs that run, and may not do what is meant."""


class PartitioningWarning(PenstockWarning):
    """A processor with a store gets records that do not lie in the partitions of their keys."""
