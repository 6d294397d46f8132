"""Tells that a fast path does not fit."""


class Unfit(Exception):
    """These values go record by record."""
