"""Errors of the checkpointer.

::

    CheckpointerError
    ├── ApiError
    │   ├── ApiAway       nothing answers: refused, reset, timed out, or a server error
    │   └── ApiUnknown    something answers, but not so that we may conclude anything
    ├── RuntimeUnknown the container runtime doesn't answer
    ├── Refused           this pod can't be made into a static pod
    └── StoreError        the node's disk disagrees
"""


class CheckpointerError(Exception):
    """Root of this package's errors."""


class ApiError(CheckpointerError):
    """The API server gave no usable answer."""


class ApiAway(ApiError):
    """No API server answers."""


class ApiUnknown(ApiError):
    """An answer came that proves nothing about the state of the control plane (certificate, permission, garbage)."""


class RuntimeUnknown(CheckpointerError):
    """The container runtime gave no usable answer, so nothing is known of what runs."""


class Refused(CheckpointerError):
    """The pod can't run without the API, so it can't be checkpointed.

    `reason` is a CamelCase word for the pod's condition.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class StoreError(CheckpointerError):
    """A file of ours can't be read or written."""
