"""The page of a run: everything is there, nothing is loaded, nothing gets out of its text."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from observed_runs import script, slow, watched, weather

from kogagent import Agent, InputError, RunInfo, Transcript, messages_to_json, tool
from kogagent.cli.app import main
from kogagent.observe import RunTrace, Trace, html_report
from kogagent.observe.report import read_run
from kogagent.observe.view import of_events
from kogagent.testing import ScriptedModel, ScriptedTurn, call
from kogagent.types import (
    AskedAgain,
    CallReady,
    Compacted,
    HandedOff,
    ObserveDelta,
    ToolCall,
    ToolFinished,
    ToolProgress,
    ToolResult,
    ToolStarted,
    TurnEnd,
    TurnRetried,
    TurnStarted,
)

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """A page taken apart: elements, their attributes, the text of each kind of element."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.texts[tag][-1] += data

    @property
    def text(self) -> str:
        return "".join(self.texts["html"])


async def test_a_page_shows_turns_calls_tokens_and_phases() -> None:
    page = Page(html_report(await watched()))
    assert [text.strip() for text in page.texts["h1"]] == ["helper: a run"]
    assert [text for text in page.texts["h3"] if text.startswith("Turn")] == ["Turn 1", "Turn 2", "Turn 3"]
    assert page.texts["h3"].count("weather") == 2
    assert [t for t in page.texts["b"] if "city" in t] == ['{"city":']
    assert "<tool_call>" in page.texts["s"] and "It is" in page.texts["i"]
    for told in (
        "Is it warm?",
        "I look it up.",
        "3 degrees in Oslo",
        "KeyError",
        "step 0\nstep 1",
        "finished",
    ):
        assert told in page.text, told
    bars = [a for tag, a in page.elements if tag == "div" and a.get("class") == "track"]
    assert len(bars) == 6 and all(bar["aria-label"] for bar in bars)


async def test_shares_of_phases_sum_to_one_and_bars_stay_on_the_line() -> None:
    report = of_events((await watched()).events)
    assert sum(share for _, share, *_ in report.shares) == pytest.approx(1.0)
    for row in report.rows:
        at = 0.0
        for bar in row.bars:
            assert bar.start >= at - 1e-9 and bar.width >= 0
            at = bar.start + bar.width
        assert at <= 1 + 1e-6


async def test_a_page_loads_nothing_and_allows_its_own_script_alone() -> None:
    html = html_report(await watched())
    page = Page(html)
    assert not re.search(r"https?://|url\(|@import", html)
    assert not [a for _, a in page.elements if a.keys() & {"src", "href", "action", "data"}]
    (script_text,) = page.texts["script"]
    digest = base64.b64encode(hashlib.sha256(script_text.encode()).digest()).decode()
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv"))
    assert policy is not None and f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy
    assert "prefers-color-scheme: dark" in html and 'data-theme="light"' in html


PAYLOADS = (
    "</pre><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style><svg/onload=alert(1)>",
    "<!-- {{ 7 * 7 }} {% raw %} -->",
    "]]>&lt;b&gt;&#x3c;i&#x3e;",
    "\u202eevil\u2066\x00\x1b[31m\ud800",
)


async def test_whatever_was_said_stays_text(rng: np.random.Generator) -> None:
    clean = Page(html_report(await watched()))
    for payload in (*PAYLOADS, "".join(rng.choice(list("<>\"'&/=!-[]{}% \n\\`abc"), 200))):

        async def echo(text: str, payload: str = payload) -> str:
            raise ValueError(payload + text)

        trace = Trace()
        tools = [weather, slow]
        agent = Agent(
            ScriptedModel(
                ScriptedTurn(
                    text=payload, plan=payload, calls=(call("echo", text=payload), call("no", x=payload))
                ),
                ScriptedTurn(text=payload, reason="length"),
            ),
            [*tools, echo],
            observers=[trace],
            name=payload,
        )
        result = await agent.run(payload)
        trace.runs[0].events.insert(3, {"event": "asked_again", "reason": payload, "t": 0})
        trace.runs[0].events.insert(3, {"event": "error", "type": payload, "message": payload, "t": 0})
        for one in trace.runs[0].events:
            if one["event"] == "turn_end":
                one["written"] = [[payload, "forced"], [payload, payload]]
        for html in (
            html_report(trace.runs[0], title=payload),
            html_report(result, title=payload),
            html_report(result.messages),
        ):
            html.encode()  # no lone surrogate
            page = Page(html)
            assert {tag for tag, _ in page.elements} <= {tag for tag, _ in clean.elements} | {"p"}
            assert len(page.texts["script"]) == 1
            names = {name for _, attributes in page.elements for name in attributes}
            assert not [name for name in names if name.startswith("on")]
            seen = payload.translate({0x202E: None, 0x2066: None, 0: None, 0x1B: None, 0xD800: None})
            assert seen[:4] in page.text and "\u202e" not in html


async def test_a_result_and_a_history_have_pages_too() -> None:
    result = await Agent(script(), [weather, slow], instructions="Be brief.").run("Is it warm?")
    page = Page(html_report(result))
    assert "Where the time went" in page.text and "Timeline" not in page.text
    assert page.texts["main"][0].count("sampled, ") == 3 and "Be brief." in page.text
    again = await Agent(ScriptedModel("Still cold."), [weather]).run("And now?", history=result.messages)
    assert "Turn 4" in Page(html_report(again)).text
    for history in (result.messages, Transcript(result.messages)):
        page = Page(html_report(history))
        assert "3 degrees in Oslo" in page.text and "Where the time went" not in page.text


async def test_a_conversation_of_several_runs_is_one_page() -> None:
    first, second = await watched(), await watched(prompt="And now?")
    shift = 200 * (first.events[-1]["t"] + second.events[-1]["t"])  # however long they took
    later = [{**event, "t": event["t"] + shift} for event in second.events]
    start = 17.0  # what loading the model took
    report = of_events({**event, "t": event["t"] + start} for event in [*first.events, *later])
    assert [item for item in report.items if isinstance(item, tuple)] == [
        ("user", "Is it warm?"),
        ("user", "And now?"),
    ]
    assert len(report.turns) == 6 and report.usage.completion_tokens == 82
    assert report.rows[0].bars[0].start < 0.01 < 0.9 < report.rows[-1].bars[-1].start


async def test_an_agent_inside_a_call_is_shown_inside_it() -> None:
    trace = Trace()
    inner = Agent(ScriptedModel(call("weather", city="Oslo"), "cold"), [weather], name="inner")
    agent = Agent(
        ScriptedModel(call("inner", task="look"), "done"),
        [inner.as_tool(description="Ask.")],
        observers=[trace],
    )
    await agent.run("go")
    report = of_events(trace.runs[0].events)
    (outer,) = report.turns[0].calls
    assert outer.inside is not None and [c.text for c in outer.inside.turns[0].calls] == ["3 degrees in Oslo"]
    assert "The run inside: 2 turns, 1 calls" in Page(html_report(trace.runs[0])).text


async def test_calls_of_one_id_in_two_turns_keep_what_went_on_in_each() -> None:
    trace = Trace()
    one, two = (replace(call("helper", task=task), id="call_1") for task in ("one", "two"))
    helper = Agent(ScriptedModel("first", "second"), name="helper", description="Helps.")
    await Agent(ScriptedModel(one, two, "done"), [helper.as_tool()], observers=[trace]).run("go")
    shown = [made for turn in of_events(trace.runs[0].events).turns for made in turn.calls]
    assert [made.text for made in shown] == ["first", "second"]
    assert [made.inside.output for made in shown if made.inside] == ["first", "second"]


async def test_a_call_that_began_before_its_turn_was_whole_is_one_call() -> None:
    @tool(pure=True)
    async def look(place: str) -> str:
        return f"{place} is there"

    trace = Trace()
    agent = Agent(
        ScriptedModel(call("look", place="a"), call("look", place="b"), "done"), [look], observers=[trace]
    )
    await agent.run("go")
    turns = of_events(trace.runs[0].events).turns
    shown = [(turn.number, made.status, made.text) for turn in turns for made in turn.calls]
    assert shown == [(1, "ok", "a is there"), (2, "ok", "b is there")]


def test_events_that_cannot_be_read_are_named_and_unknown_ones_passed_over() -> None:
    with pytest.raises(InputError, match="'turn_end'"):
        html_report(RunTrace([{"event": "turn_started", "turn": 1}, {"event": "turn_end"}]))
    html_report(RunTrace([{"event": "from_the_future", "x": 1}]))


async def test_the_command_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = await watched()
    result = await Agent(script(), [weather, slow]).run("Is it warm?")
    (tmp_path / "run.jsonl").write_text(trace.to_lines())
    (tmp_path / "messages.json").write_text(messages_to_json(result.messages))
    (tmp_path / "lines.jsonl").write_text(Transcript(result.messages).to_lines())
    for name in ("run.jsonl", "messages.json", "lines.jsonl"):
        assert main(["report", str(tmp_path / name), "--title", "A title"]) == 0
        page = tmp_path / Path(name).with_suffix(".html")
        assert capsys.readouterr().out == f"{page}\n"
        assert "A title" in Page(page.read_text()).text and "3 degrees" in page.read_text()
    assert main(["report", str(tmp_path / "run.jsonl"), "--output", str(tmp_path / "x.html")]) == 0
    assert (tmp_path / "x.html").exists()
    (tmp_path / "bad").write_bytes(b"\xff")
    (tmp_path / "empty").write_text("")
    (tmp_path / "object").write_text("{}\n")
    for bad in ("bad", "empty", "object", "none"):
        assert main(["report", str(tmp_path / bad)]) == 2, bad
        error = capsys.readouterr().err
        assert error.startswith("kogagent: ") and str(tmp_path / bad) in error and error.count("\n") == 1


def test_a_file_is_read_for_what_it_holds() -> None:
    assert isinstance(read_run('{"event": "run_started"}\n'), RunTrace)
    assert read_run('[{"role": "user", "text": "a"}]') == read_run('{"role": "user", "text": "a"}\n')


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no Chromium here")
async def test_a_browser_runs_the_switch_and_nothing_else(tmp_path: Path) -> None:
    trace = await watched(text="</p><script>document.title = 'owned'</script><img src=x onerror=alert(1)>")
    (tmp_path / "run.html").write_text(html_report(trace, title="A run"))
    command = [
        *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        *(f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", f"file://{tmp_path / 'run.html'}#dark"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: ASYNC221
    assert 'data-theme="dark"' in done.stdout and "Theme: dark" in done.stdout
    assert "<title>A run</title>" in done.stdout


def test_what_is_rare_has_its_line() -> None:
    asked = ToolCall("1", "dig", '{"depth": 2}')
    trace = RunTrace.started(RunInfo("digger", "m", "Dig."))
    for event in (
        TurnStarted(1, (), "digger"),
        ObserveDelta("So it is dry."),
        CallReady(replace(asked, id="2", arguments='{"depth": ', complete=False)),
        TurnRetried(ConnectionError("busy"), 1),
        ToolStarted(asked),
        ToolProgress(asked, {"metres": 2}),
        ToolFinished(asked, ToolResult("1", "dig", "nobody may", "denied"), 0.0),
        HandedOff(asked, "digger", "painter"),
        Compacted(10, 4, 2000, 300, "they dug"),
        AskedAgain("Answer with a number."),
        TurnEnd("length"),
    ):
        trace.event(event)
    trace.ended(asyncio.CancelledError())
    page = Page(html_report(trace))
    for told in (
        *("So it is dry.", "cut off by the token limit", "The model failed and was asked again", "busy"),
        *('"metres": 2', "denied", "nobody may", "digger handed over to painter", "2,000 to 300 tokens"),
        *("they dug", "Asked again: Answer with a number.", "length", "failed", "CancelledError"),
    ):
        assert told in page.texts["main"][0], told
