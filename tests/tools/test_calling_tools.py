"""What comes of a call: results, errors in words, time limits, threads, cancellation, misbehaving tools."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import datetime as dt
import enum
import functools
import gc
import itertools
import json
import logging
import math
import os
import re
import subprocess
import sys
import threading
import uuid
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, field_validator

from kogagent import InputError, Retry, RunContext, Toolbox, ToolCall, ToolFailed, tool
from kogagent.tools.results import shorten, to_text
from kogagent.types import File, ToolOutcome


def asked(name: str, complete: bool = True, **arguments: Any) -> ToolCall:
    return ToolCall("id-1", name, json.dumps(arguments), complete)


async def outcome_of(
    function: Any, call: ToolCall | None = None, deps: Any = None, **options: Any
) -> ToolOutcome:
    box = Toolbox([function], **options)
    call = call or asked(box.specs[0].name)
    return await box.call(call, RunContext(deps, call))


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.CRITICAL + 1, "kogagent.tools")
    return caplog


# ── results ──────────────────────────────────────────────────────────────────────────────────


async def test_bytes_that_a_tool_returned_can_be_given_to_the_next(rng: np.random.Generator) -> None:
    given = rng.bytes(int(rng.integers(1, 50)))

    async def make() -> bytes:
        return given

    async def take(data: bytes) -> bool:
        return data == given

    text = (await outcome_of(make)).result.text
    assert (await outcome_of(take, asked("take", data=text))).result.text == "true"


class Mood(enum.Enum):
    FINE = "fine"


class Book(BaseModel):
    title: str
    printed: dt.date


@dataclasses.dataclass
class Shelf:
    books: list[Book]
    mood: Mood


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain ünï", "plain ünï"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (1.5, "1.5"),
        ([1, "é"], '[1, "é"]'),
        ({"a": (1, 2)}, '{"a": [1, 2]}'),
        (
            Shelf([Book(title="t", printed=dt.date(2020, 1, 2))], Mood.FINE),
            '{"books": [{"title": "t", "printed": "2020-01-02"}], "mood": "fine"}',
        ),
        (dt.date(2020, 1, 2), "2020-01-02"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ({3}, "[3]"),
        (b"\xff", "_w=="),
        ("\ud800x", "?x"),
    ],
)
def test_a_value_becomes_this_text(value: Any, text: str) -> None:
    assert to_text(value, 1000) == text


def any_json(rng: np.random.Generator, depth: int = 3) -> Any:
    """A value as json writes it, its texts of any characters a tokenizer can read."""
    kind = int(rng.integers(0, 7 if depth else 5))
    if kind >= 5:
        below = [any_json(rng, depth - 1) for _ in range(int(rng.integers(0, 4)))]
        return below if kind == 5 else {f"k{at}\n": value for at, value in enumerate(below)}
    text = "".join(map(chr, rng.integers(0, 0xD800, 5)))
    return (None, bool(rng.integers(2)), int(rng.integers(-(2**60), 2**60)), float(rng.normal()), text)[kind]


def test_any_json_value_becomes_what_json_writes(rng: np.random.Generator) -> None:
    for _ in range(200):
        value = [any_json(rng)]
        assert to_text(value, 10**6) == json.dumps(value, ensure_ascii=False)
    value.append(value)
    with pytest.raises(ValueError, match="Circular reference"):
        to_text(value, 10**6)


def test_a_long_result_keeps_its_head_and_its_tail() -> None:
    text = shorten("h" * 5000 + "t" * 5000, 300)
    assert text.startswith("h" * 200 + "\n") and text.endswith("\n" + "t" * 100)
    assert "9700 of 10000 characters left out" in text
    assert shorten("short", 5) == "short"


async def test_a_hundred_megabytes_become_a_short_text() -> None:
    def big() -> str:
        return "x" * 100_000_000

    outcome = await outcome_of(big, max_result_chars=1000)
    assert outcome.result.status == "ok" and len(outcome.result.text) < 1100


async def test_a_tool_may_set_its_own_limit_on_its_result() -> None:
    @tool(max_result_chars=10)
    async def big() -> str:
        return "x" * 1000

    assert len((await outcome_of(big)).result.text) < 100


async def test_sync_and_async_tools_give_the_same_result() -> None:
    def plain(a: int, b: int = 2) -> int:
        return a + b

    async def waits(a: int, b: int = 2) -> int:
        await asyncio.sleep(0)
        return a + b

    for function in (plain, waits):
        outcome = await outcome_of(function, asked(function.__name__, a=1))
        assert (outcome.result.text, outcome.result.status, outcome.error) == ("3", "ok", None)
        assert outcome.ended >= outcome.started > 0


async def test_a_sync_function_that_returns_an_awaitable_is_awaited() -> None:
    async def inner() -> str:
        return "awaited"

    assert (await outcome_of(tool(lambda: inner(), name="late"))).result.text == "awaited"


async def test_the_context_reaches_the_tool() -> None:
    async def who(context: RunContext[dict[str, str]], greeting: str) -> str:
        return f"{greeting} {context.deps['name']} {context.call.id}"

    outcome = await outcome_of(who, asked("who", greeting="hi"), {"name": "Ada"})
    assert outcome.result.text == "hi Ada id-1"


VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


async def test_context_variables_reach_threads_and_do_not_leak_back() -> None:
    def peek() -> str:
        seen = VARIABLE.get()
        VARIABLE.set("changed by the tool")
        return seen

    VARIABLE.set("set by the caller")
    assert (await outcome_of(peek)).result.text == "set by the caller"
    assert VARIABLE.get() == "set by the caller"


# ── calls that cannot be run ─────────────────────────────────────────────────────────────────


async def never(city: str, unit: str = "c") -> str:
    raise AssertionError("this tool must not run")


@pytest.mark.parametrize(
    ("call", "status", "words"),
    [
        (
            ToolCall("i", "nevr", "{}"),
            "unknown_tool",
            ["'nevr'", "Did you mean 'never'", "The tools are: never."],
        ),
        (
            ToolCall("i", "never", '{"city": "Os', False),
            "truncated",
            ["cut off", "12 characters", '{"city": "Os'],
        ),
        (ToolCall("i", "never", "{}", False), "truncated", ["not run"]),
        (ToolCall("i", "never", ""), "invalid", ["never", "invalid JSON"]),
        (ToolCall("i", "never", '{"city": "Os'), "invalid", ["invalid JSON"]),
        (ToolCall("i", "never", "[]"), "invalid", ["never", "object"]),
        (ToolCall("i", "never", "{}"), "invalid", ["city", "required"]),
        (ToolCall("i", "never", '{"city": 3}'), "invalid", ["city", "string", "got 3"]),
        (ToolCall("i", "never", '{"city": "x", "zip": 1}'), "invalid", ["zip", "not permitted"]),
    ],
)
async def test_an_unusable_call_is_not_run_and_the_model_is_told_what_to_do(
    call: ToolCall, status: str, words: list[str]
) -> None:
    outcome = await outcome_of(never, call)
    assert outcome.result.status == status and outcome.result.is_error
    assert outcome.result.call_id == "i" and outcome.error is None
    assert all(word in outcome.result.text for word in words), outcome.result.text
    assert len(outcome.result.text) < 600


async def test_hostile_arguments_give_a_short_text() -> None:
    call = ToolCall("i", "never", json.dumps({f"key {i}" * 50: "v" * 10_000 for i in range(200)}))
    outcome = await outcome_of(never, call)
    assert outcome.result.status == "invalid" and len(outcome.result.text) < 6000


async def test_deep_nesting_is_an_invalid_call_and_not_a_crash() -> None:
    async def take(x: Any) -> None: ...

    outcome = await outcome_of(take, ToolCall("i", "take", '{"x": ' + "[" * 100_000 + "]" * 100_000 + "}"))
    assert outcome.result.status == "invalid"


async def test_an_empty_toolbox_says_so() -> None:
    call = asked("anything")
    outcome = await Toolbox().call(call, RunContext(None, call))
    assert outcome.result.status == "unknown_tool" and "no tools" in outcome.result.text


# ── errors ───────────────────────────────────────────────────────────────────────────────────


async def test_a_bug_is_short_text_to_the_model_and_a_traceback_to_the_developer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def secret_helper() -> None:
        raise ValueError("no such city: Atlantis")

    def sync_tool() -> None:
        secret_helper()

    async def async_tool() -> None:
        secret_helper()

    for function in (sync_tool, async_tool):
        caplog.clear()
        outcome = await outcome_of(function)
        assert outcome.result.status == "failed" and outcome.bug
        assert outcome.result.text == f"{function.__name__} failed with ValueError: no such city: Atlantis"
        assert isinstance(outcome.error, ValueError)
        frames, names = outcome.error.__traceback__, []
        while frames is not None:
            names.append(frames.tb_frame.f_code.co_name)
            frames = frames.tb_next
        assert names[-2:] == [function.__name__, "secret_helper"]
        assert "secret_helper" in caplog.text and "test_calling_tools.py" in caplog.text


async def test_retry_and_tool_failed_are_told_and_are_no_bugs(caplog: pytest.LogCaptureFixture) -> None:
    def again() -> None:
        raise Retry("unit must be c or f")

    async def down() -> None:
        raise ToolFailed("the service is down")

    retry, failed = await outcome_of(again), await outcome_of(down)
    assert retry.result.status == "retry" and retry.result.text.startswith("unit must be c or f")
    assert failed.result.status == "failed" and failed.result.text == "down failed: the service is down"
    assert not retry.bug and not failed.bug and isinstance(retry.error, Retry)
    assert not caplog.records


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        GeneratorExit(),
        StopIteration(1),
        StopAsyncIteration(),
        asyncio.CancelledError(),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_no_exception_of_a_tool_ends_the_loop(
    error: BaseException, kind: str, quiet: pytest.LogCaptureFixture
) -> None:
    def sync_tool() -> None:
        raise error

    async def async_tool() -> None:
        raise error

    outcome = await outcome_of(sync_tool if kind == "sync" else async_tool)
    assert outcome.result.status == "failed" and outcome.bug and outcome.error is not None


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit("no words")


async def test_an_exception_that_cannot_say_what_it_is_does_not_end_the_loop(
    quiet: pytest.LogCaptureFixture,
) -> None:
    async def f() -> None:
        raise Mute

    outcome = await outcome_of(f)
    assert (outcome.result.text, outcome.bug) == ("f failed with Mute", True)
    assert type(outcome.error) is Mute


def numbers() -> Iterator[int]:
    yield from itertools.count()


async def endless() -> AsyncIterator[int]:
    for n in itertools.count():
        yield n


@pytest.mark.parametrize("make", [numbers, endless, itertools.count, lambda: {"all": numbers()}])
async def test_what_may_never_end_is_no_result(
    make: Callable[[], Any], quiet: pytest.LogCaptureFixture
) -> None:
    async def f() -> Any:
        return make()

    outcome = await outcome_of(f)
    assert outcome.bug and outcome.result.status == "failed"
    assert re.search("f failed with ValueError: it returned a .*Return a list", outcome.result.text)


class Shade(str, enum.Enum):  # noqa: UP042 - as older code has it, whose format is not its text
    DARK = "d"


async def test_a_text_of_a_class_below_is_plain_text() -> None:
    async def f() -> Shade:
        return Shade.DARK

    text = (await outcome_of(f)).result.text
    assert text == f"{text}" == "d" and type(text) is str


async def test_a_file_says_what_it_needs_and_keeps_its_place_as_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("hello")
    assert File("a", path=path).path == str(path)  # type: ignore[arg-type]
    for wrong, words in (
        ({"data": "text"}, "bytes, not str"),
        ({"path": 3.5}, "float"),
        ({"media_type": 3, "data": b""}, "texts"),
    ):
        with pytest.raises(TypeError, match=words):
            File("a", **wrong)


async def test_a_long_error_is_cut_for_the_model(quiet: pytest.LogCaptureFixture) -> None:
    def wordy() -> None:
        raise ValueError("x" * 100_000)

    outcome = await outcome_of(wordy)
    assert len(outcome.result.text) < 600 and len(str(outcome.error)) == 100_000


async def test_a_result_that_cannot_be_converted_is_the_tools_bug(quiet: pytest.LogCaptureFixture) -> None:
    def round_trip() -> Any:
        ring: list[Any] = []
        ring.append(ring)
        return ring

    outcome = await outcome_of(round_trip)
    assert outcome.result.status == "failed" and outcome.bug


async def test_a_validator_that_breaks_is_the_developers_bug(quiet: pytest.LogCaptureFixture) -> None:
    class Fragile(BaseModel):
        a: int

        @field_validator("a")
        @classmethod
        def broken(cls, a: int) -> int:
            raise KeyError("a bug in a validator")

    async def take(fragile: Fragile) -> None: ...

    outcome = await outcome_of(take, asked("take", fragile={"a": 1}))
    assert outcome.result.status == "failed" and outcome.bug and isinstance(outcome.error, KeyError)


# ── approval ─────────────────────────────────────────────────────────────────────────────────


@tool(needs_approval=True)
async def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_call_that_needs_approval_runs_only_when_it_is_given(kind: str) -> None:
    asked_about: list[tuple[str, Any]] = []

    def decide(call: ToolCall, context: RunContext[Any]) -> bool | str:
        asked_about.append((call.arguments, context.deps))
        return {"/tmp/a": True, "/etc": False}.get(json.loads(call.arguments)["path"], "not that one")

    async def later(call: ToolCall, context: RunContext[Any]) -> bool | str:
        await asyncio.sleep(0)
        return decide(call, context)

    async def outcome(path: Any) -> ToolOutcome:
        approve = decide if kind == "sync" else later
        return await outcome_of(delete, asked("delete", path=path), "deps", approve=approve)

    given, refused, reasoned = await outcome("/tmp/a"), await outcome("/etc"), await outcome("/b")
    assert given.result.text == "deleted /tmp/a"
    assert refused.result.status == reasoned.result.status == "denied"
    assert "not that one" in reasoned.result.text
    assert len(asked_about) == 3 and asked_about[0] == ('{"path": "/tmp/a"}', "deps")
    assert (await outcome(3)).result.status == "invalid" and len(
        asked_about
    ) == 3  # not bothered with nonsense


async def test_an_approver_that_fails_has_approved_nothing(quiet: pytest.LogCaptureFixture) -> None:
    def broken(call: ToolCall, context: RunContext[Any]) -> bool:
        raise KeyError("bug")

    outcome = await outcome_of(delete, asked("delete", path="a"), approve=broken)
    assert outcome.result.status == "failed" and outcome.bug and isinstance(outcome.error, KeyError)


def _say(verdict: Any, call: ToolCall, context: RunContext[Any]) -> Any:
    return verdict


async def test_anything_but_true_is_no_approval() -> None:
    for verdict in (None, 1, "", "yes", [True]):
        said: Any = verdict
        call = asked("delete", path="a")
        outcome = await outcome_of(delete, call, approve=functools.partial(_say, said))
        assert outcome.result.status == "denied"


def test_a_tool_that_needs_approval_is_refused_where_nobody_would_be_asked() -> None:
    with pytest.raises(InputError, match=r"'delete' \(.*approve="):
        Toolbox([delete])


# ── time and threads ─────────────────────────────────────────────────────────────────────────


async def test_blocking_tools_run_side_by_side_while_the_loop_goes_on() -> None:
    barrier = threading.Barrier(3)  # two tools and the event loop's own helper: all must be there at once
    ticks = 0

    def block() -> str:
        barrier.wait()
        return "met"

    box = Toolbox([block])
    call = asked("block")
    both = [asyncio.ensure_future(box.call(call, RunContext(None, call))) for _ in range(2)]
    while barrier.n_waiting < 2:  # ticks only while the loop is free
        ticks += 1
        await asyncio.sleep(0)
    await asyncio.to_thread(barrier.wait)
    assert [outcome.result.text for outcome in await asyncio.gather(*both)] == ["met", "met"]
    assert ticks > 0


async def test_an_async_tool_that_never_ends_is_stopped_and_its_task_is_gone() -> None:
    ended = asyncio.Event()

    @tool(timeout=0.02)
    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    outcome = await outcome_of(forever)
    assert outcome.result.status == "timeout"
    assert outcome.result.text == "forever did not finish within 0.02 s and was stopped."
    assert ended.is_set()
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


async def test_a_blocking_tool_that_never_ends_is_abandoned() -> None:
    release = threading.Event()

    @tool(timeout=0.02)
    def stuck() -> None:
        release.wait()

    try:
        outcome = await outcome_of(stuck)
    finally:
        release.set()
    assert outcome.result.status == "timeout" and "thread may still be running" in outcome.result.text


async def test_a_tool_that_swallows_cancellation_is_abandoned_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    release = asyncio.Event()

    @tool(timeout=0.02)
    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    outcome = await outcome_of(stubborn, grace=0.1)
    assert outcome.result.status == "timeout"
    assert "'stubborn'" in caplog.text and "abandoned" in caplog.text
    release.set()
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    await asyncio.gather(*others, return_exceptions=True)


async def test_the_toolboxs_time_limit_holds_where_a_tool_sets_none() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    @tool(timeout=math.inf)
    async def patient() -> str:
        for _ in range(10):
            await asyncio.sleep(0)
        return "done"

    assert (await outcome_of(forever, timeout=0.02)).result.status == "timeout"
    assert (await outcome_of(patient, timeout=0.02)).result.text == "done"


async def test_cancelling_a_call_cancels_the_tool_and_waits_for_its_cleanup() -> None:
    started, cleaned = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    task = asyncio.ensure_future(outcome_of(slow))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned.is_set()


async def test_a_second_cancellation_does_not_cut_the_cleanup_short() -> None:
    started, cleaning, cleaned, go_on = (asyncio.Event() for _ in range(4))

    async def slow() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            while not go_on.is_set():
                try:
                    await go_on.wait()
                except asyncio.CancelledError:
                    continue
            cleaned.set()

    task = asyncio.ensure_future(outcome_of(slow, grace=math.inf))
    await started.wait()
    task.cancel()
    await cleaning.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned.is_set()


async def test_more_blocking_calls_than_threads_wait_their_turn() -> None:
    running, most = 0, 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        with lock:
            running -= 1

    box = Toolbox([work], max_threads=3)
    call = asked("work")
    outcomes = await asyncio.gather(*(box.call(call, RunContext(None, call)) for _ in range(50)))
    assert all(outcome.result.status == "ok" for outcome in outcomes)
    assert 1 <= most <= 3


async def test_a_waiting_call_that_is_cancelled_never_runs() -> None:
    release, started, ran = threading.Event(), asyncio.Event(), []
    loop = asyncio.get_running_loop()

    def work(n: int) -> None:
        ran.append(n)
        loop.call_soon_threadsafe(started.set)
        release.wait()

    box = Toolbox([work], max_threads=1)

    def start(n: int) -> asyncio.Task[ToolOutcome]:
        call = asked("work", n=n)
        return asyncio.ensure_future(box.call(call, RunContext(None, call)))

    first, second, third = start(1), start(2), start(3)
    await started.wait()
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    release.set()
    await asyncio.gather(first, third)
    assert ran == [1, 3]


async def test_the_last_result_is_not_kept_alive_by_an_idle_thread() -> None:
    class Heavy(str):
        pass

    seen: list[weakref.ref[Heavy]] = []

    def make() -> str:
        heavy = Heavy("text")
        seen.append(weakref.ref(heavy))
        return heavy

    await outcome_of(make)
    while seen[0]() is not None:  # the thread lets go right after it has handed the result over
        gc.collect()
        await asyncio.sleep(0)


async def test_threads_end_with_the_toolbox_that_had_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kogagent.tools.threads._IDLE_S", threading.TIMEOUT_MAX)
    all_there = threading.Barrier(3)

    def work() -> None:
        used.append(threading.current_thread())
        all_there.wait()

    used: list[threading.Thread] = []
    box, call = Toolbox([work]), asked("work")
    await asyncio.gather(*(box.call(call, RunContext(None, call)) for _ in range(3)))
    assert len(set(used)) == 3
    del box
    while any(thread.is_alive() for thread in used):
        gc.collect()
        await asyncio.sleep(0)


def test_a_stuck_thread_does_not_keep_the_process_alive() -> None:
    code = """
import asyncio, threading
from kogagent import RunContext, Toolbox, ToolCall, tool

@tool(timeout=0.05)
def stuck() -> None:
    threading.Event().wait()

async def main():
    call = ToolCall("1", "stuck", "{}")
    print((await Toolbox([stuck]).call(call, RunContext(None, call))).result.status)

asyncio.run(main())
"""
    import subprocess

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "timeout\n"


def test_keyboard_interrupt_is_the_users_and_passes() -> None:
    async def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(outcome_of(stop))


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0},
        {"timeout": float("nan")},
        {"grace": -1},
        {"max_result_chars": 0},
        {"max_threads": True},
        {"approve": True},
        {"approve": "ask"},
        {"groups": ["disk"]},
    ],
)
def test_a_bad_option_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        Toolbox([], **options)


def test_specs_come_in_the_order_of_the_tools() -> None:
    def make(name: str) -> Callable[[], None]:
        def function() -> None: ...

        function.__name__ = name
        return function

    names = ["b", "a", "c"]
    assert [spec.name for spec in Toolbox(make(name) for name in names).specs] == names


FORKS = """
import asyncio, os, sys, warnings
warnings.simplefilter("ignore")
from kogagent import Agent, Limits, tool
from kogagent.testing import ScriptedModel, call

@tool
def in_thread() -> str:
    return "child" if os.fork() == 0 else "parent"

@tool
async def on_loop() -> str:
    if os.fork() == 0:
        raise SystemExit(3)
    print("printed by a tool", flush=True)
    return "parent"

model = ScriptedModel([call("in_thread"), call("on_loop")] * 5, "done")
limits = Limits(turn_calls=10, repeated_calls=None)
result = asyncio.run(Agent(model, [in_thread, on_loop], limits=limits).run("go"))
texts = [m.result.text for m in result.messages if hasattr(m, "result")]
sys.stdout.write(f"{result.output} {sorted(set(texts))}\\n")
"""


def test_a_tool_that_forks_or_prints_leaves_one_run(tmp_path: Path) -> None:
    program = tmp_path / "forks.py"
    program.write_text(FORKS)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done") == 1 and "done ['parent']\n" in done.stdout


async def test_a_tool_without_an_await_runs_in_one_step_and_may_do_what_others_may(
    quiet: pytest.LogCaptureFixture,
) -> None:
    setting = contextvars.ContextVar("setting", default="outer")

    @tool
    async def plain(text: str) -> str:
        setting.set(text)
        return text.upper()

    @tool
    async def waits(text: str) -> str:
        await asyncio.sleep(0)
        return text

    @tool
    async def stops() -> str:
        raise SystemExit("now")

    @tool
    async def asks() -> str:
        raise Retry("Say more.")

    class Kit:
        @tool
        async def method(self, text: str) -> str:
            return text

    kit = Kit().method
    assert [one.never_waits for one in (plain, waits, stops, asks, kit)] == [True, False, True, True, True]
    said = [(await outcome_of(one, asked(one.name, text="a"))).result for one in (plain, waits, kit)]
    assert [one.text for one in said] == ["A", "a", "a"] and setting.get() == "outer"
    failed, again = (await outcome_of(stops)).result, (await outcome_of(asks)).result
    assert (failed.status, again.status) == ("failed", "retry") and "SystemExit: now" in failed.text
