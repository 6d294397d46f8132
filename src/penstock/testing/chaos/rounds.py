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
    """Hears how far it is; this one prints a line for each round."""

    def event(self, tally: Tally, round_: Round) -> None:
        """Something was done, besides what the tally has of the rounds before."""

    def say(self, text: str) -> None:
        print(text, flush=True)


class RoundFailedError(ChaosError):
    """A round failed; its message says which, and where its folder is."""

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
    """Take programs to their ends, round by round, while parts of them die; what was done to them.

    The decisions of a round are those of the seed and its number, whatever was before it; how far its program has come
    at each of them is up to the machine.

    Args:
        kills: after how many kills no other round begins.
        root: a folder for everything that is made; that of a round that fails stays as it is.
        only: the number of the one round to do.

    Raises:
        RoundFailedError: something came out differently, or a program ended as it must not.
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
