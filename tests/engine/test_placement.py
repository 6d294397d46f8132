"""Where slots live while executors come, go and stall: simulated, with seeds."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from penstock.engine.slots.placement import Executor, Placement

RUNS = 300
"""Seeds that the suite tries; 10,000 were tried by hand."""


def executors(*ids: str) -> list[Executor]:
    return [Executor(id_, f"machine-{id_}") for id_ in ids]


def placed(slots: int, *ids: str) -> Placement:
    placement = Placement(slots)
    while not placement.fits(executors(*ids)):
        placement.settle(executors(*ids))
    return placement


def ids(placement: Placement) -> str:
    return "".join(home.id for home in placement.homes.values())


def test_nothing_moves_while_nobody_comes_or_goes():
    placement = placed(8, "a", "b", "c")
    before = ids(placement)
    for order in ("abc", "cba", "bca"):
        assert placement.fits(executors(*order))
        placement.settle(executors(*order))
        assert ids(placement) == before


def test_of_an_executor_that_is_gone_the_slots_go_where_there_are_fewest_and_no_other_moves():
    placement = placed(8, "a", "b", "c", "d")
    before = ids(placement)
    placement.settle(executors("a", "b", "c"))
    assert [now for now, was in zip(ids(placement), before, strict=True) if was != "d"] == list(before.replace("d", ""))
    assert sorted(Counter(ids(placement)).values()) == [2, 3, 3]


def test_a_slot_goes_back_to_the_machine_that_has_its_state_though_the_executor_is_a_new_one():
    placement = placed(8, "a", "b")
    before = ids(placement)
    placement.settle(executors("a"))
    anew = [Executor("a", "machine-a"), Executor("n", "machine-b")]
    while not placement.fits(anew):
        placement.settle(anew)
    assert ids(placement).replace("n", "b") == before


def test_only_so_many_move_at_a_time_to_an_executor_that_comes():
    placement = placed(16, "a")
    seen = []
    while not placement.fits(executors("a", "b")):
        placement.settle(executors("a", "b"))
        seen.append(ids(placement).count("b"))
    assert seen == [4, 8]


def test_slots_that_wait_for_room_get_it_from_spark_and_nothing_is_moved_for_an_executor_that_comes():
    placement = placed(4, "a")
    placement.found(dict(zip([0, 2], executors("a", "a"), strict=True)))
    assert placement.fits(executors("a", "b"))
    assert not placement.fits(executors("b"))
    placement.found(dict(zip([0, 2, 1], executors("a", "a", "b"), strict=True)))
    assert placement.fits(executors("a", "b"))
    placement.found(dict(zip([0, 2, 1, 3], executors("a", "a", "b", "c"), strict=True)))
    assert ids(placement) == "abac"
    assert placement.fits(executors("a", "b", "c"))


def test_each_slot_is_followed_on_another_machine_and_none_where_there_is_only_one():
    placement = Placement(4, copies=True)
    placement.settle(executors("a"))
    assert placement.followers == {}
    machine = [Executor("a", "machine"), Executor("b", "machine")]
    placement.settle(machine)
    assert placement.followers == {}
    placement = Placement(4, copies=True)
    placement.settle(executors("a", "b"))
    assert ids(placement) == "abab"
    assert placement.followers == {0: 1, 1: 0, 2: 3, 3: 2}
    before = dict(placement.followers)
    placement.settle(executors("a", "b"))
    assert placement.followers == before  # or each would begin anew


def test_slots_go_where_their_copies_are_though_another_executor_has_fewer():
    placement = Placement(5, copies=True)
    placement.settle(executors("a", "b", "c"))
    assert ids(placement) == "abcab"
    assert "".join(ids(placement)[placement.followers[slot]] for slot in range(5)) == "baaca"
    for slot in range(5):
        placement.copied(slot)
    placement.settle(executors("a", "c"))
    assert ids(placement) == "aacca", "1 and 4 are where their copies are, and 3 went to its own to even loads out"


def test_an_executor_that_is_back_on_the_slots_own_machine_is_as_good_as_the_copy():
    placement = Placement(2, copies=True)
    placement.settle([Executor("1", "machine-a"), Executor("2", "machine-b")])
    placement.copied(0)
    placement.settle([Executor("3", "machine-a"), Executor("2", "machine-b")])
    assert ids(placement) == "32"


@dataclass
class Machine:
    """A process of an executor, which may sleep and take itself for the owner of slots all the while."""

    executor: Executor
    sleeps: int = 0
    owned: dict[int, int] = field(default_factory=dict)
    """The slots that it was given, and in which job."""


class Cluster:
    """Executors that come, go and stall, and a driver that gives slots to them, a job at a time, as ``SlotSessions``
    does: whoever comes with the number of another job is sent away."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.placement = Placement(self.random.choice([2, 3, 8, 16]), copies=self.random.random() < 0.5)
        self.machines = {name: Machine(Executor(name, f"host-{name[0]}")) for name in ("a0", "b0")}
        self.job = 0
        self.born = 1

    @property
    def live(self) -> list[Executor]:
        return [one.executor for one in self.machines.values()]

    def step(self) -> None:
        """Something happens; then the driver looks."""
        self.random.choice([self.come, self.go, self.stall, self.stall, lambda: None])()
        for machine in self.machines.values():
            machine.sleeps = max(machine.sleeps - 1, 0)
        if self.live and (not self.placement.homes or not self.placement.fits(self.live)):
            self.placement.settle(self.live)
            self.begin_job()

    def begin_job(self) -> None:
        self.job += 1
        for machine in self.machines.values():
            if not machine.sleeps:
                machine.owned.clear()  # it was told to let go
        for slot, home in self.placement.homes.items():
            self.machines[home.id].owned[slot] = self.job

    def come(self) -> None:
        if len(self.machines) < 6:
            executor = Executor(f"{self.random.choice('abcdef')}{self.born}", "")
            self.born += 1
            self.machines[executor.id] = Machine(executor._replace(host=f"host-{executor.id[0]}"))

    def go(self) -> None:
        if len(self.machines) > 1:
            del self.machines[self.random.choice(sorted(self.machines))]

    def stall(self) -> None:
        machine = self.machines[self.random.choice(sorted(self.machines))]
        machine.sleeps = self.random.randint(1, 4)

    def owners(self, slot: int) -> list[str]:
        """Whom the driver would take an answer from."""
        return [name for name, one in self.machines.items() if one.owned.get(slot) == self.job]


def run(seed: int) -> None:
    cluster = Cluster(seed)
    for _ in range(25):
        homes, live = cluster.placement.homes, set(cluster.live)
        cluster.step()
        placement, after = cluster.placement, cluster.placement.homes
        slots = range(placement.slots)
        assert [len(cluster.owners(slot)) for slot in slots] == [1] * placement.slots  # after one look, at every time
        could_stay = [slot for slot in slots if homes and homes[slot] in cluster.live]
        moved = [slot for slot in could_stay if after[slot] != homes[slot]]
        assert len(moved) <= placement.moves
        loads = [list(homes.values()).count(one) for one in live]
        if homes and set(cluster.live) == live and max(loads) - min(loads) <= 1:
            assert after == homes
        for slot, follower in placement.followers.items():
            assert after[slot].host != after[follower].host
            placement.copied(slot)
        is_wide = len({home.host for home in after.values()}) > 1
        assert len(placement.followers) == (placement.slots if placement.copies and is_wide else 0)
    for _ in range(placement.slots // placement.moves + 1):  # then nobody comes or goes
        placement.settle(cluster.live)
    loads = [list(placement.homes.values()).count(one) for one in cluster.live]
    assert max(loads) - min(loads) <= 1
    assert placement.fits(cluster.live)


@pytest.mark.parametrize("part", range(4))
def test_no_slot_has_two_owners_or_none_and_loads_even_out_whatever_comes_and_goes(part: int):
    for seed in range(part, RUNS, 4):
        run(seed)
