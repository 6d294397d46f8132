"""How an application stops, as Kafka Streams says it."""

from __future__ import annotations

import pytest

from penstock import CloseOptions
from penstock.engine.operate.close_options import timeout_of
from penstock.errors import ConfigError

pytestmark = pytest.mark.kip("44-06")


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (None, None),
        ("2 s", 2.0),
        (CloseOptions.timeout("30 s"), 30.0),
        (CloseOptions.DEFAULT, None),
        (CloseOptions.group_membership_operation(CloseOptions.DEFAULT).with_timeout(500), 0.5),
        (CloseOptions.group_membership_operation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP), None),
    ],
)
def test_stop_waits_as_long_as_the_options_say(given, seconds):
    assert timeout_of(given) == seconds


def test_what_is_no_group_operation_is_refused():
    with pytest.raises(ConfigError, match=r"is CloseOptions\.DEFAULT, CloseOptions\.LEAVE_GROUP or"):
        CloseOptions.group_membership_operation("leave")
