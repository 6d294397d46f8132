"""Programs under random kills: run to their end repeatedly while parts of them die, and compared with an undisturbed
run.

``penstock chaos`` does it with a user's program, ``make chaos`` with this project's own. ``rounds.py`` is the loop;
``round.py`` takes one program to its end. ``subject.py`` defines a program, ``recorded.py`` makes one from an
application's recorded input. ``processes.py`` starts and kills; ``torn.py`` damages files that nothing refers to yet;
``outcome.py`` has the results to compare.
"""
