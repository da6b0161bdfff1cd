"""Cases run by an agent, several times and several at once, and scored. Knows agents; no pytest."""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic_core import to_jsonable_python

from kogagent.errors import InputError
from kogagent.loop.notation import message_from_json
from kogagent.sampling import SamplingParams
from kogagent.testing.scorers import SCORERS, Case, Scorer, calls_of
from kogagent.types import RunResult

if TYPE_CHECKING:
    from kogagent.loop.agent import Agent

AgentSource: TypeAlias = "Agent | Callable[[int], Agent | Awaitable[Agent]]"
"""An agent, or a function that makes one for a seed: for models that keep a script, say."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of one case. error is what it raised, "" for nothing; scores are then 0."""

    case: str
    seed: int
    scores: Mapping[str, float]
    output: Any = None
    calls: tuple[str, ...] = ()
    reason: str = ""
    error: str = ""
    turns: int = 0
    tokens: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over n trials with the bounds of its 95 % confidence interval."""

    value: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, scores: Sequence[float]) -> Mean:
        """Wilson's interval where every score is 0 or 1, the normal one elsewhere."""
        n, mean = len(scores), fmean(scores)
        if all(score in (0.0, 1.0) for score in scores):
            z = 1.96
            middle = (mean + z * z / (2 * n)) / (1 + z * z / n)
            half = z * math.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n)) / (1 + z * z / n)
        else:
            middle, half = mean, 1.96 * stdev(scores) / math.sqrt(n) if n > 1 else math.inf
        return cls(mean, max(middle - half, 0.0), min(middle + half, 1.0), n)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Every trial, in the order of cases and seeds, however they ran."""

    scorers: tuple[str, ...]
    trials: tuple[Trial, ...]

    def mean(self, scorer: str, case: str | None = None) -> Mean:
        """Over all trials, or those of a case. Raises InputError for a name that is not there."""
        if scorer not in self.scorers:
            raise InputError(f"there is no scorer {scorer!r}; there are {', '.join(self.scorers)}")
        scores = [trial.scores[scorer] for trial in self.trials if case in (None, trial.case)]
        if not scores:
            raise InputError(f"there is no case {case!r}")
        return Mean.of(scores)

    @property
    def errors(self) -> tuple[Trial, ...]:
        return tuple(trial for trial in self.trials if trial.error)

    def table(self) -> str:
        """A line a case, then the whole with its confidence intervals."""
        names = list(dict.fromkeys(trial.case for trial in self.trials))
        rows = [("case", "runs", *self.scorers, "turns", "tokens", "seconds", "errors")]
        for name in (*names, None):
            own = [trial for trial in self.trials if name in (None, trial.case)]
            rows.append(
                (
                    "all" if name is None else name,
                    str(len(own)),
                    *(f"{fmean(trial.scores[scorer] for trial in own):.2f}" for scorer in self.scorers),
                    f"{fmean(trial.turns for trial in own):.1f}",
                    f"{fmean(trial.tokens for trial in own):,.0f}",
                    f"{fmean(trial.seconds for trial in own):.2f}",
                    str(sum(bool(trial.error) for trial in own) or ""),
                )
            )
        bounds = [self.mean(scorer) for scorer in self.scorers]
        rows.append(("95 %", "", *(f"{one.low:.2f}-{one.high:.2f}" for one in bounds), *[""] * 4))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if at == 0 else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        )

    def to_json(self) -> str:
        """Everything, as one JSON object; `Evaluation.from_json` reads it."""
        trials = [
            to_jsonable_python(asdict(trial), fallback=str, bytes_mode="base64") for trial in self.trials
        ]
        means = {scorer: asdict(self.mean(scorer)) for scorer in self.scorers}
        return json.dumps({"scorers": self.scorers, "means": means, "trials": trials}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Evaluation:
        """Raises InputError for what is no evaluation."""
        try:
            value = json.loads(text)
            trials = tuple(Trial(**{**one, "calls": tuple(one["calls"])}) for one in value["trials"])
            return cls(tuple(value["scorers"]), trials)
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"this is no evaluation's JSON: {error!r}") from error


async def evaluate(
    agent: AgentSource,
    cases: Iterable[Case],
    scorers: Sequence[Scorer | str] = ("exact",),
    *,
    seeds: int | Sequence[int] = 1,
    parallel: int = 4,
    on_trial: Callable[[Trial], None] | None = None,
) -> Evaluation:
    """Run every case with every seed, at most `parallel` at once, and score what comes of it.

    A seed is the sampler's: an agent that samples (temperature > 0) answers differently with each. seeds=3 is
    0, 1, 2. A run that raises is a trial with an error and no points; a scorer that raises is a mistake in
    the scorer and ends the evaluation. on_trial is called as each ends. Raises InputError.
    """
    listed = _checked(cases)
    named = _named(scorers)
    drawn = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not drawn or len(set(drawn)) < len(drawn):
        raise InputError(f"seeds={seeds!r} must be a number >= 1 or different integers")
    if not isinstance(parallel, int) or isinstance(parallel, bool) or parallel < 1:
        raise InputError(f"parallel={parallel!r} must be a positive integer")
    gate = asyncio.Semaphore(parallel)

    async def one(case: Case, seed: int) -> Trial:
        async with gate:
            trial = await _tried(agent, case, seed, named)
        if on_trial is not None:
            on_trial(trial)
        return trial

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(case, seed)) for case in listed for seed in drawn]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return Evaluation(tuple(named), tuple(task.result() for task in tasks))


async def _tried(agent: AgentSource, case: Case, seed: int, scorers: Mapping[str, Scorer]) -> Trial:
    from kogagent.loop.agent import Agent

    started = time.perf_counter()
    try:
        made: Any = agent if isinstance(agent, Agent) else agent(seed)
        made = await made if inspect.isawaitable(made) else made
        sampling = replace(made.sampling or SamplingParams(), seed=seed)
        result = await made.run(case.prompt, history=case.history or None, deps=case.deps, sampling=sampling)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - started
        return Trial(case.name, seed, dict.fromkeys(scorers, 0.0), error=said, seconds=seconds)
    seconds = time.perf_counter() - started
    scores = {name: await _scored(name, scorer, case, result) for name, scorer in scorers.items()}
    return Trial(
        case.name,
        seed,
        scores,
        result.output,
        tuple(f"{call.name}({call.arguments})" for call in calls_of(result)),
        result.reason,
        "",
        result.turns,
        result.usage.prompt_tokens + result.usage.completion_tokens,
        seconds,
    )


async def _scored(name: str, scorer: Scorer, case: Case, result: RunResult) -> float:
    score: Any = scorer(case, result)
    score = await score if inspect.isawaitable(score) else score
    if not isinstance(score, bool | int | float) or not 0 <= score <= 1:
        raise InputError(
            f"scorer {name!r} gave {score!r} for case {case.name!r}: a score is 0 to 1, or a bool"
        )
    return float(score)


def _checked(cases: Iterable[Case]) -> list[Case]:
    listed = list(cases)
    names: set[str] = set()
    for case in listed:
        if not isinstance(case, Case):
            raise InputError(f"cases holds {case!r}, which is no Case")
        if case.name in names:
            raise InputError(f"two cases have the name {case.name!r}")
        names.add(case.name)
    if not listed:
        raise InputError("there are no cases to run")
    return listed


def _named(scorers: Sequence[Scorer | str]) -> dict[str, Scorer]:
    if isinstance(scorers, str) or not scorers:
        raise InputError(f"scorers={scorers!r} must be a list of functions or names")
    named: dict[str, Scorer] = {}
    for one in scorers:
        if isinstance(one, str):
            if one not in SCORERS:
                raise InputError(f"there is no scorer {one!r}; there are {', '.join(SCORERS)}")
            named[one] = SCORERS[one]
        elif callable(one):
            named[getattr(one, "__name__", repr(one))] = one
        else:
            raise InputError(f"scorers holds {one!r}, which is no function")
    if len(named) < len(scorers):
        raise InputError(f"two scorers have one name: {', '.join(named)}")
    return named


# ── cases as JSON lines ──────────────────────────────────────────────────────────────────────


def cases_from_lines(text: str) -> tuple[Case, ...]:
    """A case a line: {"name": …, "prompt": …, "expected": …, "calls": [{"name": …, "arguments": {…}}],
    "history": […], "tags": […]}; prompt is needed, name is the line's number by default. Raises InputError
    that names the line and the key."""
    cases = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                cases.append(_case(json.loads(line), number))
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                raise InputError(f"line {number}: {error}") from error
    return tuple(cases)


_KEYS = ("name", "prompt", "expected", "calls", "history", "tags")


def _case(value: Any, number: int) -> Case:
    if not isinstance(value, dict):
        raise InputError(f"a case is an object, not {value!r}")
    unknown = value.keys() - set(_KEYS)
    if unknown:
        raise InputError(f"unknown key {min(unknown)!r}; known are {', '.join(_KEYS)}")
    if "prompt" not in value:
        raise InputError("it has no 'prompt'")
    calls = []
    for call in value.get("calls", ()):
        if not isinstance(call, dict) or not call.keys() <= {"name", "arguments"} or "name" not in call:
            raise InputError(f"a call is {{'name': …, 'arguments': {{…}}}}, not {call!r}")
        calls.append((call["name"], dict(call.get("arguments", {}))))
    history = tuple(
        message_from_json(m, f"history, message {i}") for i, m in enumerate(value.get("history", ()))
    )
    name = value.get("name", str(number))
    return Case(
        name, value["prompt"], value.get("expected"), tuple(calls), history, tuple(value.get("tags", ()))
    )
