"""Programs under random kills: run to their end again and again while parts of them die, and compared with a run that
nothing disturbed. ``penstock chaos`` does it with a user's program, ``make chaos`` with this project's own.

``rounds.py`` is the whole of it; ``round.py`` takes one program to its end; ``subject.py`` says what a program is,
``recorded.py`` makes one of an application's recorded input; ``processes.py`` starts and kills; ``torn.py`` damages
what nothing refers to yet; ``outcome.py`` is what is compared.
"""
