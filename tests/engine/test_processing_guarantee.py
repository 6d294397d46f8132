"""``processing_guarantee``: once exactly, or at least."""

from pathlib import Path

import pytest

from penstock import IsolationLevel, StateStoreContext
from penstock.errors import ConfigError
from penstock.settings import Settings


def test_it_is_exactly_once_unless_told_otherwise():
    assert not Settings().at_least_once
    assert Settings.load(environment={"PENSTOCK_PROCESSING_GUARANTEE": "at_least_once"}).at_least_once


@pytest.mark.kip("KS-19")
def test_kafkas_name_of_exactly_once_means_the_same():
    settings = Settings(processing_guarantee="exactly_once_v2")
    assert not settings.at_least_once
    context = StateStoreContext("shop", "0_0", Path("stores"), settings.app_configs())
    assert context.app_configs["processing_guarantee"] == "exactly_once_v2"
    assert context.isolation_level is IsolationLevel.READ_COMMITTED


@pytest.mark.kip("KS-19")
def test_the_isolation_level_of_a_guarantee_that_there_is_not_is_refused():
    with pytest.raises(ConfigError, match="one of exactly_once, exactly_once_v2, at_least_once; got 'exactly-once'"):
        IsolationLevel.of("exactly-once")


def test_another_one_is_refused():
    with pytest.raises(
        ConfigError, match="must be one of exactly_once, exactly_once_v2, at_least_once; got 'at_most_once'"
    ):
        Settings(processing_guarantee="at_most_once")
