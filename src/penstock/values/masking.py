"""Hides secrets in URLs: for errors, logs and all other output."""

from __future__ import annotations

import re

MASK = "****"

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
