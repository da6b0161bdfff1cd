"""Fixtures of the whole suite."""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
from collections.abc import Callable
from pathlib import Path

# Before torch starts its threads: tiny matrices gain nothing from a second one, and threads that spin for
# each other on a busy machine make the suite twenty times slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Nothing is kept in the cache folder of whoever runs the tests, or taken from it.
os.environ["KOGAGENT_CACHE_BYTES"] = "0"

# Without a card kernels are interpreted; Triton decides so for its own functions when it is first imported,
# by whomever.
if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import pytest


def pytest_configure(config: pytest.Config) -> None:
    """A slow or busy machine is no finding of hypothesis, where that is installed."""
    if config.pluginmanager.hasplugin("hypothesispytest"):
        from hypothesis import HealthCheck, settings

        slow = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
        settings.register_profile("kogagent", deadline=None, suppress_health_check=slow)
        settings.load_profile("kogagent")


def pytest_collection_finish() -> None:
    """What has been imported stays: no collection of garbage need look at it, and many tests collect."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Fresh random numbers; the seed is printed with a failure and KOGAGENT_TEST_SEED repeats it."""
    seed = int(os.environ.get("KOGAGENT_TEST_SEED", secrets.randbits(32)))
    request.node.add_report_section("setup", "seed", f"KOGAGENT_TEST_SEED={seed}")
    return np.random.default_rng(seed)


@pytest.fixture
async def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """`pass_time(90)`: from now on the running loop's timers see so many seconds more gone by. A limit that
    nothing but this reaches is reached when a test says so, however slow the machine is."""
    loop, ahead = asyncio.get_running_loop(), 0.0
    real = loop.time

    def pass_time(seconds: float) -> None:
        nonlocal ahead
        ahead += seconds

    monkeypatch.setattr(loop, "time", lambda: real() + ahead)
    return pass_time
