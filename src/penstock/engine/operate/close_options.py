"""How an application stops: for how long to wait, and Kafka's choices about consumer groups."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from penstock.errors import ConfigError
from penstock.plan.options import Options, option
from penstock.values.durations import Duration, to_ms


class GroupOperation(Enum):
    """The fate of a member of a consumer group when an application stops (KIP-1153, KIP-1284)."""

    DEFAULT = "default"
    """As the group's protocol has it."""
    LEAVE_GROUP = "leave_group"
    REMAIN_IN_GROUP = "remain_in_group"


@dataclass(frozen=True)
class CloseOptions(Options):
    """How ``Streams.stop`` stops an application, as in Kafka Streams.

    Penstock assigns partitions itself, without a consumer group, so all group operations have the same effect.

    >>> CloseOptions.timeout("30 s").with_group_membership_operation(CloseOptions.DEFAULT).timeout_ms
    30000
    """

    timeout_ms: int | None = None
    operation: GroupOperation = GroupOperation.DEFAULT

    GroupMembershipOperation: ClassVar[type[GroupOperation]] = GroupOperation
    DEFAULT: ClassVar[GroupOperation] = GroupOperation.DEFAULT
    LEAVE_GROUP: ClassVar[GroupOperation] = GroupOperation.LEAVE_GROUP
    REMAIN_IN_GROUP: ClassVar[GroupOperation] = GroupOperation.REMAIN_IN_GROUP

    def __post_init__(self) -> None:
        if not isinstance(self.operation, GroupOperation):
            raise ConfigError(
                "a group operation is CloseOptions.DEFAULT, CloseOptions.LEAVE_GROUP or CloseOptions.REMAIN_IN_GROUP; "
                f"got {self.operation!r}"
            )

    @option
    def timeout(self, timeout: Duration) -> CloseOptions:
        """Wait for so long at most."""
        return self._but(timeout_ms=to_ms(timeout, "timeout"))

    with_timeout = timeout

    @option
    def group_membership_operation(self, operation: GroupOperation) -> CloseOptions:
        """With one of Kafka's choices about consumer groups, which are the same here."""
        return self._but(operation=operation)

    with_group_membership_operation = group_membership_operation


def timeout_of(given: Duration | CloseOptions | GroupOperation | None) -> float | None:
    """Return the seconds that ``stop`` waits at most; None to wait until it is done.

    >>> timeout_of("2 s"), timeout_of(CloseOptions.timeout("3 s")), timeout_of(CloseOptions.DEFAULT)
    (2.0, 3.0, None)
    """
    if given is None or isinstance(given, GroupOperation):
        return None
    if isinstance(given, CloseOptions):
        return None if given.timeout_ms is None else given.timeout_ms / 1000
    return to_ms(given, "timeout") / 1000
