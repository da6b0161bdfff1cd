"""What a run is worth: functions of a case and a result. Knows values; runs nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pydantic_core import to_jsonable_python

from kogagent.errors import InputError, named_fields
from kogagent.types import AssistantMessage, Message, RunResult, ToolCall


@named_fields
@dataclass(frozen=True, slots=True)
class Case:
    """One question and what is wanted.

    expected: the answer, as a scorer reads it. calls: tools that must be called, as (name, arguments), those
    that are named there. history: what came before. tags group cases in a table of a team's own making.
    """

    name: str
    prompt: str
    expected: Any = None
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    history: tuple[Message, ...] = ()
    tags: tuple[str, ...] = ()
    deps: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name in ("name", "prompt"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise InputError(f"Case.{name}={value!r} must be a text that is not empty")


Score: TypeAlias = bool | float
Scorer: TypeAlias = Callable[[Case, RunResult], Score | Awaitable[Score]]
"""From 0, nothing of what was wanted, to 1, all of it. Its `__name__` heads its column."""


def exact(case: Case, result: RunResult) -> bool:
    """The answer is the expected one, white space at its ends aside."""
    wanted, output = _wanted(case), result.output
    if isinstance(wanted, str):
        return _text(output).strip() == wanted.strip()
    return bool(output == wanted or to_jsonable_python(output, fallback=str, bytes_mode="base64") == wanted)


def contains(case: Case, result: RunResult) -> bool:
    """The answer holds the expected text, or each of several, in any case of letters."""
    text = _text(result.output).casefold()
    return all(str(one).casefold() in text for one in _several(_wanted(case)))


def matches(case: Case, result: RunResult) -> bool:
    """The expected regular expression is found in the answer."""
    return re.search(str(_wanted(case)), _text(result.output)) is not None


def number(case: Case, result: RunResult) -> bool:
    """The last number of the answer is the expected one, to a relative 1e-6."""
    wanted = float(_wanted(case))
    found = re.findall(r"[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?", _text(result.output))
    if not found:
        return False
    return abs(float(found[-1].replace(",", "")) - wanted) <= 1e-6 * max(abs(wanted), 1.0)


def calls(case: Case, result: RunResult) -> float:
    """The share of the expected calls that were made, each once, with at least the expected arguments."""
    made = [one for one in calls_of(result) if one.complete]
    if not case.calls:
        raise InputError(f"case {case.name!r} names no calls, and the scorer 'calls' needs them")
    hit = 0
    for name, arguments in case.calls:
        for one in made:
            if one.name == name and _holds(one, arguments):
                made.remove(one)
                hit += 1
                break
    return hit / len(case.calls)


def no_failures(case: Case, result: RunResult) -> bool:
    """The run came to its answer, and no tool raised."""
    return result.reason == "finished" and not result.failures


SCORERS: dict[str, Scorer] = {
    one.__name__: one for one in (exact, contains, matches, number, calls, no_failures)
}
"""Those that go by a name."""


def calls_of(result: RunResult) -> tuple[ToolCall, ...]:
    """The calls of the run itself, those of the history before it left out."""
    turns = [message for message in result.messages if isinstance(message, AssistantMessage)]
    own = turns[max(len(turns) - result.turns, 0) :]
    return tuple(call for message in own for call in message.calls)


def _holds(call: ToolCall, arguments: Mapping[str, Any]) -> bool:
    given = json.loads(call.arguments)
    return all(name in given and given[name] == value for name, value in arguments.items())


def _wanted(case: Case) -> Any:
    if case.expected is None:
        raise InputError(f"case {case.name!r} has no expected answer, and its scorer needs one")
    return case.expected


def _several(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else (value,)


def _text(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else json.dumps(to_jsonable_python(value, fallback=str, bytes_mode="base64"))
    )
