"""The loop's Model made of an engine: a turn is rendered, planned, acted, parsed. Knows tokens and messages.

A conversation is one session. The next turn is the ids of the last one and what the template puts after them,
so that nothing is rendered, encoded or computed twice; where the messages are not the last turn's with more
behind them, everything is rendered anew and the session keeps the longest common prefix.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from kogagent.chat import Chat
from kogagent.disk_cache import DiskCache
from kogagent.engine.backend import TokenGrammar
from kogagent.engine.counters import Counters
from kogagent.engine.engine import EngineCore
from kogagent.engine.kv import common_prefix
from kogagent.engine.prefixes import LEAST
from kogagent.engine.session import Session
from kogagent.errors import InputError
from kogagent.local.clip import clip
from kogagent.local.recent import Recent
from kogagent.local.replayed import replayed
from kogagent.local.turn import ModelTurn, Past
from kogagent.loop.protocols import ToolChoice, TurnRequest
from kogagent.sampling import SamplingParams
from kogagent.tokenizer import Tokenizer
from kogagent.types import AssistantMessage, JSONValue, Message, ToolMessage, ToolSpec, Written

T = TypeVar("T")
_SOON_CHARS = 8192  # of messages: rendered and encoded in less than a millisecond


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How a model generates its turns. forced_runs and reuse exist to measure what each is worth."""

    sampling: SamplingParams
    constrained: bool  # a grammar over the whole turn: calls well-formed and well-typed
    fallback: bool  # what that grammar cannot hold goes to llguidance instead of being refused
    forced_runs: bool  # tokens the grammar leaves no choice about cost no pass of their own
    reuse: bool  # what is already in the cache is not computed again
    distinct_calls: bool  # a call that repeats one of its turn, name and arguments, ends the turn untold
    patient: bool  # the turn's events may come late, see Session.stream


_Wanted: TypeAlias = tuple[tuple[ToolSpec, ...], ToolChoice, int, Mapping[str, JSONValue] | None]
"""What a turn's grammar depends on."""


class LocalModel:
    """One conversation's model, made by `Engine.model`: a Model of the loop that closes, forks and counts.

    One turn at a time. A turn that is left early stops at a token border, and the next starts as if it had
    not been.
    """

    def __init__(
        self,
        core: EngineCore,
        tokenizer: Tokenizer,
        chat: Chat,
        options: ModelOptions,
        disk: DiskCache | None,
        grammars: Recent[TokenGrammar],
        written: dict[int, Written],
    ) -> None:
        self._core, self.tokenizer, self.chat, self.options = core, tokenizer, chat, options
        self._disk, self._grammars, self.written = disk, grammars, written
        self._session: Session | None = None
        self.past: Past | None = None
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

    @property
    def prompt(self) -> tuple[int, ...]:
        """The ids that led to the last whole turn."""
        if self._session is None or self.past is None:
            return ()
        return self._session.ids[: self.past.prompt]

    async def aclose(self) -> None:
        """End the conversation; the engine keeps its cache for one that starts alike. Idempotent."""
        session, self._session, self.past = self._session, None, None
        if session is not None:
            await session.aclose()

    # ── forks ──

    async def fork(self) -> LocalModel:
        """A model that goes on from the same past, its cache copied. While a turn goes on, from before it."""
        other = LocalModel(
            self._core, self.tokenizer, self.chat, self.options, self._disk, self._grammars, self.written
        )
        other._compiled = self._compiled
        past = self.past
        if self._session is not None and self.options.reuse:
            other._session = await self._session.fork()
            other.past = past
        return other

    async def prefill(self, request: TurnRequest) -> None:
        """Compute the prompt of this turn now, for the forks that will start from it."""
        _check(request)
        session, _ = await self.open(tuple(request.messages), tuple(request.tools))
        self.past = None
        session.priority = request.priority
        await session.prefill()
        grammar = await self.grammar(request) if self._core.prepares_grammars else None
        if grammar is not None:
            await asyncio.to_thread(self._core.prepare, grammar)

    # ── what it knows of its tokens ──

    @property
    def context(self) -> int:
        """The most tokens a prompt and its turn may have together."""
        return self._core.spec.context

    def count(self, request: TurnRequest) -> int:
        """Tokens of the prompt of this turn, exactly."""
        return len(self.chat.render(request.messages, request.tools))

    def clip(self, text: str, tokens: int) -> str:
        """The text, or its head and tail in at most so many tokens with a line that says what is missing."""
        return clip(self.tokenizer, text, tokens)

    # ── for the turn ──

    async def open(self, messages: tuple[Message, ...], tools: tuple[ToolSpec, ...]) -> tuple[Session, int]:
        """(session whose ids lead to the turn, number of the turn's first call as these messages have it)."""
        past = self.past
        if past is not None and past.continues(messages, tools):
            after = self.chat.follow(messages, len(past.messages) + 1, past.turn, tools)
            if after is not None and self._session is not None and self.options.reuse:
                # The session is the past: only what differs is touched, whatever the length of the history.
                kept = common_prefix(after, past.turn)
                self._session.rewind(past.prompt + kept)
                self._session.append(after[kept:])
                return self._session, past.next_call
        fresh = self._session is None or not self.options.reuse

        def prompt() -> tuple[list[int], int]:
            ids = self._ids(messages, tools)
            if not (fresh and self._core.keeps_rows):
                return ids, 0
            return ids, common_prefix(ids, self.chat.before_last(messages, tools))

        ids, border = await _off_loop(messages, prompt)
        if self._session is None or fresh:
            await self.aclose()
            self._session = self._core.session(reuse=self.options.reuse)
        self._session.sync_to(ids)
        if fresh:
            self._session.border = border if border >= LEAST else 0
        calls = [call for m in messages if isinstance(m, AssistantMessage) for call in m.calls]
        # The most of both: what a compaction left has fewer calls than their numbers say.
        return self._session, max([len(calls), *(call.number for call in calls)]) + 1

    def _ids(self, messages: tuple[Message, ...], tools: tuple[ToolSpec, ...]) -> list[int]:
        """The whole prompt: as it was, where the messages hold the ids they were written in, else
        rendered."""
        ids = replayed(self.chat, self.tokenizer, messages, tools)
        return self.chat.render(messages, tools) if ids is None else ids

    async def grammar(self, request: TurnRequest) -> TokenGrammar | None:
        """What the act may be; None where anything may."""
        if not self.options.constrained:
            return None
        wanted = (tuple(request.tools), request.tool_choice, request.max_calls, request.output_schema)
        if self._compiled is not None and self._compiled[0] == wanted:
            return self._compiled[1]
        from kogagent.local.grammars import turn_grammar

        # In a thread: many tools take longer to compile than a loop may wait.
        grammar = await asyncio.to_thread(
            turn_grammar,
            {tool.name: tool.parameters for tool in request.tools},
            self.tokenizer.vocabulary,
            self.chat.format,
            tool_choice=request.tool_choice,
            max_calls=request.max_calls,
            output_schema=request.output_schema,
            fallback=self.options.fallback,
            disk=self._disk,
            recent=self._grammars,
        )
        self._compiled = (wanted, grammar)
        return grammar


async def _off_loop(messages: Sequence[Message], work: Callable[[], T]) -> T:
    """Run what takes time in proportion to the messages; in a thread where that is longer than a hop."""
    return await asyncio.to_thread(work) if takes_a_while(messages) else work()


def takes_a_while(prompt: str | Sequence[Message]) -> bool:
    """Whether rendering and encoding this takes longer than an event loop may wait."""
    if isinstance(prompt, str):
        return len(prompt) > _SOON_CHARS
    size = 0
    for message in prompt:
        said = message.result.text if isinstance(message, ToolMessage) else getattr(message, "text", "")
        size += len(said) + 200
        if size > _SOON_CHARS:
            return True
    return False


def _check(request: TurnRequest) -> None:
    if not request.messages:
        raise InputError("the list of messages is empty. Pass at least one message.")
    for name, least in (("max_tokens", 1), ("max_calls", 1), ("plan_tokens", 0), ("observe_tokens", 0)):
        value = getattr(request, name)
        if type(value) is not int or value < least:
            raise InputError(f"TurnRequest.{name}={value!r}: must be an integer >= {least}")
    if request.sampling is not None and not isinstance(request.sampling, SamplingParams):
        raise InputError(f"TurnRequest.sampling={request.sampling!r}: must be a kogagent.SamplingParams")
    seen: set[str] = set()
    for tool in request.tools:
        if tool.name in seen:
            raise InputError(f"two tools are named {tool.name!r}: rename one of them")
        seen.add(tool.name)
    if request.tool_choice not in ("auto", "none", *(("required",) if seen else ()), *seen):
        known = ", ".join(map(repr, sorted(seen))) or "none"
        raise InputError(f"tool_choice={request.tool_choice!r}: there is no such tool. Tools: {known}")
