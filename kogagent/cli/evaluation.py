"""The command that runs cases. Knows files, exit codes and the table; the running is testing.evals'."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from kogagent.cli import live, loading
from kogagent.cli.commands import BAD_INPUT, DONE, FAILED, INTERRUPTED
from kogagent.errors import InputError, KogagentError

if TYPE_CHECKING:
    from kogagent.testing.evals import Evaluation, Trial
    from kogagent.testing.scorers import Case, Scorer


def run(
    model: str,
    cases: str,
    scores: Sequence[str],
    tools: Sequence[str],
    *,
    agent: Mapping[str, Any],
    limits: Mapping[str, Any],
    temperature: float,
    seeds: int,
    parallel: int,
    at_least: float,
    output: Path | None,
    device: str,
    dtype: str,
    json: bool,
) -> int:
    """Everything is read before the model is loaded: what is wrong is told at once."""
    from kogagent.loop.agent import Agent
    from kogagent.loop.limits import Limits
    from kogagent.sampling import SamplingParams
    from kogagent.testing.evals import evaluate

    try:
        listed = _cases(cases)
        scorers = _scorers(scores, listed)
        found = loading.load_tools(tools)
        sampling = SamplingParams(temperature=temperature)
        settings: dict[str, Any] = {**agent, "limits": Limits(**limits), "sampling": sampling}
        if output is not None and not output.parent.is_dir():
            raise InputError(f"--output {str(output)!r}: there is no folder {str(output.parent)!r}")
        with loading.load_engine(model, device, dtype) as engine:
            tested = Agent(engine, found, **settings)
            told = _Progress(len(listed) * seeds)
            work = evaluate(tested, listed, scorers, seeds=seeds, parallel=parallel, on_trial=told)
            evaluation = asyncio.run(work)
    except InputError as error:
        live.report(error)
        return BAD_INPUT
    except KogagentError as error:
        live.report(error)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    print(evaluation.to_json() if json else evaluation.table())  # noqa: T201
    if output is not None:
        output.write_text(evaluation.to_json() + "\n", encoding="utf-8")
    return DONE if _good(evaluation, at_least) else FAILED


def _good(evaluation: Evaluation, at_least: float) -> bool:
    for trial in evaluation.errors[:5]:
        live.report(InputError(f"case {trial.case!r}, seed {trial.seed}: {trial.error}"))
    low = [scorer for scorer in evaluation.scorers if evaluation.mean(scorer).value < at_least]
    for scorer in low:
        live.report(InputError(f"{scorer} is {evaluation.mean(scorer).value:.2f}, less than {at_least:g}"))
    return not low and not evaluation.errors


class _Progress:
    """On a terminal, a line on the error stream that counts."""

    def __init__(self, total: int) -> None:
        self._console = Console(stderr=True)
        self._total, self._done = total, 0

    def __call__(self, trial: Trial) -> None:
        self._done += 1
        if self._console.is_terminal:
            end = "\r" if self._done < self._total else "\n"
            self._console.print(f"{self._done}/{self._total} ", end=end, highlight=False)


def _cases(name: str) -> Sequence[Case]:
    from kogagent.testing.evals import cases_from_lines

    path = Path(name)
    if path.is_file():
        try:
            return cases_from_lines(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise InputError(f"{name}: it is not UTF-8 text: {error}") from error
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
    if ":" not in name:
        raise InputError(f"{name!r} is neither a file of cases nor module:cases")
    found = loading.load_object(name, "cases")
    found = found() if callable(found) else found
    if not isinstance(found, list | tuple):
        raise InputError(f"cases {name!r} is {type(found).__name__}, not a list of Case")
    return found


def _scorers(names: Sequence[str], cases: Sequence[Case]) -> list[Scorer | str]:
    """Those that were named; by default what the cases have something to compare with."""
    if names:
        return [loading.load_object(one, "--score") if ":" in one else one for one in names]
    found: list[Scorer | str] = []
    if cases and all(case.expected is not None for case in cases):
        found.append("contains")
    if cases and all(case.calls for case in cases):
        found.append("calls")
    return found or ["no_failures"]
