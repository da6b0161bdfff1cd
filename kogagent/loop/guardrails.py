"""What may come into a run and what may leave it. Knows values only."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from kogagent.errors import GuardrailError, InputError, Retry, check_takes, named_fields
from kogagent.types import Message

Guard: TypeAlias = Callable[[Any], str | Awaitable[str | None] | None]
"""Gets what may pass; gives None, or says why it may not: gives that as text, or raises Retry with it."""


@named_fields
@dataclass(frozen=True, slots=True)
class Guardrails:
    """Functions, sync or async, that let what they get pass by None, or say in words why not: as what they
    give, or by raising Retry, as a tool would.

    prompt: each gets the messages the first turn reads. They run beside that turn and cost it no time;
        nothing the model says is acted on before they have let it pass.
    answer: each gets the output of a run before the run gives it out.
    on_answer: "retry" tells the model why its answer may not pass, Limits.output_retries times, then raises;
        "raise" raises at once.

    A refusal that ends a run is a GuardrailError that names the guardrail; what else one raises reaches the
    caller as it is.
    """

    prompt: Sequence[Callable[[Sequence[Message]], str | Awaitable[str | None] | None]] = ()
    answer: Sequence[Guard] = ()
    on_answer: Literal["retry", "raise"] = "retry"

    def __post_init__(self) -> None:
        for name in ("prompt", "answer"):
            guards = getattr(self, name)
            if isinstance(guards, str) or not isinstance(guards, Iterable):
                raise InputError(f"Guardrails.{name}={guards!r} must be a list of functions")
            object.__setattr__(self, name, tuple(guards))
            for guard in getattr(self, name):
                if not callable(guard):
                    raise InputError(f"Guardrails.{name} holds {guard!r}, which is no function")
                check_takes(guard, f"Guardrails.{name}", "the messages" if name == "prompt" else "the output")
        if self.on_answer not in ("retry", "raise"):
            raise InputError(f"Guardrails.on_answer={self.on_answer!r} must be 'retry' or 'raise'")

    async def check_prompt(self, messages: Sequence[Message]) -> None:
        """Raises GuardrailError."""
        refusal = await _refusal(self.prompt, messages)
        if refusal is not None:
            raise _error("the prompt", *refusal)

    async def why_not(self, output: Any) -> str | None:
        """What is wrong with an answer. Raises GuardrailError where that ends the run."""
        refusal = await _refusal(self.answer, output)
        if refusal is None:
            return None
        if self.on_answer == "raise":
            raise _error("the answer", *refusal)
        return refusal[1]

    async def last_word(self, output: Any) -> None:
        """Raises GuardrailError for an answer that may not pass."""
        refusal = await _refusal(self.answer, output)
        if refusal is not None:
            raise _error("the answer", *refusal)


async def _refusal(guards: Iterable[Guard], value: Any) -> tuple[str, str] | None:
    """(name, why) of the first guardrail that does not let it pass."""
    for guard in guards:
        name = getattr(guard, "__name__", type(guard).__name__)
        try:
            said = guard(value)
            why = await said if inspect.isawaitable(said) else said
        except Retry as error:
            why = str(error) or "Try again."
        if why is not None and not isinstance(why, str):
            raise InputError(f"the guardrail {name!r} gave {why!r}. It must give None, or why not as text.")
        if why is not None:
            return name, why
    return None


def _error(what: str, name: str, why: str) -> GuardrailError:
    return GuardrailError(f"the guardrail {name!r} did not let {what} pass: {why}", guardrail=name, why=why)
