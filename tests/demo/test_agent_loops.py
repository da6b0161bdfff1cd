"""The agent-loop benchmark measures what it says. Nothing here is timed."""

from __future__ import annotations

import asyncio
import json
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import openai
import pytest

from benchmarks.agent_loops import __main__ as program
from benchmarks.agent_loops import gap, parts, servers
from benchmarks.agent_loops.clocked import ClockedBackend
from benchmarks.agent_loops.compare import compare, newest_of
from benchmarks.agent_loops.growth import growth
from benchmarks.agent_loops.host import host
from benchmarks.agent_loops.instant import Instant, InstantBackend
from benchmarks.agent_loops.loops import (
    QUESTIONS,
    SWITCHES,
    Loop,
    Task,
    calls_loop,
    led,
    led_loops,
    scripted_loops,
)
from benchmarks.agent_loops.measure import PHASES, measure, timed
from benchmarks.agent_loops.models import label, open_engine, spec_of
from benchmarks.agent_loops.peers import Peers, Played, Wanted
from benchmarks.agent_loops.players import play
from benchmarks.agent_loops.prefixes import Prefixes, resident
from benchmarks.agent_loops.report import write_report
from benchmarks.agent_loops.tape import Step, Tape
from benchmarks.agent_loops.twins import gguf_of
from benchmarks.common import Figure, Record, append, make_record
from benchmarks.shapes import SHAPES
from kogagent import Agent, Choices, Engine, Limits, Message, ToolMessage, tool
from kogagent.engine.engine import EngineCore
from kogagent.engine.weights import load_checkpoint, read_spec
from kogagent.errors import InputError
from kogagent.testing import ScriptedModel, call
from kogagent.testing.tiny import TINY_CHAT, write_tiny_model
from kogagent.tokenizer import Tokenizer


@tool
async def wait(seconds: float) -> str:
    """Wait."""
    return f"waited {seconds}"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = replace(TINY_CHAT, context=8192, windows=(0, 0))  # plain, so that transformers has the same class
    return write_tiny_model(tmp_path_factory.mktemp("tiny"), spec=spec)


async def test_every_turn_is_timed_once_and_the_phases_make_up_the_run() -> None:
    run = await timed(
        Task(Agent(ScriptedModel(call("wait", seconds=1), call("wait", seconds=2), "done"), [wait]), "go")
    )
    assert len(run.turn_s) == 3 and all(seconds > 0 for seconds in run.turn_s)
    assert sum(run.phase_s.values()) == pytest.approx(run.wall_s)
    assert sum(run.turn_s) <= run.wall_s, "turns are parts of the run"
    assert run.phase_s["tool"] > 0 and run.phase_s["prefill"] == 0 and 0 < run.overhead_share < 1
    assert run.calls == ('{"seconds": 1}', '{"seconds": 2}')


async def test_a_run_without_calls_is_no_measurement() -> None:
    with pytest.raises(ValueError, match="no call"):
        await timed(Task(Agent(ScriptedModel("done"), [wait]), "go"))


async def test_a_run_that_stops_for_a_repeated_call_counts_and_says_so() -> None:
    model = ScriptedModel(*[call("wait", seconds=1)] * 9)
    run = await timed(Task(Agent(model, [wait], limits=Limits(repeated_calls=2)), "go"))
    assert run.stopped and len(run.turn_s) < 9


async def test_a_loop_gives_one_record_a_metric_from_fresh_tasks() -> None:
    loop = next(loop for loop in scripted_loops() if loop.name == "scripted/20 turns/8 tools")
    asked: list[Task] = []

    def task() -> Task:
        asked.append(loop.tasks())
        return asked[-1]

    records = {record.metric: record for record in await measure(Loop("x", "scripted", task), repeats=5)}
    assert {"turns_s", "p50_ms", "p99_ms", "overhead_share", "growth", "tool_ms", "loop_ms"} <= set(records)
    assert all(record.repeats == 5 for record in records.values())
    assert records["turns_s"].note == "20 turns a run"
    assert records["p50_ms"].value <= records["p99_ms"].value
    results = [await _results(one) for one in (loop.tasks(), loop.tasks())]
    assert len(asked) == 6 and not set(results[0]) & set(results[1]), "no input is measured twice"


async def _results(task: Task) -> list[str]:
    messages: tuple[Message, ...] = (await task.agent.run(task.prompt)).messages
    return [message.result.text for message in messages if isinstance(message, ToolMessage)]


@pytest.mark.parametrize("backend", [InstantBackend, partial(ClockedBackend, pass_s=1e-6, prefill_s=1e-6)])
def test_a_device_without_a_model_says_its_script_under_the_real_grammar(
    model: Path, backend: Callable[..., InstantBackend]
) -> None:
    one, written = calls_loop(3, 2), list[list[str]]()

    class Noted(Instant):
        def write(self, turns: int) -> list[str]:
            written.append(super().write(turns))
            return written[-1]

    def make() -> Instant:
        return Noted(backend, model)

    with asyncio.Runner() as runner:
        found = {r.metric: r for r in host(runner, one, 5, "/x", make, runs=1)}
        again = make()
        with again.engine:
            again.write(3)
            run = runner.run(timed(one.task(again.engine)))
    assert len(written) == 1 + 5 + 1 and list(run.calls) == written[-1]
    assert len({arguments for turns in written for arguments in turns}) == 7 * 3
    assert run.usage.forced_tokens > 60 and run.usage.sampled_tokens > 120, "each byte is a token here"
    assert run.usage.steps == run.usage.sampled_tokens, "a pass a choice"
    assert {"us_per_turn", "loop_thread_us", "render_us", "parse_us", "loop_us"} <= set(found)
    assert ("beside_us" in found) == (backend is not InstantBackend), "of a device that has a clock"
    assert not {"prefill_us", "sampled_us", "forced_us"} & set(found), "the device's own time is none of it"
    assert {r.case for r in found.values()} == {"host/3 turns/2 tools/x"}


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_a_clock_says_scripts_of_no_choice_of_one_and_of_two(
    model: Path, count: int, rng: np.random.Generator
) -> None:
    letters = [chr(i) for i in rng.choice(np.arange(ord("a"), ord("z") + 1), 20, replace=False)]
    texts = ["".join(letters), "".join(letters[1:]), "".join(letters[1:9])][:count]
    tokenizer, scripts = Tokenizer.load(model), deque[Sequence[int]]()
    backend = ClockedBackend(read_spec(model), scripts, pass_s=1e-6, prefill_s=1e-6)
    with Engine(EngineCore(lambda: backend), tokenizer) as engine:
        for text in texts:
            scripts.append((*tokenizer.encode_markup(text), tokenizer.end_ids[0]))
            prompt = f"{text}: which of the texts is it?"  # begins anew: a short one's choice is the kernel's
            stream = engine.stream(prompt, grammar=Choices(texts), max_tokens=60)
            assert "".join([token.text async for token in stream]) == text
            choices = 0 if count == 1 else 1 if text is texts[0] or count == 2 else 2
            assert stream.usage.sampled_tokens == choices, "each byte is a token here"


def test_the_stretches_between_two_launches_are_those_of_every_turn_but_the_first(model: Path) -> None:
    one, instant = calls_loop(4, 1), Instant(partial(ClockedBackend, pass_s=1e-6, prefill_s=1e-6), model)
    stretches = gap.Stretches()

    def task() -> Task:
        instant.write(4)
        return one.task(instant.engine)

    with asyncio.Runner() as runner, instant.engine:
        with stretches.watch():
            runner.run(gap.play(task, 3, stretches))
        seen = len(stretches.turns)
        runner.run(gap.play(task, 1, stretches))
    assert seen == 3 * 3 == len(stretches.turns), "what was watched is itself again"
    assert all(len(turn) == len(gap.MARKS) - 1 and min(turn) >= 0 for turn in stretches.turns)


def test_the_demo_loop_has_a_question_for_the_warm_up_and_each_repeat() -> None:
    assert len(set(QUESTIONS)) == 1 + parts.REPEATS


def test_the_short_set_is_part_of_the_full_one() -> None:
    full, short = (
        [{one.name for one in loops(full=full)} for full in (True, False)]
        for loops in (scripted_loops, led_loops)
    )
    assert full[1] < full[0] and short[1] < short[0]
    names = full[0] | short[0]
    for wanted in (
        "latency/1 ms",
        "latency/100 ms",
        "parallel/8 calls of 10 ms",
        "scripted/1 turns/162 tools",
    ):
        assert wanted in names
    for wanted in ("calls/100 turns/162 tools", "observe/8000 tokens", "edit-test-fix", "search-and-answer"):
        assert wanted in names


async def test_a_led_loop_does_its_steps_with_any_weights(model: Path) -> None:
    loops = {one.name: one for one in led_loops()}
    with Engine.load(model, device="cpu") as engine:
        repair = await timed(led(engine, loops["edit-test-fix"], "tiny").tasks())
        assert len(repair.turn_s) == 6 and len(repair.calls) == 5 and not repair.stopped
        assert '"line": 3' in repair.calls[3]
        found = await timed(led(engine, loops["search-and-answer"], "tiny").tasks())
        assert len(found.turn_s) == 5 and len(found.calls) == 4
        # The second turn computes what is new, and no more; without reuse all of it.
        one = calls_loop(3, 2)
        usage = [
            (await timed(led(engine, one, "tiny", name, **options).tasks())).usage
            for name, options in (("", {}), *SWITCHES.items())
        ]
        assert usage[0].reused_tokens > usage[0].prefilled_tokens and usage[0].forced_tokens > 0
        assert usage[1].forced_tokens == 0 and usage[2].reused_tokens == 0


def test_peers_play_what_ours_wrote_in_the_same_rounds(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other programs, the servers over sockets and another SDK's loop: all in one record."""
    monkeypatch.setattr("benchmarks.agent_loops.peers._CHECKED", 4)
    one_round = lambda runs, repeats, warm_up: {name: Figure((run(),)) for name, run in runs.items()}  # noqa: E731
    monkeypatch.setattr(parts, "interleave", one_round)
    with (
        Engine.load(model, device="cpu") as engine,
        Peers(engine, str(model), Wanted(compiled=False), device="cpu") as peers,
        asyncio.Runner() as runner,
    ):
        found = parts.beside(runner, engine, calls_loop(2, 1), "tiny", peers, 5)
    for missing in ("llama.cpp", "smolagents", "vllm", "sglang", "torch.compile"):
        assert any(reason.startswith(missing) for reason in peers.left_out), peers.left_out
    # How many, rounding decides: two tokens of random weights may be as good as each other.
    assert any("of 4 free greedy tokens equal to transformers'" in note for note in peers.notes)
    of = {(record.case, record.metric): record for record in found}
    ours = of["calls/2 turns/1 tools/tiny", "turns_s"]
    assert set(ours.peers) == {
        "ours without grammar",
        "ours on the torch backend",
        "transformers",
        "kogagent serve",
        "transformers over HTTP",
        "pydantic-ai in process",
        "pydantic-ai on kogagent serve",
    }
    assert all(value > 0 for value in ours.peers.values()) and "free greedy tokens" in ours.note
    assert "left out: llama.cpp: no Python here has it" in ours.note
    assert of["calls/2 turns/1 tools/tiny/no reuse", "turns_s"].peers == {}
    assert of["calls/2 turns/1 tools/tiny/no reuse", "reused_tokens"].value == 0

    append(found, tmp_path)
    (results,) = tmp_path.glob("*.jsonl")
    paths = write_report(results, tmp_path / "report")
    assert [path.name for path in paths] == [
        "agent-loops-phases.png",
        "agent-loops-peers.png",
        "agent-loops.html",
    ]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths[:2])
    page = paths[2].read_text(encoding="utf-8")
    assert "calls/2 turns/1 tools/tiny" in page and "<svg" in page and "pydantic-ai in process" in page
    assert 'src="http' not in page and "<link" not in page and "<script" not in page


def test_a_slow_peer_plays_the_first_turns_and_a_broken_one_costs_nobody_a_figure(model: Path) -> None:
    asked: list[int] = []

    def slow(_: Any, played: Played) -> float:
        asked.append(len(played.steps))
        return 2.5  # turns a second

    def broken(_: Any, played: Played) -> float:
        raise RuntimeError("out of memory")

    played = Played("go", [], [Step((1,), (2,))] * 20, ["{}"] * 20)
    with Engine.load(model, device="cpu") as engine, asyncio.Runner() as runner:
        peers = Peers(engine, str(model), Wanted(seconds=2.0), device="cpu")
        peers._runs |= {"slow": slow, "broken": broken}
        runs = peers.runs(runner, lambda: played)
        assert [runs["slow"](), runs["slow"]()] == [2.5, 2.5] and asked == [3, 5, 5]
        assert math.isnan(runs["broken"]()) and math.isnan(runs["broken"]())
    assert "slow played the first 5 turns of a run" in peers.notes
    assert peers.left_out == ["broken: out of memory"]


def test_prefixes_that_are_there_are_forked_and_make_room(model: Path) -> None:
    with Engine.load(model, device="cpu") as engine, asyncio.Runner() as runner:
        found = {(r.case, r.metric): r for r in Prefixes(runner, engine, "tiny").forks(5)}
        assert found["fork/4000 tokens/tiny", "new_bytes"].max == 0, "a fork took memory"
        assert set(found["fork/4000 tokens/tiny", "ms"].peers) == {"a copy of as many bytes"}
        assert found["fork's first token/4000 tokens/tiny", "ms"].value > 0
        (crowded,) = resident(runner, engine, str(model), "tiny", "cpu", 5)
    assert crowded.case == "resident/3 of 6 conversations/tiny"
    assert "computed 6 anew" in crowded.note, crowded.note


def test_a_shape_is_a_model_with_random_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(TINY_CHAT, name="small", vocab_size=8300)
    monkeypatch.setitem(SHAPES, "small", small)
    assert label("random:small") == "small" and spec_of("random:small") is small
    with pytest.raises(InputError, match="no shape 'smalll'"):
        spec_of("random:smalll")
    with open_engine("random:small", "cpu") as engine, asyncio.Runner() as runner:
        done = runner.run(timed(led(engine, calls_loop(2, 1), "small").tasks()))
    assert len(done.calls) == 2


def test_a_tape_holds_prompts_that_go_on_from_what_was_written(model: Path) -> None:
    class Counting:
        passes = 0

        def step(self, prompt: Any, output: Any) -> None:
            self.passes += len(output)

    with Engine.load(model, device="cpu") as engine, asyncio.Runner() as runner:
        tape = Tape(engine)
        done = runner.run(timed(calls_loop(3, 1).task(tape)))
    assert len(tape.steps) == 3
    for one, after in zip(tape.steps, tape.steps[1:], strict=False):
        assert after.prompt[: len(one.prompt) + len(one.output)] == one.prompt + one.output
    player = Counting()
    assert play(player, [(step.prompt, step.output) for step in tape.steps]) >= 0
    assert player.passes == done.usage.completion_tokens


def test_a_model_llama_cpp_cannot_read_is_stood_in_for_by_one_of_its_size(
    model: Path, tmp_path: Path
) -> None:
    path, same = gguf_of(str(model), tmp_path)
    assert not same
    stand_in = load_checkpoint(path)
    original = load_checkpoint(model)
    assert stand_in.spec.parameters == original.spec.parameters
    assert stand_in.spec.n_layers == original.spec.n_layers and stand_in.spec.context == original.spec.context


async def test_a_server_of_others_is_given_text_and_must_write_as_much_as_was_asked_for() -> None:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    asked: list[tuple[str, int, int]] = []

    async def complete(request: Request) -> JSONResponse:
        body = await request.json()
        asked.append((body["prompt"], body["max_tokens"], body["min_tokens"]))
        choice = {"index": 0, "text": "x", "logprobs": None, "finish_reason": "length"}
        usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
        head = {"id": "1", "object": "text_completion", "created": 0, "model": "peer"}
        return JSONResponse({**head, "choices": [choice], "usage": usage})

    app = Starlette(routes=[Route("/v1/completions", complete, methods=["POST"])])
    transport = httpx2.ASGITransport(app=app)
    async with (
        httpx2.AsyncClient(transport=transport) as http,
        openai.AsyncOpenAI(base_url="http://peer/v1", api_key="unused", http_client=http) as to,
    ):
        assert await servers.text_loop(to, "peer", [("one", 7), ("one two", 7)]) == 10
        assert asked == [("one", 7, 7), ("one two", 7, 7)]
        with pytest.raises(ValueError, match="asked for 8 tokens, it wrote 7"):
            await servers.text_loop(to, "peer", [("one", 8)])


def test_the_last_turn_beside_the_second_with_and_without_windows(model: Path) -> None:
    # Both of the same plain model: what differs then is nothing but the clock.
    with Engine.load(model, device="cpu") as engine, asyncio.Runner() as runner:
        found = {(r.case, r.metric): r for r in growth(runner, engine, engine, "tiny", 5, turns=6)}
    names = (
        "turn/2 of 6/tiny",
        "turn/6 of 6/tiny",
        "turn/2 of 6/tiny, windowed",
        "turn/6 of 6/tiny, windowed",
    )
    for name in names:
        turn, own, device = (found[name, metric] for metric in ("turn_ms", "own_ms", "pass_ms"))
        assert turn.min > 0 and own.min > 0 and device.min > 0 and turn.repeats == 5
        assert own.value < turn.value
    assert found[names[0], "context"].value < found[names[1], "context"].value
    assert {name for name, metric in found if metric == "attention_share"} == set(names[:2])


def test_what_no_model_holds_is_played_by_a_longer_one_and_what_is_done_is_left_out(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = write_tiny_model(tmp_path / "short", spec=replace(TINY_CHAT, context=1000))
    monkeypatch.setattr(parts, "led_loops", lambda full: [calls_loop(2, 1), calls_loop(20, 1)])
    asked: list[str] = []

    async def measured(loop: Loop, repeats: int) -> list[Record]:
        asked.append(loop.name)
        await timed(loop.tasks())
        return [make_record("agent_loops", loop.name, loop.backend, "turns_s", Figure((1.0,)), note="n")]

    monkeypatch.setattr(parts, "measure", measured)
    out = tmp_path / "out.jsonl"
    command = ["--only", "model", "--model", str(short), "--long", str(model), "--device", "cpu"]
    command += ["--out", str(out), "--resume"]
    short_name, long_name = label(str(short)), label(str(model))
    assert program.main(command) == 0
    wanted = [
        f"calls/2 turns/1 tools/{short_name}",
        f"calls/20 turns/1 tools/{short_name}",
        f"calls/20 turns/1 tools/{long_name}",
    ]
    assert asked == wanted
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["case"] for line in lines] == [wanted[0], wanted[2]]
    assert lines[1]["note"] == f"n; more than {short_name} holds"
    asked.clear()
    assert program.main(command) == 0
    assert asked == wanted[1:2] and len(out.read_text().splitlines()) == 2, (
        "only what did not fit is tried again"
    )
    monkeypatch.setattr(program, "commit", lambda: "another")
    assert program.main(command) == 0
    assert len(out.read_text().splitlines()) == 4, (
        "another commit's lines are no reason to leave anything out"
    )


def test_two_results_are_compared_case_by_case(tmp_path: Path) -> None:
    def write(name: str, *lines: dict[str, Any]) -> Path:
        path = tmp_path / name
        path.write_text(
            "".join(json.dumps({"backend": "native", "card": "a", **line}) + "\n" for line in lines)
        )
        return path

    def line(case: str, metric: str, low: float, value: float, high: float) -> dict[str, Any]:
        return {"case": case, "metric": metric, "min": low, "value": value, "max": high}

    old = write(
        "old", line("x", "turns_s", 1, 1, 1), line("x", "turns_s", 9, 10, 11), line("gone", "p50_ms", 1, 1, 1)
    )
    new = write("new", line("x", "turns_s", 19, 20, 21), line("x", "p50_ms", 1, 2, 3))
    assert newest_of(old)["x", "native", "turns_s"]["value"] == 10
    table = compare(old, new).splitlines()
    assert table[1].split() == ["x", "[native]", "turns_s", "10", "20", "2.00", "better"]
    assert table[2] == "only in old: gone [native]" and table[3] == "only in new: x [native]"
    slower = write("slower", line("x", "turns_s", 1, 2, 3))
    assert compare(old, slower).splitlines()[1].endswith("worse")
    (tmp_path / "broken").write_text("{}\n")
    with pytest.raises(ValueError, match="broken:1 is no record"):
        newest_of(tmp_path / "broken")


def test_the_command_writes_its_lines_where_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = [loop for loop in scripted_loops(full=False) if loop.name == "scripted/20 turns/1 tools"]
    monkeypatch.setattr(parts, "scripted_loops", lambda full: few)
    monkeypatch.setattr(program, "APART", math.inf)  # on a busy machine the clock and the phases drift apart
    out = tmp_path / "lines.jsonl"
    assert program.main(["--only", "scripted", "--out", str(out)]) == 0
    assert "scripted/20 turns/1 tools [scripted]" in capsys.readouterr().out
    assert len(newest_of(out)) >= len({"turns_s", "p50_ms", "p99_ms"})
    assert program.main(["compare", str(out), str(out)]) == 0
    assert " 1.00" in capsys.readouterr().out
    monkeypatch.setattr(program, "APART", -9.0)
    assert program.main(["--only", "scripted", "--out", str(out)]) == 1, "such a loop is no figure"
    assert "not recorded" in capsys.readouterr().out and out.read_text() == ""
    with pytest.raises(SystemExit):
        program.main(["--repeats", "2"])
    assert {"prefill", "reuse", "parse", "dispatch", "append", "idle", "loop"} <= set(PHASES)
