"""One turn of a local model: prepared, observed and planned if asked for, acted, parsed. Knows tokens and
messages."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kogagent.engine.backend import Emitted
from kogagent.engine.counters import Counters
from kogagent.engine.stream import SessionStream
from kogagent.errors import ContextError
from kogagent.local.kinds import argument_kinds
from kogagent.local.phrase import Phrase
from kogagent.local.stream import usage_of
from kogagent.local.tokens import Writing
from kogagent.loop.protocols import TurnRequest
from kogagent.types import (
    AssistantMessage,
    CallDelta,
    CallReady,
    CallStarted,
    FinishReason,
    Message,
    ModelEvent,
    ObserveDelta,
    PlanDelta,
    TextDelta,
    Timings,
    ToolCall,
    ToolSpec,
    TurnEnd,
    Usage,
)

if TYPE_CHECKING:
    from kogagent.chat.parser import TurnParser
    from kogagent.local.model import LocalModel


_LEAST_TURN = 16
"""Tokens that must be left in the context for a turn, unless it was asked for fewer: the shortest calls."""


@dataclass(frozen=True, slots=True)
class Past:
    """The last whole turn: what led to it, what was generated, and what the loop was told. prompt: so many
    ids led to it."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    prompt: int
    turn: tuple[int, ...]
    said: frozenset[str]  # as it may stand in the message: a phrase that was the answer may stand once
    calls: tuple[ToolCall, ...]
    next_call: int

    def continues(self, messages: tuple[Message, ...], tools: tuple[ToolSpec, ...]) -> bool:
        """Whether these messages are those of then, the turn as it was told, and more."""
        n = len(self.messages)
        if len(messages) < n + 2 or tools != self.tools or messages[:n] != self.messages:
            return False
        answer = messages[n]
        return (
            isinstance(answer, AssistantMessage)
            and answer.plan + answer.text in self.said
            and answer.calls == self.calls
        )


class ModelTurn:
    """The events of one turn: an async iterator with `aclose`. Nothing runs before the first is asked for."""

    def __init__(self, model: LocalModel, request: TurnRequest) -> None:
        self._model, self._request = model, request
        self._sampling = request.sampling or model.options.sampling
        self._messages, self._tools = tuple(request.messages), tuple(request.tools)
        self._events: deque[ModelEvent] = deque()
        self._phase = self._prepare
        self._stream: SessionStream | None = None
        self._done = False
        self._parser: TurnParser | None = None
        self._began = time.perf_counter()
        self._render_s = self._parse_s = self._waited_s = 0.0
        # What a phrase wrote past its end is cut off; it was written all the same.
        self._writing = Writing(model.tokenizer.vocabulary, model.written)
        self._counters = Counters()
        self._prompted = False  # the prompt has been counted
        phases: list[tuple[Callable[[str], ObserveDelta | PlanDelta], int]] = [
            (ObserveDelta, request.observe_tokens),
            (PlanDelta, request.plan_tokens),
        ]
        self._phrases = [phase for phase in phases if phase[1]]
        self._observed = self._planned = ""
        self._said: list[str] = []
        self._answered = ""  # a phrase that was the answer, told as both
        self._calls: list[ToolCall] = []
        self._untold: list[ModelEvent] = []  # of a call that may turn out to be a repetition
        self._repeated = False

    def __aiter__(self) -> ModelTurn:
        return self

    async def __anext__(self) -> ModelEvent:
        while not self._events:
            if self._done:
                raise StopAsyncIteration
            try:
                await self._phase()
            except BaseException:
                await self.aclose()
                raise
        return self._events.popleft()

    @property
    def usage(self) -> Usage:
        """Tokens so far."""
        if self._stream is None:
            return usage_of(self._counters)
        return usage_of(self._counters + self._counted(self._stream))

    async def aclose(self) -> None:
        """Stop at a token border and wait for it. Idempotent."""
        if not self._done:
            self._done = True
            self._events.clear()
            self._model.past = None  # half a turn is nothing to go on from
        if self._stream is not None:
            stream, self._stream = self._stream, None
            await stream.aclose()
            self._counters += self._counted(stream)

    # ── phases, each a step of __anext__ ──

    async def _prepare(self) -> None:
        """Compile, render, and make the session's ids the prompt."""
        model, request = self._model, self._request
        self._began = time.perf_counter()
        self._grammar = await model.grammar(request)
        self._session, first_call = await model.open(self._messages, self._tools)
        self._prompt = len(self._session)
        self._check_room(request.max_tokens)
        self._session.priority = request.priority
        self._first_call = max(first_call, request.first_call)
        self._kinds = argument_kinds(model.chat, request.tools)
        self._left = request.max_tokens
        self._length = self._prompt  # of the prompt and what is settled after it
        self._render_s += time.perf_counter() - self._began
        await self._start()

    def _check_room(self, wanted: int) -> None:
        """Raise ContextError, before anything is computed, where the context has no room for a turn."""
        length, capacity = self._prompt, self._session.capacity
        room = capacity - length + 1  # the last id a turn writes needs no place in the cache
        if room < min(_LEAST_TURN, wanted):
            raise ContextError(
                f"the prompt has {length} tokens, the context holds {capacity}: {room} left are too few for "
                "a turn. Shorten it."
            )

    async def _start(self) -> None:
        """The next phase: a phrase while there are any, then the act."""
        vocabulary = self._model.tokenizer.vocabulary
        options = self._model.options
        if self._phrases:
            kind, budget = self._phrases.pop(0)
            form = self._model.chat.format
            self._phrase = Phrase(kind, vocabulary, "" if form.at_start else form.trigger)
            self._stream = self._session.stream(
                sampling=self._sampling,
                stop_ids=vocabulary.special | vocabulary.line_ends,  # a phrase is one line
                max_tokens=min(budget, self._left),
                legal_ids=len(vocabulary),
            )
            self._phase = self._run_phrase
            return
        self._stream = self._session.stream(
            sampling=self._sampling,
            stop_ids=vocabulary.end_ids,
            max_tokens=self._left,
            matcher=None if self._grammar is None else self._grammar.start(),
            force=options.forced_runs,
            legal_ids=len(vocabulary),
            patient=options.patient and not options.distinct_calls,
        )
        self._phase = self._run_act

    async def _run_phrase(self) -> None:
        phrase = self._phrase
        try:
            batch = await self._next()
        except StopAsyncIteration:
            self._events += phrase.finish()
            await self._end_phrase()
            return
        began = time.perf_counter()
        self._events += phrase.feed(batch)
        self._parse_s += time.perf_counter() - began
        if phrase.over:
            self._events += phrase.finish() if phrase.end is not None else ()
            await self._end_phrase()

    async def _end_phrase(self) -> None:
        """Cut the session to the phrase, and go on to the next phase in the same turn of the template."""
        await self._end_stream()
        phrase, tokenizer = self._phrase, self._model.tokenizer
        self._left -= phrase.taken
        text = phrase.text
        if phrase.kind is PlanDelta:
            self._planned = text
        else:
            self._observed = text
        ended = phrase.end in tokenizer.end_ids
        if ended and self._request.tool_choice in ("auto", "none") and self._request.output_schema is None:
            # The model has nothing to do and has said so: what it wrote is its answer.
            self._answered = text
            self._tell(TextDelta(text))
            self._finish("stop")
            return
        at_call = (phrase.end is not None and not ended) or phrase.at_call
        if at_call:
            self._phrases.clear()  # it has begun to act
        if not text.strip():
            self._session.rewind(self._length)
        else:
            self._session.rewind(self._length + phrase.kept)
            glue = phrase.cut + ("" if at_call else "\n")
            ids = tokenizer.encode_continuing(glue) if glue else []
            self._session.append(ids)
            self._counters += Counters(prefilled=len(ids))
        self._length = len(self._session)
        if self._left < 1:
            self._finish("length")
            return
        await self._start()

    async def _run_act(self) -> None:
        try:
            batch = await self._next()
        except StopAsyncIteration:
            assert self._stream is not None
            reason = self._stream.reason
            await self._end_stream()
            self._tell_rest()
            for event in self._reader().finish():
                self._tell(event)
            assert reason is not None
            self._finish(reason)
            return
        began = time.perf_counter()
        events = self._reader().feed([emitted.id for emitted in batch])
        if self._model.options.distinct_calls:
            self._tell_distinct(events)
        else:
            for event in events:
                self._tell(event)
        self._parse_s += time.perf_counter() - began
        if self._repeated:
            await self._end_stream()
            self._finish("stop")

    def _reader(self) -> TurnParser:
        """Made when there is something to read: the device works by then, and need not wait for it."""
        if self._parser is None:
            chat, request = self._model.chat, self._request
            self._parser = chat.parser(
                self._first_call,
                calls=bool(request.tools) and request.tool_choice != "none",
                kinds=self._kinds,
            )
        return self._parser

    def _tell_distinct(self, events: Sequence[ModelEvent]) -> None:
        """Tell these events up to a call that was made already; of such a call, nothing."""
        for event in events:
            if self._calls and isinstance(event, CallStarted | CallDelta):
                self._untold.append(event)
                continue
            if isinstance(event, CallReady) and event.call.complete:
                made = ((c.name, c.arguments) for c in self._calls)
                self._repeated = (event.call.name, event.call.arguments) in made
                if self._repeated:
                    return
            self._tell_rest()
            self._tell(event)

    def _tell_rest(self) -> None:
        untold, self._untold = self._untold, []
        for event in untold:
            self._tell(event)

    async def _next(self) -> list[Emitted]:
        """The next batch of ids, and what waiting for it took."""
        assert self._stream is not None
        began = time.perf_counter()
        try:
            batch = await self._stream.__anext__()
        finally:
            self._waited_s += time.perf_counter() - began
        began = time.perf_counter()
        self._writing.feed(batch)
        self._parse_s += time.perf_counter() - began
        return batch

    async def _end_stream(self) -> None:
        assert self._stream is not None
        stream, self._stream = self._stream, None
        await stream.aclose()
        self._counters += self._counted(stream)
        self._prompted = True

    def _counted(self, stream: SessionStream) -> Counters:
        """What a phase cost; the turn's prompt counts with the first."""
        return (
            replace(stream.counters, reused=0, prefilled=0, restored=0) if self._prompted else stream.counters
        )

    # ── events ──

    def _tell(self, event: ModelEvent) -> None:
        if isinstance(event, TextDelta):
            if not event.text:
                return
            self._said.append(event.text)
        elif isinstance(event, CallReady):
            self._calls.append(event.call)
        self._events.append(event)

    def _told(self) -> frozenset[str]:
        """The turn's words as a message may hold them: its plan and its text, one after the other."""
        lines = "\n".join(part for part in (self._observed, self._planned) if part)
        text = "".join(self._said)
        if not self._answered:
            return frozenset((lines + text,))
        before = self._observed if self._planned else ""
        return frozenset((lines + text, lines, before + text, text))

    def _finish(self, reason: FinishReason) -> None:
        self._done = True
        # With a repetition left out, the ids say more than was told: the next turn renders what was.
        turn = () if self._repeated else self._session.ids_from(self._prompt)
        self._model.past = (
            None
            if self._repeated
            else Past(
                self._messages,
                self._tools,
                self._prompt,
                turn,
                self._told(),
                tuple(self._calls),
                self._first_call + len(self._calls),
            )
        )
        c = self._counters
        self._events.append(
            TurnEnd(
                reason,
                self.usage,
                Timings(
                    prefill_s=c.prefill_s,
                    sampled_s=c.sampled_s,
                    forced_s=c.forced_s,
                    render_s=self._render_s,
                    wall_s=time.perf_counter() - self._began,
                    reuse_s=c.reuse_s,
                    parse_s=self._parse_s,
                    idle_s=max(self._waited_s - c.reuse_s - c.prefill_s - c.sampled_s - c.forced_s, 0.0),
                ),
                self._writing.finish(),
                turn,
            )
        )
