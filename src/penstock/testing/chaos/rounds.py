"""Rounds of chaos until so many processes were killed."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

from penstock.testing.chaos.round import Round, Tally
from penstock.testing.chaos.subject import ChaosError, Subject

_MOST_ROUNDS = 100_000


class Teller:
    """Reports progress; this one prints a line for each round."""

    def event(self, tally: Tally, round_: Round) -> None:
        """An event has happened that the tally of earlier rounds does not include."""

    def say(self, text: str) -> None:
        print(text, flush=True)


class RoundFailedError(ChaosError):
    """A round failed; its message names it and its folder."""

    def __init__(self, seed: int, number: int, round_: Round, error: BaseException):
        self.seed, self.number, self.round, self.error = seed, number, round_, error
        super().__init__(
            f"seed {seed}, round {number}: {round_.subject.name} on {round_.mode}, in {round_.folder}\n"
            f"  {', '.join(round_.events)}\n{error}"
        )


def chaos(
    subjects: Sequence[Subject],
    kills: int,
    seed: int,
    modes: Sequence[str],
    root: Path,
    teller: Teller | None = None,
    only: int | None = None,
) -> Tally:
    """Take programs to their ends, round by round, while parts of them die. Return what was done to them.

    A round's decisions depend only on the seed and its number. How far its program is at each of them depends on the
    machine.

    Args:
        kills: after how many kills no other round begins.
        root: a folder for all files; that of a failed round stays unchanged.
        only: the number of the single round to run.

    Raises:
        RoundFailedError: a result differs, or a program ended in a way that is not allowed.
    """
    told, sum_ = teller or Teller(), Tally()
    for number in range(1, _MOST_ROUNDS) if only is None else (only,):
        rng = random.Random(f"{seed}/{number}")
        mode = rng.choice(list(modes))
        subject = rng.choice([one for one in subjects if mode in one.modes])
        if subject.expected is None:
            subject.make_base(root)
        folder = root / f"round-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        one = Round(
            subject, mode, subject.copy(folder), rng, min(kills, rng.randint(3, 25)), lambda it: told.event(sum_, it)
        )
        try:
            one.run()
            subject.compare(folder)
            after = subject.afterwards(folder, rng)
        except (Exception, ChaosError) as error:
            raise RoundFailedError(seed, number, one, error) from error
        sum_.add(one.done)
        shutil.rmtree(folder)
        also = f"; {after}" if after else ""
        told.say(f"round {number}: {subject.name} on {mode}: {dict(one.done.killed)}{also}; {sum_.kills} kills in all")
        if sum_.kills >= kills:
            break
    return sum_
