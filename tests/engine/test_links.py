"""The connection between driver and slots: only who knows the key is listened to, and nothing waits for ever."""

from __future__ import annotations

import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from penstock.engine.slots import slot
from penstock.engine.slots.links import (
    Address,
    Alive,
    Close,
    Done,
    Door,
    Hello,
    Link,
    LinkLostError,
    connected,
    readable,
)
from penstock.ops.core.functions import call_each

HELLO = Hello(0, 1)


@pytest.fixture
def door() -> Iterator[Door]:
    made = Door("127.0.0.1", "127.0.0.1", secrets.token_bytes(32), seconds=0.4)
    yield made
    made.close()


def come(door: Door, address: Address) -> tuple[tuple[Link, Hello] | None, list[Link | LinkLostError]]:
    """A slot comes to the door: whom the driver finds there, and what becomes of the slot."""
    became: list[Link | LinkLostError] = []

    def come_in() -> None:
        try:
            became.append(connected(address, HELLO, 2.0))
        except LinkLostError as error:
            became.append(error)

    thread = threading.Thread(target=come_in)
    thread.start()
    assert readable([door], 10) == [door]
    found = door.next()
    thread.join()
    return found, became


def test_an_order_goes_to_the_slot_and_its_answer_comes_back(door: Door):
    found, [slot] = come(door, door.address)
    assert found is not None
    assert isinstance(slot, Link)
    driver, hello = found
    assert hello == HELLO
    driver.send(Close())
    assert slot.order() == Close()
    slot.send(Done())
    assert readable([driver], 10) == [driver]
    assert driver.message() == Done()


def test_who_does_not_know_the_key_is_nobody(door: Door):
    found, [slot] = come(door, door.address._replace(key=b"another key"))
    assert found is None
    assert isinstance(slot, LinkLostError)


def test_the_key_is_not_shown(door: Door):
    assert repr(door.address.key) not in repr(door.address)


def test_who_says_nothing_at_the_door_does_not_keep_others_out(door: Door):
    with socket.create_connection(door.address[:2]):
        assert readable([door], 10) == [door]
        assert door.next() is None
        found, _ = come(door, door.address)
        assert found is not None


def test_half_a_message_is_a_lost_connection_and_not_a_wait(door: Door):
    found, [slot] = come(door, door.address)
    assert found is not None
    assert isinstance(slot, Link)
    driver, _ = found
    raw = socket.socket(fileno=slot.fileno())
    raw.sendall(struct.pack("!i", 1000) + b"a thousand bytes were promised")
    assert readable([driver], 10) == [driver]
    with pytest.raises(LinkLostError):
        driver.message()
    raw.detach()


def test_what_is_no_message_is_a_lost_connection(door: Door):
    found, [slot] = come(door, door.address)
    assert found is not None
    assert isinstance(slot, Link)
    driver, _ = found
    raw = socket.socket(fileno=slot.fileno())
    raw.sendall(struct.pack("!i", 4) + b"what")
    with pytest.raises(LinkLostError, match="JSON is malformed"):
        driver.message()
    raw.detach()


def test_an_end_that_is_closed_is_lost_at_once(door: Door):
    found, [slot] = come(door, door.address)
    assert found is not None
    assert isinstance(slot, Link)
    found[0].close()
    with pytest.raises(LinkLostError):
        slot.order()


def test_a_slot_at_work_says_with_each_beat_whether_it_has_come_further(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(slot, "_BEAT_SECONDS", 0.02)
    heard: list[Alive] = []
    link = SimpleNamespace(send=heard.append)

    def beats(work: Callable[[int], object]) -> list[bool]:
        heard.clear()
        with slot._Beating(link) as beating, beating.at_work():
            call_each(work, 5, range(5))
        return [alive.has_moved for alive in heard]

    assert beats(lambda number: time.sleep(0.05)).count(True) >= 4  # each call is a step further
    assert beats(lambda number: time.sleep(0.4 if number == 0 else 0)).count(True) <= 3  # it hangs in one of them
