"""The loop's Model made of an engine: a turn is rendered, planned, acted, parsed. Knows tokens and messages.

A conversation is one session. The next turn is the ids of the last one and what the template puts after them,
so that nothing is rendered, encoded or computed twice; where the messages are not the last turn's with more
behind them, everything is rendered anew and the session keeps the longest common prefix.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from kogagent.chat import Chat
from kogagent.engine.backend import Emitted, TokenGrammar
from kogagent.engine.engine import EngineCore
from kogagent.engine.kv import common_prefix
from kogagent.engine.sampling import SamplingParams
from kogagent.engine.session import Counters, Session, SessionStream
from kogagent.errors import InputError
from kogagent.local.tokens import Token, TokenText, written
from kogagent.loop.protocols import ToolChoice, TurnRequest
from kogagent.tokenizer import Tokenizer
from kogagent.types import (
    AssistantMessage,
    CallReady,
    FinishReason,
    JSONValue,
    Message,
    ModelEvent,
    PlanDelta,
    TextDelta,
    Timings,
    ToolCall,
    ToolSpec,
    TurnEnd,
    Usage,
)


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How a model generates its turns. The last three exist to measure what each is worth."""

    sampling: SamplingParams
    constrained: bool  # a grammar over the whole turn: calls well-formed and well-typed
    forced_runs: bool  # tokens the grammar leaves no choice about cost no pass of their own
    reuse: bool  # what is already in the cache is not computed again


_Wanted: TypeAlias = tuple[tuple[ToolSpec, ...], ToolChoice, int, Mapping[str, JSONValue] | None]
"""What a turn's grammar depends on."""


@dataclass(frozen=True, slots=True)
class _Past:
    """The last whole turn: what led to it, what was generated, and what the loop was told."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    prompt: tuple[int, ...]
    turn: tuple[int, ...]
    said: tuple[str, ...]  # as it may stand in the message: a plan that was the answer may stand once
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


class LocalModel:
    """One conversation's model: a loop.protocols.Model and ClosingModel. Made by `Engine.model`.

    One turn at a time. A turn that is left early stops at a token border, and the next starts as if it had
    not been.
    """

    def __init__(self, core: EngineCore, tokenizer: Tokenizer, chat: Chat, options: ModelOptions) -> None:
        self._core, self._tokenizer, self._chat, self._options = core, tokenizer, chat, options
        self._session: Session | None = None
        self._past: _Past | None = None
        self._compiled: tuple[_Wanted, TokenGrammar] | None = None  # the last turn's: usually this one's too

    def stream(self, request: TurnRequest) -> ModelTurn:
        """One turn. Raises InputError for a request that makes no sense; prompt, schemas and context are
        checked before the first event."""
        _check(request)
        return ModelTurn(self, request)

    @property
    def counters(self) -> Counters:
        """Of all turns so far."""
        return Counters() if self._session is None else self._session.counters

    async def aclose(self) -> None:
        """End the conversation; the engine keeps its cache for one that starts alike. Idempotent."""
        session, self._session, self._past = self._session, None, None
        if session is not None:
            await session.aclose()

    # ── for the turn ──

    async def _open(
        self, messages: tuple[Message, ...], tools: tuple[ToolSpec, ...]
    ) -> tuple[Session, tuple[int, ...], int]:
        """(session whose ids lead to the turn, those ids, number of the turn's first call)."""
        past = self._past
        if past is not None and past.continues(messages, tools):
            after = self._chat.follow(messages, len(past.messages) + 1, past.turn, tools)
            if after is not None and self._session is not None and self._options.reuse:
                # The session is the past: only what differs is touched, whatever the length of the history.
                kept = common_prefix(after, past.turn)
                self._session.rewind(len(past.prompt) + kept)
                self._session.append(after[kept:])
                return self._session, (*past.prompt, *after), past.next_call
        ids = self._chat.render(messages, tools)
        if self._session is None or not self._options.reuse:
            await self.aclose()
            self._session = self._core.session(reuse=self._options.reuse)
        self._session.sync_to(ids)
        calls = sum(len(m.calls) for m in messages if isinstance(m, AssistantMessage))
        return self._session, tuple(ids), calls + 1

    async def _grammar(self, request: TurnRequest) -> TokenGrammar | None:
        if not self._options.constrained:
            return None
        wanted = (tuple(request.tools), request.tool_choice, request.max_calls, request.output_schema)
        if self._compiled is not None and self._compiled[0] == wanted:
            return self._compiled[1]
        from kogagent.engine.grammar import compile_turn

        # In a thread: many tools take longer to compile than a loop may wait.
        grammar = await asyncio.to_thread(
            compile_turn,
            {tool.name: tool.parameters for tool in request.tools},
            self._tokenizer.vocabulary,
            self._chat.format,
            tool_choice=request.tool_choice,
            max_calls=request.max_calls,
            output_schema=request.output_schema,
        )
        self._compiled = (wanted, grammar)
        return grammar


class ModelTurn:
    """The events of one turn: an async iterator with `aclose`. Nothing runs before the first is asked for."""

    def __init__(self, model: LocalModel, request: TurnRequest) -> None:
        self._model, self._request = model, request
        self._messages, self._tools = tuple(request.messages), tuple(request.tools)
        self._events: deque[ModelEvent] = deque()
        self._phase = self._prepare
        self._stream: SessionStream | None = None
        self._done = False
        self._began = time.perf_counter()
        self._render_s = self._parse_s = self._waited_s = 0.0
        self._emitted: list[Emitted] = []  # the plan's last may be cut off: it was written all the same
        self._counters = Counters()
        self._said: list[str] = []
        self._answered: tuple[str, ...] = ()  # a plan that was the answer, told as both
        self._calls: list[ToolCall] = []

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

    async def aclose(self) -> None:
        """Stop at a token border and wait for it. Idempotent."""
        if not self._done:
            self._done = True
            self._events.clear()
            self._model._past = None  # half a turn is nothing to go on from
        if self._stream is not None:
            stream, self._stream = self._stream, None
            await stream.aclose()

    # ── phases, each a step of __anext__ ──

    async def _prepare(self) -> None:
        """Compile, render, and make the session's ids the prompt."""
        model, request = self._model, self._request
        self._began = time.perf_counter()
        self._grammar = await model._grammar(request)
        self._session, self._prompt, first_call = await model._open(self._messages, self._tools)
        self._parser = model._chat.parser(
            first_call, calls=bool(request.tools) and request.tool_choice != "none"
        )
        self._first_call = first_call
        self._left = request.max_tokens
        self._render_s += time.perf_counter() - self._began
        await (self._start_plan() if request.plan_tokens else self._start_act())

    async def _start_plan(self) -> None:
        """Plain text up to a line's end, the trigger of a call, any special token, or the budget."""
        vocabulary = self._model._tokenizer.vocabulary
        self._plan = TokenText(vocabulary, ("\n", self._model._chat.format.trigger))
        self._plan_kept = 0  # ids whose text is the plan's
        self._plan_cut = ""  # text of the plan whose id is not kept, since it goes on past the plan's end
        self._plan_end: int | None = None
        self._stream = self._session.stream(
            sampling=self._model._options.sampling,
            stop_ids=vocabulary.special,
            max_tokens=min(self._request.plan_tokens, self._left),
            legal_ids=len(vocabulary),
        )
        self._phase = self._run_plan

    async def _run_plan(self) -> None:
        assert self._stream is not None
        try:
            batch = await self._next(self._stream)
        except StopAsyncIteration:
            self._take_plan(self._plan.finish())
            await self._end_plan()
            return
        for emitted in batch:
            self._left -= 1
            if emitted.id in self._model._tokenizer.vocabulary.special:
                self._plan_end = emitted.id
                break
            self._take_plan(self._plan.feed(emitted.id, emitted.logprob, emitted.forced))
            if self._plan.stopped:
                await self._end_plan()
                return

    def _take_plan(self, tokens: Sequence[Token]) -> None:
        whole = self._model._tokenizer.vocabulary.tokens
        for token in tokens:
            if token.bytes != whole[token.id]:
                self._plan_cut = token.text
            else:
                self._plan_kept += 1
            self._tell(PlanDelta(token.text))

    async def _end_plan(self) -> None:
        """Cut the session to the plan, and go on to the act in the same turn of the template."""
        assert self._stream is not None
        stream, self._stream = self._stream, None
        await stream.aclose()
        self._counters += stream.counters
        plan = "".join(self._said)
        tokenizer = self._model._tokenizer
        ended = self._plan_end in tokenizer.end_ids
        if ended and self._request.tool_choice in ("auto", "none") and self._request.output_schema is None:
            # The model has nothing to do and has said so: what it wrote is its answer.
            self._tell(TextDelta(plan))
            self._answered = (plan,)
            self._finish("stop")
            return
        if not plan.strip():
            self._session.rewind(len(self._prompt))
        else:
            self._session.rewind(len(self._prompt) + self._plan_kept)
            at_call = (self._plan_end is not None and not ended) or self._plan.found not in (None, "\n")
            glue = self._plan_cut + ("" if at_call else "\n")
            ids = tokenizer.encode_continuing(glue) if glue else []
            self._session.append(ids)
            self._counters += Counters(prefilled=len(ids))
        if self._left < 1:
            self._finish("length")
            return
        await self._start_act()

    async def _start_act(self) -> None:
        vocabulary = self._model._tokenizer.vocabulary
        options = self._model._options
        self._stream = self._session.stream(
            sampling=options.sampling,
            stop_ids=vocabulary.end_ids,
            max_tokens=self._left,
            matcher=None if self._grammar is None else self._grammar.start(),
            force=options.forced_runs,
            legal_ids=len(vocabulary),
        )
        self._phase = self._run_act

    async def _run_act(self) -> None:
        assert self._stream is not None
        try:
            batch = await self._next(self._stream)
        except StopAsyncIteration:
            stream, self._stream = self._stream, None
            for event in self._parser.finish():
                self._tell(event)
            counters = stream.counters
            if self._request.plan_tokens:
                # The turn's prompt was counted with its plan.
                counters = replace(counters, reused=0, prefilled=0)
            self._counters += counters
            assert stream.reason is not None
            self._finish(stream.reason)
            return
        began = time.perf_counter()
        for event in self._parser.feed(emitted.id for emitted in batch):
            self._tell(event)
        self._parse_s += time.perf_counter() - began

    async def _next(self, stream: SessionStream) -> list[Emitted]:
        """The next batch of ids, and what waiting for it took."""
        began = time.perf_counter()
        try:
            batch = await stream.__anext__()
        finally:
            self._waited_s += time.perf_counter() - began
        self._emitted += batch
        return batch

    # ── events ──

    def _tell(self, event: ModelEvent) -> None:
        if isinstance(event, PlanDelta | TextDelta):
            if not event.text:
                return
            self._said.append(event.text)
        elif isinstance(event, CallReady):
            self._calls.append(event.call)
        self._events.append(event)

    def _finish(self, reason: FinishReason) -> None:
        self._done = True
        ids = self._session.ids
        self._model._past = _Past(
            self._messages,
            self._tools,
            self._prompt,
            ids[len(self._prompt) :],
            ("".join(self._said), *self._answered),
            tuple(self._calls),
            self._first_call + len(self._calls),
        )
        c = self._counters
        self._events.append(
            TurnEnd(
                reason,
                Usage(c.reused, c.prefilled, c.sampled, c.forced, c.steps),
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
                written(self._model._tokenizer.vocabulary, self._emitted),
            )
        )


def _check(request: TurnRequest) -> None:
    if not request.messages:
        raise InputError("the list of messages is empty. Pass at least one message.")
    for name, least in (("max_tokens", 1), ("max_calls", 1), ("plan_tokens", 0)):
        value = getattr(request, name)
        if type(value) is not int or value < least:
            raise InputError(f"TurnRequest.{name}={value!r}: must be an integer >= {least}")
    seen: set[str] = set()
    for tool in request.tools:
        if tool.name in seen:
            raise InputError(f"two tools are named {tool.name!r}: rename one of them")
        seen.add(tool.name)
    if request.tool_choice not in ("auto", "none", *(("required",) if seen else ()), *seen):
        known = ", ".join(map(repr, sorted(seen))) or "none"
        raise InputError(f"tool_choice={request.tool_choice!r}: there is no such tool. Tools: {known}")
