"""Cases run and scored: several at once, with seeds, errors as trials."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kogagent import Agent, InputError, ToolCall, UserMessage, tool
from kogagent.loop.protocols import TurnRequest
from kogagent.testing import (
    Case,
    Evaluation,
    FunctionModel,
    ScriptedModel,
    Trial,
    call,
    cases_from_lines,
    evaluate,
)
from kogagent.testing.evals import Mean
from kogagent.testing.scorers import SCORERS, calls_of
from kogagent.types import RunResult


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def asked(request: TurnRequest) -> str:
    return next(m.text for m in reversed(request.messages) if isinstance(m, UserMessage))


def echo() -> Agent:
    """Answers with the question, and fails on request."""

    def say(request: TurnRequest) -> str:
        if asked(request) == "fail":
            raise ValueError("asked to")
        seed = request.sampling.seed if request.sampling is not None else -1
        return f"{asked(request)} {seed}"

    return Agent(FunctionModel(say))


async def result_of(*turns: Any, **options: Any) -> RunResult:
    return await Agent(ScriptedModel(*turns), [add], **options).run("go")


async def test_every_case_runs_with_every_seed_in_order() -> None:
    cases = [Case("a", "one", "one 1"), Case("b", "two", "two")]
    done = await evaluate(echo(), cases, ["exact", "contains"], seeds=(1, 7), parallel=3)
    assert [(t.case, t.seed, t.output) for t in done.trials] == [
        ("a", 1, "one 1"),
        ("a", 7, "one 7"),
        ("b", 1, "two 1"),
        ("b", 7, "two 7"),
    ]
    assert [t.scores["exact"] for t in done.trials] == [1, 0, 0, 0]
    assert done.mean("contains").value == 0.75 and done.mean("contains", "b").value == 1
    assert all(t.turns == 1 and t.reason == "finished" and not t.error for t in done.trials)


async def test_a_run_that_raises_is_a_trial_without_points() -> None:
    done = await evaluate(echo(), [Case("bad", "fail", "x"), Case("good", "x", "x")], ["contains"])
    bad, good = done.trials
    assert (bad.error, bad.scores, good.scores) == (
        "ValueError: asked to",
        {"contains": 0.0},
        {"contains": 1.0},
    )
    assert done.errors == (bad,) and "errors" in done.table()


async def test_at_most_so_many_run_at_once() -> None:
    now = most = 0
    gate = asyncio.Event()

    async def say(request: TurnRequest) -> str:
        nonlocal now, most
        now += 1
        most = max(most, now)
        if now == 3:
            gate.set()
        await gate.wait()
        await asyncio.sleep(0)
        now -= 1
        return "x"

    cases = [Case(str(n), "go", "x") for n in range(10)]
    await evaluate(Agent(FunctionModel(say)), cases, parallel=3)
    assert most == 3


async def test_an_agent_may_be_made_for_each_run() -> None:
    async def make(seed: int) -> Agent:
        return Agent(ScriptedModel(call("add", a=seed, b=1), f"It is {seed + 1}."), [add])

    case = Case("sum", "2 + 1?", 3, calls=(("add", {"a": 2}),))
    done = await evaluate(make, [case], ["number", "calls", "no_failures"], seeds=[2, 3])
    first, second = done.trials
    assert first.scores == {"number": 1, "calls": 1, "no_failures": 1} and first.calls == (
        'add({"a": 2, "b": 1})',
    )
    assert second.scores == {"number": 0, "calls": 0, "no_failures": 1}


async def test_scorers() -> None:
    def score(name: str, expected: object, result: RunResult, **case: object) -> object:
        return SCORERS[name](Case("x", "go", expected, **case), result)  # type: ignore[arg-type]

    answer = await result_of("  It is 1,234.5 degrees in Oslo.\n")
    assert score("exact", "It is 1,234.5 degrees in Oslo.", answer) and not score("exact", "It is", answer)
    assert score("contains", "OSLO", answer) and score("contains", ["it is", "oslo"], answer)
    assert not score("contains", ["it is", "bergen"], answer)
    assert score("matches", r"\bin O\w+o\b", answer) and not score("matches", "^Oslo", answer)
    assert score("number", 1234.5, answer) and not score("number", 1234.6, answer)
    assert not score("number", 1, await result_of("none"))
    typed = await result_of('{"a": 1}', output_type=dict[str, int])
    assert score("exact", {"a": 1}, typed) and not score("exact", {"a": 2}, typed)
    acted = await result_of([call("add", a=1, b=2), call("add", a=1, b=2)], "3")
    assert score("calls", None, acted, calls=(("add", {"a": 1}), ("add", {}))) == 1
    assert score("calls", None, acted, calls=(("add", {"a": 1}),) * 4) == 0.5
    assert score("calls", None, acted, calls=(("add", {"c": None}), ("other", {}))) == 0
    for name in ("exact", "contains", "matches", "number"):
        with pytest.raises(InputError, match="no expected answer"):
            score(name, None, answer)
    with pytest.raises(InputError, match="names no calls"):
        score("calls", None, answer)


async def test_calls_of_the_history_are_not_the_runs() -> None:
    first = await result_of(call("add", a=1, b=2), "3")
    second = await Agent(ScriptedModel("again 3"), [add]).run("and?", history=first.messages)
    assert len(calls_of(first)) == 1 and calls_of(second) == ()
    case = Case("later", "and?", "again", history=first.messages)
    done = await evaluate(lambda seed: Agent(ScriptedModel("again 3"), [add]), [case], ["contains"])
    assert done.trials[0].scores == {"contains": 1} and done.trials[0].calls == ()


async def test_a_scorer_of_ones_own_may_be_async_and_must_give_a_score() -> None:
    async def half(case: Case, result: RunResult) -> float:
        return 0.5

    done = await evaluate(echo(), [Case("a", "x")], [half])
    assert done.trials[0].scores == {"half": 0.5}
    for wrong in (2, None, float("nan"), "1"):

        def bad(case: Case, result: RunResult, wrong: Any = wrong) -> Any:
            return wrong

        with pytest.raises(InputError, match="scorer 'bad' gave"):
            await evaluate(echo(), [Case("a", "x")], [bad])


async def test_what_cannot_be_evaluated_is_refused() -> None:
    case = Case("a", "x", "x")
    for cases, scorers, options, said in (
        ([], ["exact"], {}, "no cases"),
        ([case, case], ["exact"], {}, "two cases have the name 'a'"),
        ([{"prompt": "x"}], ["exact"], {}, "no Case"),
        ([case], ["exakt"], {}, "no scorer 'exakt'"),
        ([case], "exact", {}, "must be a list"),
        ([case], ["exact", "exact"], {}, "one name"),
        ([case], ["exact"], {"seeds": 0}, "seeds=0"),
        ([case], ["exact"], {"seeds": [1, 1]}, "different"),
        ([case], ["exact"], {"parallel": 0}, "parallel=0"),
    ):
        with pytest.raises(InputError, match=said):
            await evaluate(echo(), cases, scorers, **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"Case\.prompt"):
        Case("a", " ")


def test_an_interval_holds_its_mean_and_narrows(rng: np.random.Generator) -> None:
    for n in (1, 2, 10, 100):
        for scores in (rng.integers(0, 2, n).astype(float), rng.random(n)):
            mean = Mean.of([float(score) for score in scores])
            assert 0 <= mean.low <= mean.value <= mean.high <= 1
    assert Mean.of([1.0] * 10).low == pytest.approx(0.7225, abs=1e-3)  # Wilson, by hand
    assert Mean.of([0.0, 1.0] * 50).high < Mean.of([0.0, 1.0] * 5).high


async def test_an_evaluation_is_a_table_and_json_that_reads_back() -> None:
    done = await evaluate(
        echo(), [Case("short", "x", "x"), Case("a longer name", "y", "z")], ["contains"], seeds=2
    )
    head, *rows = done.table().splitlines()
    assert head.split() == ["case", "runs", "contains", "turns", "tokens", "seconds", "errors"]
    assert rows[0].split()[:3] == ["short", "2", "1.00"] and rows[2].split()[:3] == ["all", "4", "0.50"]
    again = Evaluation.from_json(done.to_json())
    assert again.trials == done.trials and again.scorers == done.scorers
    with pytest.raises(InputError, match="no evaluation's JSON"):
        Evaluation.from_json('{"trials": [{}]}')
    assert isinstance(again.trials[0], Trial)


def test_cases_are_read_from_lines() -> None:
    lines = (
        '{"prompt": "1 + 1?", "expected": 2, "tags": ["sum"],'
        ' "calls": [{"name": "add", "arguments": {"a": 1}}]}\n\n'
        '{"name": "b", "prompt": "go", "history": [{"role": "user", "text": "hi"}]}\n'
    )
    first, second = cases_from_lines(lines)
    assert first == Case("1", "1 + 1?", 2, (("add", {"a": 1}),), tags=("sum",))
    assert second.history == (UserMessage("hi"),) and second.name == "b"
    for bad, said in (
        ("nonsense", "line 1"),
        ('{"prompt": "x"}\n{"name": "y"}', "line 2: it has no 'prompt'"),
        ('{"prompt": "x", "expect": 1}', "unknown key 'expect'"),
        ('{"prompt": ""}', r"Case\.prompt"),
        ('{"prompt": "x", "calls": ["add"]}', "a call is"),
        ('{"prompt": "x", "history": [{}]}', "history, message 0"),
        ("[]", "an object"),
    ):
        with pytest.raises(InputError, match=said):
            cases_from_lines(bad)


def test_the_command_runs_cases_and_says_how_it_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from contextlib import nullcontext

    from kogagent.cli import loading
    from kogagent.cli.app import main

    model = FunctionModel(lambda request: f"You said {asked(request)}.")
    monkeypatch.setattr(loading, "load_engine", lambda *_: nullcontext(model))
    cases = tmp_path / "cases.jsonl"
    cases.write_text('{"prompt": "one", "expected": "one"}\n{"prompt": "two", "expected": "three"}\n')
    assert main(["eval", "m", str(cases), "--seeds", "2", "--output", str(tmp_path / "out.json")]) == 0
    table = capsys.readouterr().out
    assert "contains" in table and "all" in table
    assert len(Evaluation.from_json((tmp_path / "out.json").read_text()).trials) == 4
    assert main(["eval", "m", str(cases), "--score", "contains", "--at-least", "0.9", "--json"]) == 1
    told = capsys.readouterr()
    assert json.loads(told.out)["means"]["contains"]["value"] == 0.5 and "less than 0.9" in told.err
    (tmp_path / "my_evals.py").write_text(
        "from kogagent.testing import Case\n"
        "cases = [Case('a', 'x')]\n"
        "def polite(case, result):\n    return 'please' in result.output\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["eval", "m", "my_evals:cases", "--score", "my_evals:polite"]) == 0
    assert "polite" in capsys.readouterr().out
    for bad, said in (
        ("none.jsonl", "neither a file"),
        ("my_evals:nothing", "no 'nothing'"),
        ("my_evals:polite.x", "no 'x'"),
        ("my_evals.py", "line 1"),
    ):
        assert main(["eval", "m", bad]) == 2
        assert said in capsys.readouterr().err
    assert main(["eval", "m", str(cases), "--score", "exakt"]) == 2
    assert "no scorer 'exakt'" in capsys.readouterr().err


def test_a_call_is_only_what_was_complete() -> None:
    cut = ToolCall("1", "add", '{"a": 1', complete=False)
    from kogagent.types import AssistantMessage, Timings, Usage

    result = RunResult("", (AssistantMessage("", "", (cut,)),), Usage(), Timings(), 1, "finished")
    assert SCORERS["calls"](Case("x", "go", calls=(("add", {}),)), result) == 0
