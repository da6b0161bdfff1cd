"""Whose turn it is on the device. Knows jobs by their accounts and seconds; no device, no tokens.

Fair queuing: an account is charged for the time its jobs had, divided by its share, and the job whose
account was charged least goes next. Who comes back after a pause starts level with the others: time not
used is not saved up.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from kogagent.errors import InputError

SLICE_S = 0.05
"""Seconds of its share by which a job that holds the device may be ahead of one that waits for it."""


class Account:
    """What a client of the device has had of it. priority: each step up doubles its share."""

    __slots__ = ("_priority", "charged", "weight")

    def __init__(self, priority: int = 0) -> None:
        self.charged = 0.0
        self.priority = priority

    @property
    def priority(self) -> int:
        return self._priority

    @priority.setter
    def priority(self, priority: int) -> None:
        if type(priority) is not int or not -8 <= priority <= 8:
            raise InputError(f"priority={priority!r} must be an integer in -8 .. 8")
        self._priority = priority
        self.weight = 2.0**priority


class Waiting(Protocol):
    """A job that has an account."""

    @property
    def account(self) -> Account: ...


J = TypeVar("J", bound=Waiting)


class Turns(Generic[J]):
    """Jobs that wait, the one to go next first; of equals the one that has waited longest."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, J]] = []
        self._number = 0
        self._now = 0.0  # what the job that ran last was charged

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[J]:
        return (job for _, _, job in self._heap)

    def come(self, job: J) -> None:
        """A job that was not here before."""
        job.account.charged = max(job.account.charged, self._now)
        self.wait(job)

    def wait(self, job: J) -> None:
        """A job waits for its next step."""
        self._number += 1
        heapq.heappush(self._heap, (job.account.charged, self._number, job))

    def next(self) -> J:
        """The job to run now."""
        while True:
            charged, number, job = heapq.heappop(self._heap)
            if job.account.charged > charged:  # another job of its account has run meanwhile
                heapq.heappush(self._heap, (job.account.charged, number, job))
                continue
            self._now = max(self._now, charged)
            return job

    def ran(self, job: J, seconds: float) -> None:
        """Charge a job for a step."""
        job.account.charged += seconds / job.account.weight

    def wants(self, job: J) -> bool:
        """Whether one that waits should have the device in place of this job, which holds it."""
        return bool(self._heap) and job.account.charged - self._heap[0][0] > SLICE_S
