"""Forked processes: what a child is left without. Knows none of those who ask."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

count = 0
"""Forks of which this process is the outcome: tells a child as `os.getpid()` does, and asks no system."""


class Stranded(Protocol):
    """What is of no use in a forked child: its thread is in the parent, and so is the right to its files."""

    def leave_to_parent(self) -> None:
        """Refuse every use from now on. Locks may be held by threads that are not here."""


_stranded: weakref.WeakSet[Stranded] = weakref.WeakSet()


def leave_to_parent(one: Stranded) -> None:
    """Have a child that is forked from now on call `one.leave_to_parent()` first of all. `one` is not kept
    alive."""
    _stranded.add(one)


def _in_child() -> None:
    global count
    count += 1
    for one in list(_stranded):
        one.leave_to_parent()


if hasattr(os, "register_at_fork"):  # else there is no forking
    os.register_at_fork(after_in_child=_in_child)
