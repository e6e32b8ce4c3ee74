"""What can go wrong.

.. code-block:: text

    GuardError
    ├── UsageError        a flag, or a file that it names, can't be used
    ├── ApiAway           nothing answered, or it can't answer now: asking again may help
    │   ├── AnswerTooLarge  a page of a list, for which fewer objects have to be asked
    │   └── NotNow          429: the API server, or a webhook that it asks, refuses it for now
    ├── GroupLocked       another process has the lock of a group of StatefulSets
    ├── LoadBalancerAway  a load balancer doesn't answer, or not as it should
    └── ApiRefused        the API server has answered no
        ├── NotFound      404, by the API server's own word
        ├── Conflict      409: the object is another one by now, or exists already
        └── VersionGone   410: the moment that was asked for is forgotten
"""

from __future__ import annotations

__all__ = [
    "AnswerTooLarge",
    "ApiAway",
    "ApiRefused",
    "Conflict",
    "GroupLocked",
    "GuardError",
    "LoadBalancerAway",
    "NotFound",
    "NotNow",
    "UsageError",
    "VersionGone",
]


class GuardError(Exception):
    """The message says what, which object, and why."""


class UsageError(GuardError):
    """A flag, or a file that it names, can't be used."""


class ApiAway(GuardError):
    """Nothing answered, or it can't answer now: asking again may help."""


class AnswerTooLarge(ApiAway):
    """A page of a list has more bytes than are read at a time, or doesn't come in time: ask for fewer objects."""


class NotNow(ApiAway):
    """429: the API server, or a webhook that it asks, refuses it for now. Nothing was done."""


class GroupLocked(GuardError):
    """Another process has the lock of a group of StatefulSets; the message names it, as a sentence's subject."""


class LoadBalancerAway(GuardError):
    """A load balancer doesn't answer, or not as it should: what it does is unknown."""


class ApiRefused(GuardError):
    """The API server has answered no; `status` is HTTP's."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class NotFound(ApiRefused):
    """There is no such object: the API server says so, and not a proxy before it."""


class Conflict(ApiRefused):
    """The object is another one by now, or exists already."""


class VersionGone(ApiRefused):
    """The moment that was asked for is forgotten: everything has to be read again."""
