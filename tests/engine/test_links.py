"""The connection between driver and slots: only who knows the key is listened to, and nothing waits for ever."""

from __future__ import annotations

import secrets
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from types import SimpleNamespace

import pytest

from penstock.engine.slots import slot
from penstock.engine.slots.arrivals import Arrivals, Asked
from penstock.engine.slots.door import Door
from penstock.engine.slots.links import Address, Alive, Close, Done, Hello, Link, LinkLostError, connected, readable
from penstock.engine.task.live import StoreAnswer, StoreQuestion
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
            became.append(connected(address, HELLO, 5.0))
        except LinkLostError as error:
            became.append(error)

    thread = threading.Thread(target=come_in)
    thread.start()
    thread.join()
    if isinstance(became[0], Link):
        assert readable([door], 10) == [door]
    return door.next(), became


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


@pytest.mark.kip("892-12")
def test_an_answer_that_comes_too_late_is_not_taken_for_the_answer_to_the_next_question(door: Door):
    """The door's links wait 0.4 s; the answer with the rows of one store must not be read as those of another."""
    found, [slot] = come(door, door.address)
    assert found is not None
    assert isinstance(slot, Link)
    asked = Asked(found[0])
    assert asked.ask(StoreQuestion("0_0", "sessions", "rows")) is None
    slot.send(StoreAnswer(True, b"rows of sessions"))
    assert asked.ask(StoreQuestion("0_0", "versions", "rows")) is None


def test_who_does_not_know_the_key_is_nobody(door: Door):
    found, [slot] = come(door, door.address._replace(key=b"another key"))
    assert found is None
    assert isinstance(slot, LinkLostError)


def test_the_key_is_not_shown(door: Door):
    assert repr(door.address.key) not in repr(door.address)


def test_who_says_nothing_at_the_door_does_not_keep_others_out(door: Door):
    with socket.create_connection(door.address[:2]):
        found, _ = come(door, door.address)
        assert found is not None


@pytest.fixture
def patient() -> Iterator[Door]:
    """With the time that handshakes have in a program."""
    made = Door("127.0.0.1", "127.0.0.1", secrets.token_bytes(32), seconds=60.0)
    yield made
    made.close()


def test_who_drips_bytes_at_the_door_keeps_nobody_out(patient: Door):
    with ExitStack() as open_ones:
        for _ in range(5):
            stranger = open_ones.enter_context(socket.create_connection(patient.address[:2]))
            stranger.sendall(struct.pack("!i", 256) + b"x")
        began = time.monotonic()
        found, _ = come(patient, patient.address)
        assert found is not None
        assert time.monotonic() - began < 2


def test_a_handshake_has_one_deadline_however_often_somebody_says_something(door: Door):
    with socket.create_connection(door.address[:2]) as stranger:
        stranger.sendall(struct.pack("!i", 256))
        began = time.monotonic()
        with suppress(OSError):  # the other end is gone
            while time.monotonic() < began + 10:
                stranger.sendall(b"x")
                time.sleep(0.05)
        assert time.monotonic() - began < 2  # and not 0.4 s for each byte
    assert readable([door], 0) == []


def test_a_crowd_at_the_door_keeps_a_slot_waiting_for_a_moment_only(patient: Door):
    with ExitStack() as open_ones:
        for _ in range(150):
            open_ones.enter_context(socket.create_connection(patient.address[:2]))
        began = time.monotonic()
        found, _ = come(patient, patient.address)
        assert found is not None
        assert time.monotonic() - began < 5  # two crowds of 64 go, after a second each


def test_a_hundred_strangers_have_64_handshakes_at_once_and_a_slot_still_comes_in(patient: Door):
    came: list[tuple[Link, Hello] | None] = []
    slot = threading.Thread(target=lambda: came.append(come(patient, patient.address)[0]))
    with ExitStack() as open_ones:
        strangers = [open_ones.enter_context(socket.create_connection(patient.address[:2])) for _ in range(100)]
        ends = select.poll()
        for stranger in reversed(strangers):  # the first ones are sent away first, so none is counted beside its heir
            ends.register(stranger, select.POLLIN | select.POLLRDHUP)
        slot.start()
        most = 0
        while slot.is_alive():
            most = max(most, sum(event == select.POLLIN for _, event in ends.poll(0)))  # challenged, and not sent away
            time.sleep(0.01)
    assert most == 64
    assert came[0] is not None


def test_a_closed_door_leaves_no_thread_and_nobody_waiting():
    before = set(threading.enumerate())
    door = Door("127.0.0.1", "127.0.0.1", secrets.token_bytes(32), seconds=0.4)
    assert "penstock door" in {one.name for one in set(threading.enumerate()) - before}
    with socket.create_connection(door.address[:2]) as stranger:
        assert stranger.recv(4)  # the challenge is on its way
        door.close()
        stranger.settimeout(5)
        while stranger.recv(100):
            pass
    assert not [one for one in set(threading.enumerate()) - before if one.name == "penstock door"]


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


def test_a_second_process_of_a_slot_waits_until_the_job_ends():
    """As a copy by Spark's speculation: if it ended well, Spark would end the first one."""
    with closing(Door("127.0.0.1", "127.0.0.1", secrets.token_bytes(32), seconds=10)) as door:
        arrivals = Arrivals(door, 1, asks=False)
        processes = []
        for _ in range(2):
            processes.append(connected(door.address, HELLO, 10.0))
            assert arrivals.welcome(HELLO.job, 10.0)
        assert (arrivals.count, arrivals.ready) == (1, {0})
        arrivals.links[0].send(Close())
        assert isinstance(processes[0].order(), Close)
        assert not processes[1].has_more()
        arrivals.clear()
        for one in processes:
            with pytest.raises(LinkLostError):
                one.order()
            one.close()
