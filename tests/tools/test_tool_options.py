"""What may be set of a tool: groups, purity, bounds of results, files; and what of it is refused."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kogagent import (
    Agent,
    Deferred,
    File,
    InputError,
    Limits,
    RunContext,
    RunResult,
    Tool,
    Toolbox,
    ToolCall,
    ToolMessage,
    messages_from_json,
    messages_to_json,
    tool,
)
from kogagent.testing import MeasuredModel, ScriptedModel, call
from kogagent.tools.groups import Group
from kogagent.types import ToolOutcome


async def run(box: Toolbox, name: str, arguments: str = "{}", **options: Any) -> ToolOutcome:
    asked = ToolCall("1", name, arguments)
    return await box.call(asked, RunContext(None, asked), **options)


def results(result: RunResult) -> list[Any]:
    return [m.result for m in result.messages if isinstance(m, ToolMessage)]


# ── groups ───────────────────────────────────────────────────────────────────────────────────


class Counted:
    """How many are inside at once."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.now -= 1


@pytest.mark.parametrize(("limit", "most"), [(None, 1), (1, 1), (3, 3)])
async def test_calls_of_a_group_run_one_at_a_time_or_as_many_as_is_said(limit: int | None, most: int) -> None:
    inside, free = Counted(), Counted()
    gate = asyncio.Event()

    @tool(group="db")
    async def read() -> None:
        with inside:
            await gate.wait()

    @tool(group="db")
    def write() -> None:
        with inside:
            pass

    @tool
    async def other() -> None:
        with free:
            await gate.wait()

    box = Toolbox([read, write, other], groups={} if limit is None else {"db": limit})
    jobs = [asyncio.ensure_future(run(box, name)) for name in ["read", "write", "other"] * 4]
    while inside.now < most or free.now < 4:  # noqa: ASYNC110 - what has started is the state waited for
        await asyncio.sleep(0)
    gate.set()
    outcomes = await asyncio.gather(*jobs)
    assert inside.most <= most and free.most == 4
    assert all(outcome.result.status == "ok" for outcome in outcomes)


async def test_waiting_for_the_group_is_no_part_of_a_tools_time(pass_time: Callable[[float], None]) -> None:
    release = asyncio.Event()

    @tool(group="one", timeout=math.inf)
    async def hold() -> None:
        await release.wait()

    @tool(group="one", timeout=60)
    async def quick() -> str:
        for _ in range(3):
            await asyncio.sleep(0)
        return "in time"

    box = Toolbox([hold, quick])
    first = asyncio.ensure_future(run(box, "hold"))
    second = asyncio.ensure_future(run(box, "quick"))
    for _ in range(3):
        await asyncio.sleep(0)  # both have come to the group
    pass_time(100)
    release.set()
    assert (await second).result.text == "in time" and (await first).result.status == "ok"


async def test_a_cancelled_wait_passes_its_turn_on(rng: np.random.Generator) -> None:
    group, order = Group(2), list[int]()
    gates = [asyncio.Event() for _ in range(12)]

    async def hold(n: int) -> None:
        async with group:
            order.append(n)
            await gates[n].wait()

    jobs = [asyncio.ensure_future(hold(n)) for n in range(12)]
    await asyncio.sleep(0)
    gone = {int(n) for n in rng.choice(range(2, 12), 5, replace=False)}
    for n in gone:
        jobs[n].cancel()
    for gate in gates:
        gate.set()
    await asyncio.gather(*jobs, return_exceptions=True)
    assert order == [n for n in range(12) if n not in gone], "first come, first served"
    async with group, group:
        pass


def test_a_group_holds_over_event_loops() -> None:
    inside = Counted()

    @tool(group="one")
    async def work() -> None:
        with inside:
            await asyncio.sleep(0)

    box = Toolbox([work])

    async def many() -> None:
        await asyncio.gather(*(run(box, "work") for _ in range(10)))

    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert inside.most == 1 and inside.now == 0


async def test_two_runs_share_the_groups_of_a_toolbox() -> None:
    inside = Counted()

    @tool(group="one")
    async def work(n: int) -> int:
        with inside:
            await asyncio.sleep(0)
        return n

    box = Toolbox([work])
    turns = [[call("work", n=n), call("work", n=n + 10)] for n in range(3)]
    agents = [Agent(ScriptedModel(*turns, "done"), box) for _ in range(4)]
    outcomes = await asyncio.gather(*(agent.run("go") for agent in agents))
    assert inside.most == 1 and all(outcome.output == "done" for outcome in outcomes)


# ── results ──────────────────────────────────────────────────────────────────────────────────


async def test_a_long_result_keeps_head_and_tail_in_exactly_so_many_tokens() -> None:
    text = "".join(chr(ord("a") + n % 26) for n in range(1000))

    @tool
    async def long() -> str:
        return text

    @tool(max_result_tokens=70)
    async def longer() -> str:
        return text

    model = MeasuredModel([call("long"), call("longer")], "done", context=10_000)
    result = await Agent(model, [long, longer], limits=Limits(result_tokens=120)).run("go")
    first, second = (one.text for one in results(result))
    assert len(first) == 120 and len(second) == 70
    for cut in (first, second):
        head, note, tail = cut.split("\n")
        assert text.startswith(head) and text.endswith(tail) and "of 1000 tokens left out" in note
        assert len(head) > len(tail) > 0


async def test_without_a_model_that_counts_a_token_is_four_bytes() -> None:
    @tool
    async def long() -> str:
        return "é😀" * 500

    result = await Agent(ScriptedModel(call("long"), "x"), [long], limits=Limits(result_tokens=50)).run("go")
    (one,) = results(result)
    assert 100 < len(one.text.encode()) <= 200 and "characters left out" in one.text
    assert one.text.startswith("é😀") and one.text.endswith("é😀")
    short = await Agent(ScriptedModel(call("long"), "x"), [long], limits=Limits(result_tokens=5000)).run("go")
    assert results(short)[0].text == "é😀" * 500


async def test_a_file_is_a_line_for_the_model_and_a_file_for_the_developer(tmp_path: Path) -> None:
    picture = File("a.png", "image/png", data=b"\x89PNG" * 100)
    notes = tmp_path / "notes.txt"
    notes.write_text("first\n" + "x" * 3000 + "\nlast")

    def draw() -> File:
        return picture

    async def both() -> list[Any]:
        return ["Here they are.", picture, File("notes.txt", "text/plain", path=str(notes))]

    agent = Agent(ScriptedModel([call("draw"), call("both")], "x"), [draw, both])
    result = await agent.run("go")
    one, two = results(result)
    assert one.text == "[file a.png, image/png, 400 bytes]" and one.files == (picture,)
    assert two.text.startswith("Here they are.\n[file a.png") and "first\nxxx" in two.text
    assert two.text.endswith("x\nlast") and [file.name for file in two.files] == ["a.png", "notes.txt"]
    assert messages_from_json(messages_to_json(result.messages)) == result.messages


async def test_of_a_huge_text_file_only_both_ends_are_read(tmp_path: Path) -> None:
    huge = tmp_path / "huge.txt"
    with huge.open("wb") as file:
        file.write(b"start")
        file.seek(1 << 30)
        file.write(b"end")

    def read() -> File:
        return File("huge.txt", "text/plain", path=str(huge))

    outcome = await run(Toolbox([read], max_result_chars=1000), "read")
    assert len(outcome.result.text) < 1200
    assert "start" in outcome.result.text and outcome.result.text.endswith("end")


async def test_a_file_that_is_not_there_is_the_tools_fault(caplog: pytest.LogCaptureFixture) -> None:
    def lost() -> File:
        return File("x.txt", "text/plain", path="/nowhere/x.txt")

    outcome = await run(Toolbox([lost]), "lost")
    assert outcome.result.status == "failed" and outcome.bug
    for wrong in ({}, {"data": b"", "path": "x"}):
        with pytest.raises(ValueError, match=r"data=… or its place as path=…"):
            File("x", **wrong)  # type: ignore[arg-type]


# ── deferred and approved ────────────────────────────────────────────────────────────────────


async def test_approved_calls_are_not_asked_about_and_supplied_results_are_read_as_returned() -> None:
    asked: list[str] = []

    @tool(needs_approval=True)
    async def wipe(disk: int) -> str:
        return f"disk {disk}"

    def approve(one: ToolCall, context: RunContext[None]) -> bool:
        asked.append(one.name)
        return False

    box = Toolbox([wipe], approve=approve)
    assert (await run(box, "wipe", '{"disk": 1}')).result.status == "denied" and asked == ["wipe"]
    assert (await run(box, "wipe", '{"disk": 1}', approved=True)).result.text == "disk 1"
    assert (await run(box, "wipe", '{"disk": "x"}', approved=True)).result.status == "invalid"
    supplied = box.supplied(ToolCall("1", "wipe", "{}"), {"a": [1]})
    assert (supplied.result.text, supplied.result.status) == ('{"a": [1]}', "ok") and asked == ["wipe"]


async def test_a_deferred_call_is_no_error_to_the_developer() -> None:
    async def later() -> None:
        raise Deferred("")

    outcome = await run(Toolbox([later]), "later")
    assert outcome.result.status == "deferred" and outcome.error is None and not outcome.bug
    assert outcome.result.text == "The result comes later."


# ── what is refused ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"groups": "db"},
            r"no option 'groups'\. Did you mean 'group'\? Its options are: name, description, t",
        ),
        ({"group": ""}, "group=''"),
        ({"group": 3}, "group=3"),
        ({"pure": 1}, "pure=1"),
        ({"pure": True, "needs_approval": True}, "pure and needs approval"),
        ({"max_result_tokens": 0}, "max_result_tokens=0"),
        ({"timeout": True}, "timeout=True"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_by_name(options: dict[str, Any], words: str) -> None:
    def look() -> str:
        return ""

    with pytest.raises(InputError, match=words):
        tool(**options)(look)
    with pytest.raises(InputError, match=words):
        Tool.of_schema(
            look, name="look", description="", parameters={"type": "object"}, place="here", **options
        )


def test_a_group_that_no_tool_is_in_is_refused() -> None:
    @tool(group="db")
    def read() -> str:
        return ""

    with pytest.raises(InputError, match=r"no tool is in the group 'dbs'"):
        Toolbox([read], groups={"dbs": 2})
    with pytest.raises(InputError, match="'db' has the limit 0"):
        Toolbox([read], groups={"db": 0})


def test_a_wider_toolbox_keeps_settings_threads_and_groups() -> None:
    @tool(group="db")
    def read() -> str:
        return ""

    @tool(group="net")
    def fetch() -> str:
        return ""

    box = Toolbox([read], timeout=3, groups={"db": 2})
    wider = box.extended([fetch])
    assert [spec.name for spec in wider.specs] == ["read", "fetch"] and [s.name for s in box.specs] == [
        "read"
    ]
    assert wider._groups["db"] is box._groups["db"] and set(wider._groups) == {"db", "net"}
    assert wider._tools["fetch"].timeout == 3 and wider._threads is box._threads
