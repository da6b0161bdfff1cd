"""What a led loop's model was given and wrote, as token ids, so that other programs can do the same work.

A peer plays a tape: for each step it computes what is new of the prompt and then as many passes as the turn
has tokens, each pass's token replaced by the tape's. So every program reads the same prompts and writes the
same output, whatever its own sampling or grammar would have made of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from kogagent import TurnEnd
from kogagent.local import Engine, LocalModel
from kogagent.loop.protocols import Model, TurnRequest
from kogagent.types import ModelEvent


@dataclass(frozen=True, slots=True)
class Step:
    """One turn. prompt: all ids that lead to it; output: what the model wrote after them."""

    prompt: tuple[int, ...]
    output: tuple[int, ...]


@dataclass(slots=True)
class Tape:
    """An engine as a ModelSource that writes down every turn of its newest run."""

    engine: Engine
    steps: list[Step] = field(default_factory=list)

    def as_model(self) -> Model:
        self.steps = []
        return _Noting(self.engine.model(), self.steps)


class _Noting:
    def __init__(self, model: LocalModel, steps: list[Step]) -> None:
        self._model, self._steps = model, steps

    def stream(self, request: TurnRequest) -> AsyncIterator[ModelEvent]:
        return _NotingTurn(self._model, self._model.stream(request), self._steps)

    async def aclose(self) -> None:
        await self._model.aclose()


class _NotingTurn:
    def __init__(self, model: LocalModel, turn: Any, steps: list[Step]) -> None:
        self._model, self._turn, self._steps = model, turn, steps

    def __aiter__(self) -> _NotingTurn:
        return self

    async def __anext__(self) -> ModelEvent:
        event: ModelEvent = await self._turn.__anext__()
        if isinstance(event, TurnEnd):
            past = self._model.past
            assert past is not None
            self._steps.append(Step(self._model.prompt, past.turn))
        return event

    async def aclose(self) -> None:
        await self._turn.aclose()
