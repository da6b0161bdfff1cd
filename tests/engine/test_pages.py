"""Memory that forks share until they differ: each reads what was written for it, whoever else writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from kogagent.engine.backends.pages import Pages

ROWS, WIDTH = 96, 512  # a row is half a page: borders fall inside pages
SIZE = ROWS * WIDTH * 4


@dataclass
class Log:
    """A cache of rows over pages, and what it must hold."""

    pages: Pages
    rows: list[int]

    @property
    def memory(self) -> npt.NDArray[np.int32]:
        found: npt.NDArray[np.int32] = self.pages.array((ROWS, WIDTH), np.int32)
        return found

    def append(self, values: list[int]) -> None:
        self.pages.write(len(self.rows))
        for value in values:
            self.memory[len(self.rows)] = value
            self.rows.append(value)
        self.pages.wrote(len(self.rows))

    def fork(self) -> Log:
        pages, start = self.pages.fork(len(self.rows))
        other = Log(pages, list(self.rows))
        if start < len(self.rows):
            pages.write(start)
            other.memory[start : len(self.rows)] = self.memory[start : len(self.rows)]
            pages.wrote(len(self.rows))
        return other

    def check(self) -> None:
        found = self.memory[: len(self.rows)]
        assert (found == np.array(self.rows, np.int32)[:, None]).all(), "a row is not what was written"


@pytest.fixture(params=[True, False], ids=["file", "plain"])
def first(request: pytest.FixtureRequest) -> Iterator[Log]:
    log = Log(Pages(SIZE, file=request.param), [])
    yield log
    log.pages.close()


def test_any_order_of_writes_forks_rewinds_and_ends(first: Log, rng: np.random.Generator) -> None:
    logs = [first]
    for step in range(400):
        log = logs[int(rng.integers(len(logs)))]
        what = rng.random()
        if what < 0.55:
            room = ROWS - len(log.rows)
            log.append([step + 1] * int(rng.integers(0, min(room, 9) + 1)))
        elif what < 0.75:
            del log.rows[int(rng.integers(0, len(log.rows) + 1)) :]
        elif what < 0.9 and len(logs) < 7:
            logs.append(log.fork())
        elif len(logs) > 1:
            logs.remove(log)
            log.pages.close()
        for one in logs:
            one.check()
    for log in logs:
        log.pages.close()
        log.pages.close()


def test_the_longest_lived_forks_go_on_after_the_first_is_gone(rng: np.random.Generator) -> None:
    first = Log(Pages(SIZE), [])
    first.append([int(i) for i in rng.integers(1, 99, 40)])
    one, other = first.fork(), first.fork()
    first.pages.close()
    one.append([7] * 20)
    del other.rows[11:]
    other.append([8] * 30)
    third = one.fork()
    one.pages.close()
    for log in (other, third):
        log.check()
        log.pages.close()


def pages_that_share() -> Pages:
    pages = Pages(SIZE)
    if len(pages.parts) == 1 and pages.parts[0][0] == id(pages):
        pytest.skip("no memory files here: forks copy")
    return pages


def test_forks_of_a_fork_that_shares_little_share_all_of_a_copy() -> None:
    pages = pages_that_share()
    first = Log(pages, [])
    first.append([1] * 40)
    child = first.fork()
    del child.rows[10:]
    child.append([2] * 60)
    copy = child.fork()  # 60 of its 70 rows are in the child's own pages
    held = {part: rows for log in (first, child, copy) for part, rows in log.pages.parts}
    assert sorted(held.values()) == [60, 70, 70]
    forks = [copy.fork() for _ in range(3)]
    held |= {part: rows for log in forks for part, rows in log.pages.parts}
    assert sorted(held.values()) == [0, 0, 0, 60, 70, 70], "no row was copied again"
    for log in (first, child, copy, *forks):
        log.check()
        log.pages.close()


def test_what_is_held_counts_a_shared_part_once() -> None:
    pages = pages_that_share()
    first = Log(pages, [])
    first.append([1] * 40)
    forks = [first.fork() for _ in range(3)]
    held = {part: rows for log in (first, *forks) for part, rows in log.pages.parts}
    assert sum(held.values()) == 40, "a fork that wrote nothing holds nothing"
    forks[0].append([2] * 5)
    first.append([3] * 6)  # past the end of its forks: into the file
    held = {part: rows for log in (first, *forks) for part, rows in log.pages.parts}
    assert sorted(held.values()) == [0, 0, 5, 46]
    for log in (first, *forks):
        log.pages.close()
        assert log.pages.parts[0][1] == 0
