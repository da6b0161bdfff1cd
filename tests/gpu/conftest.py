"""Tests here need a CUDA device: they run, or they say why not, or, when one is required, they fail.

The ones that say most come first, and each line is shown as it comes: a run that is cut short has said
something. KOGAGENT_GPU_SECONDS: tests that would start later than that are not run, and the summary says so.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from kogagent.engine.backends import unavailable

sys.path.append(str(Path(__file__).resolve().parent.parent / "grammar"))  # its made schemas

# Devices side by side on one card need a hardware queue each; read when CUDA starts.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
REASON = unavailable("cuda")
Figures: TypeAlias = Callable[[str], None]
_FIGURES: list[str] = []
_ORDER = ("robustness", "sampler", "fidelity", "lanes", "cuda_grammar", "cuda_kernel", "prefill")
_BEGAN = time.monotonic()
_MOST_S = float(os.environ.get("KOGAGENT_GPU_SECONDS", "inf"))

if REASON is None:
    import torch

    torch.set_num_threads(min(16, os.cpu_count() or 1))  # the equations in FP32; elsewhere tests use one


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Figures:
    """Takes lines that are shown behind the test and after the run: what a test measured on its way."""
    terminal = request.config.pluginmanager.get_plugin("terminalreporter")

    def show(line: str) -> None:
        _FIGURES.append(line)
        if terminal is not None:
            terminal.ensure_newline()
            terminal.write_line(line, flush=True)

    return show


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = [item for item in items if "/tests/gpu/" in item.path.as_posix()]
    for item in here:
        item.add_marker(pytest.mark.gpu)
    places = [i for i, item in enumerate(items) if item in here]
    rank = {item: next((n for n, name in enumerate(_ORDER) if name in item.path.stem), 99) for item in here}
    for place, item in zip(places, sorted(here, key=lambda item: rank[item]), strict=True):
        items[place] = item
    if REASON is None or not here or os.environ.get("KOGAGENT_REQUIRE_GPU") == "1":
        return
    items[:] = [item for item in items if item not in here]
    config.hook.pytest_deselected(items=here)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile what the modules' BUILDS and SPREAD name, all at once."""
    modules = dict.fromkeys(
        item.getparent(pytest.Module) for item in session.items if item.get_closest_marker("gpu")
    )
    if REASON is not None or session.config.option.collectonly or not modules:
        return
    from kernel_builds import jobs, spread_jobs

    from kogagent.kernels.build import build_all

    card: Any = torch.cuda.get_device_properties(0)
    wanted = [
        build for module in modules if module is not None for build in getattr(module.obj, "BUILDS", ())
    ]
    over_several = [
        build for module in modules if module is not None for build in getattr(module.obj, "SPREAD", ())
    ]
    on = (
        card.major * 10 + card.minor,
        card.multi_processor_count,
        card.shared_memory_per_block_optin,
    )
    found = list(dict.fromkeys([*jobs(wanted, *on), *spread_jobs(over_several, *on)]))
    began = time.monotonic()
    build_all(found)
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        terminal.write_line(f"{len(found)} kernels compiled in {time.monotonic() - began:.0f} s", flush=True)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and "tests/gpu" in report.nodeid and report.duration > 5:
        _FIGURES.append(f"{report.duration:5.1f} s  {report.nodeid}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.monotonic() - _BEGAN > _MOST_S and item.get_closest_marker("gpu"):
        pytest.skip(f"KOGAGENT_GPU_SECONDS={_MOST_S:.0f} have passed")
    if REASON is not None:
        pytest.fail(f"KOGAGENT_REQUIRE_GPU=1, but {REASON}", pytrace=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in _FIGURES:
        terminalreporter.write_line(line)
    if REASON is not None and os.environ.get("KOGAGENT_REQUIRE_GPU") != "1":
        terminalreporter.write_line(
            f"tests/gpu deselected: {REASON}. KOGAGENT_REQUIRE_GPU=1 makes their absence a failure."
        )
