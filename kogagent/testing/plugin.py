"""A pytest plugin: agents without a model, a tiny engine, recordings, reports of what failed.

Loaded by pytest wherever kogagent is installed; it imports nothing before a fixture is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kogagent.local import Engine
    from kogagent.loop.protocols import Model, ModelSource
    from kogagent.observe import Trace
    from kogagent.testing.models import ScriptedModel
    from kogagent.types import RunResult, ToolResult

_FAILED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kogagent")
    group.addoption(
        "--kogagent-record", action="store_true", help="record anew what the fixture recorded_model plays"
    )
    group.addoption(
        "--kogagent-reports", metavar="DIR", help="write the HTML report of each run of a test that fails"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    if report.when == "call":
        item.stash[_FAILED] = report.failed
    return report


@pytest.fixture
def scripted_model(request: pytest.FixtureRequest) -> Iterator[Callable[..., ScriptedModel]]:
    """Makes models that play turns: `scripted_model(call("ls"), "There are two.")`, as ScriptedModel does.

    A script that was begun and not played to its end fails the test: the agent stopped before it should.
    """
    from kogagent.testing.models import ScriptedModel

    made: list[tuple[ScriptedModel, int]] = []

    def make(*turns: Any, **options: Any) -> ScriptedModel:
        model = ScriptedModel(*turns, **options)
        if not options.get("repeat"):
            made.append((model, len(turns)))
        return model

    yield make
    if request.node.stash.get(_FAILED, False):
        return  # one reason is enough
    for model, turns in made:
        played = len(model.requests)
        assert played in (0, turns), f"a script of {turns} turns was played for {played} of them"


@pytest.fixture
def kogagent_trace(request: pytest.FixtureRequest) -> Iterator[Trace]:
    """An observer of the test's agents: `Agent(…, observers=[kogagent_trace])`. When the test fails, its
    output tells what the runs did, and --kogagent-reports writes their pages."""
    from kogagent.observe import Trace

    trace = Trace()
    yield trace
    if not request.node.stash.get(_FAILED, False):
        return
    folder = request.config.getoption("--kogagent-reports")
    for number, run in enumerate(trace.runs, 1):
        if folder:
            from kogagent.observe import html_report

            Path(folder).mkdir(parents=True, exist_ok=True)
            page = Path(folder, f"{_file_name(request.node.nodeid)}-{number}.html")
            page.write_text(html_report(run, title=request.node.nodeid), encoding="utf-8")
        request.node.add_report_section("teardown", f"kogagent run {number}", run.to_lines())


@pytest.fixture
def run_agent(
    scripted_model: Callable[..., ScriptedModel], kogagent_trace: Trace
) -> Callable[..., RunResult]:
    """Runs an agent on a script: `run_agent([weather], call("weather", city="Oslo"), "Cold.")` gives the
    RunResult. prompt and everything an Agent takes go by keyword. For tests without an event loop."""
    from kogagent.loop.agent import Agent

    def run(tools: Any, *turns: Any, prompt: str = "go", deps: Any = None, **options: Any) -> RunResult:
        observers = [kogagent_trace, *options.pop("observers", ())]
        agent = Agent(scripted_model(*turns), tools, observers=observers, **options)
        return agent.run_sync(prompt, deps=deps)

    return run


@pytest.fixture
def call_tool() -> Callable[..., ToolResult]:
    """Calls one tool as a run does, with arguments that go through JSON and its schema:
    `call_tool(weather, city="Oslo").text`. Approval is given; deps goes by keyword. For tests without an
    event loop."""
    import asyncio
    import json

    from kogagent.errors import InputError
    from kogagent.tools.toolbox import Toolbox
    from kogagent.types import RunContext, ToolCall

    def run(tool: Any, /, deps: Any = None, **arguments: Any) -> ToolResult:
        toolbox = Toolbox([tool], approve=lambda call, context: True)
        call = ToolCall("call_1", toolbox.specs[0].name, json.dumps(arguments))
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise InputError("call_tool runs an event loop of its own. Use it in a test that is not async.")
        return asyncio.run(toolbox.call(call, RunContext(deps, call))).result

    return run


@pytest.fixture(scope="session")
def tiny_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A whole engine with a model of a few thousand random weights: it babbles within every grammar, the same
    on every machine. Loaded once for all tests; needs torch."""
    from kogagent.local import Engine
    from kogagent.testing.tiny import write_tiny_model

    path = write_tiny_model(tmp_path_factory.mktemp("kogagent") / "tiny")
    with Engine.load(path, device="cpu") as engine:
        yield engine


@pytest.fixture
def recorded_model(request: pytest.FixtureRequest) -> Callable[[Callable[[], Model | ModelSource]], Model]:
    """A model that was recorded once: `recorded_model(lambda: Engine.load("…"))`.

    The recording stands beside the test, in recordings/. With --kogagent-record the function is called and
    its model recorded anew; without, the recording is played, strictly, and no model is needed.
    """
    from kogagent.testing.replay import RecordingModel, ReplayModel

    made = 0

    def model(make: Callable[[], Model | ModelSource]) -> Model:
        nonlocal made
        made += 1
        name = _file_name(request.node.name) + ("" if made == 1 else f"-{made}")
        tape = request.path.parent / "recordings" / f"{request.path.stem}-{name}.jsonl"
        if request.config.getoption("--kogagent-record"):
            tape.parent.mkdir(exist_ok=True)
            tape.unlink(missing_ok=True)
            return RecordingModel(make(), tape)
        if not tape.exists():
            pytest.fail(f"{tape} is not there. Record it: pytest --kogagent-record {request.node.nodeid}")
        return ReplayModel(tape)

    return model


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.-]+", "_", text).strip("_")
