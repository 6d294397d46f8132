"""Hides secrets in URLs: for errors, logs and all other output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from penstock.errors import PenstockError

MASK = "****"
_LONGEST_ERROR = 600

SECRET_NAME = re.compile(r"password|passwd|secret|token|credential|key|sig", re.IGNORECASE)
_USER = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_PARAMETER = re.compile(r"([?&;]([^=&;\s?]+)=)([^&;\s]+)")


def masked(text: str) -> str:
    """Return a text with the secrets masked in every URL in it.

    >>> masked("cannot read s3://key:secret@bucket/app?region=eu&secret_access_key=abc today")
    'cannot read s3://****@bucket/app?region=eu&secret_access_key=**** today'
    """
    text = _USER.sub(MASK, text)
    return _PARAMETER.sub(lambda part: part[1] + (MASK if SECRET_NAME.search(part[2]) else part[3]), text)


def masked_error(error: BaseException, secrets: Iterable[str]) -> str:
    """Return an error as one line of text, without these secrets and those in URLs.

    >>> masked_error(ValueError("no entry\\n for s3cret at http://me:pw@host."), ["s3cret"])
    'ValueError: no entry for **** at http://****@host'
    """
    text = str(error) if isinstance(error, PenstockError) else f"{type(error).__name__}: {error}"
    for secret in secrets:
        text = text.replace(secret, MASK) if secret else text
    return masked(" ".join(text.split()))[:_LONGEST_ERROR].rstrip(". ")


def secret_values(settings: Mapping[str, str]) -> list[str]:
    """Return the values of settings whose names say that they are secrets.

    >>> secret_values({"AWS_REGION": "eu", "AWS_SECRET_ACCESS_KEY": "abc"})
    ['abc']
    """
    return [value for name, value in settings.items() if SECRET_NAME.search(name)]
