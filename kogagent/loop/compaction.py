"""Making room in a conversation that outgrows its model. Knows messages and token counts, no tokens.

The record keeps everything. What the model reads becomes: the system message, one message that stands for the
older part, and the newest messages as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from kogagent.errors import ContextError, InputError, named_fields
from kogagent.loop.channel import Nobody
from kogagent.loop.hooks import MaybeAwaitable, settled
from kogagent.loop.protocols import MeasuringModel, Model, TurnRequest
from kogagent.loop.turn import hear
from kogagent.types import (
    AssistantMessage,
    Compacted,
    Message,
    SummaryMessage,
    SystemMessage,
    ToolMessage,
    Usage,
    UserMessage,
)

if TYPE_CHECKING:
    from kogagent.loop.meter import Meter
    from kogagent.loop.setup import Sink
    from kogagent.loop.transcript import Transcript

_ASK = (
    "Summarise our conversation so far for yourself: what was asked, what was found out and done, what is "
    "left to do. You will read this summary in place of the conversation."
)
Summarise: TypeAlias = Callable[[Sequence[Message]], MaybeAwaitable[str]]


@named_fields
@dataclass(frozen=True, slots=True)
class Compaction:
    """When and how a conversation is shortened for its model.

    policy: "drop" leaves the older part out and says so; "summarise" has the model write what stands for
    it, in at most summary_tokens; a function gets the messages to go and gives the text that stands for
    them. at: the share of the context that a prompt and its turn may fill before; to: the share that the
    prompt may fill after. context: tokens, None for the model's own; then the model must be one that
    counts. The task at hand always stays: where the user's last message is in the older part, its text is
    kept.
    """

    policy: Literal["drop", "summarise"] | Summarise = "drop"
    at: float = 0.9
    to: float = 0.5
    context: int | None = None
    summary_tokens: int = 256

    def __post_init__(self) -> None:
        if self.policy not in ("drop", "summarise") and not callable(self.policy):
            raise InputError(f"Compaction.policy={self.policy!r} must be 'drop', 'summarise' or a function")
        for name in ("at", "to"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 1:
                raise InputError(f"Compaction.{name}={value!r} must be a share in (0, 1]")
        if self.to > self.at:
            raise InputError(f"Compaction.to={self.to} must not be more than at={self.at}")
        for name, least in (("context", 1), ("summary_tokens", 1)):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < least):
                raise InputError(f"Compaction.{name}={value!r} must be an integer >= {least}")


class Room:
    """What is known of a conversation's size, and how it is made smaller."""

    def __init__(self, transcript: Transcript, sink: Sink, meter: Meter) -> None:
        self._transcript, self._sink, self._meter = transcript, sink, meter
        self._tokens = 0  # of the first self._messages messages that the model read, exactly
        self._messages = 0

    def learned(self, usage: Usage, messages: Sequence[Message]) -> None:
        """A prompt of these messages, and the turn after it, had these tokens."""
        if not (usage.prefilled_tokens or usage.reused_tokens):
            return  # the model does not say
        self._tokens, self._messages = usage.prompt_tokens + usage.completion_tokens, len(messages) + 1

    async def make(
        self, plan: Compaction, model: Model, request: TurnRequest, *, force: bool = False
    ) -> bool:
        """Shorten what the model reads if this turn would not fit. force: it did not. True when it was."""
        measuring = model if isinstance(model, MeasuringModel) else None
        context = plan.context
        if context is None and measuring is not None:
            context = measuring.context
        if context is None:
            raise InputError(
                "compaction needs to know the model's context. Pass Compaction(context=…) in tokens."
            )
        view = request.messages
        most = int(plan.at * context) - request.max_tokens
        if not force and 0 < self._messages <= len(view) and self._bound(view) <= most:
            return False
        tokens = _count(measuring, request)
        self._tokens, self._messages = tokens, len(view)
        if not force and tokens <= most:
            return False
        room = int(plan.to * context)
        if plan.policy == "drop":
            kept = _kept(measuring, request, room, _left_out(len(view)))
        else:
            kept = _kept(measuring, request, room - plan.summary_tokens, "")
        if kept is None:
            return False  # there is nothing to leave out
        going = view[: len(view) - kept]
        text, usage = await self._stand_in(plan, model, request, going)
        self._transcript.post(SummaryMessage(_with_task(text, view, len(going)), kept))
        shorter = self._transcript.view
        after = _count(measuring, replace(request, messages=shorter))
        self._tokens, self._messages = after, len(shorter)
        self._meter.spent(usage)
        self._sink.put(Compacted(len(view), len(shorter), tokens, after, text, usage))
        return True

    def _bound(self, view: Sequence[Message]) -> int:
        """At least as many tokens as there are: a token has a byte or more."""
        return self._tokens + sum(_bytes(view[at]) for at in range(self._messages, len(view)))

    async def _stand_in(
        self, plan: Compaction, model: Model, request: TurnRequest, going: Sequence[Message]
    ) -> tuple[str, Usage]:
        """The text that stands for these messages, and what it cost."""
        dropped = _left_out(sum(not isinstance(message, SystemMessage) for message in going))
        if callable(plan.policy):
            return await settled(plan.policy(going), str, "Compaction.policy"), Usage()
        if plan.policy == "drop":
            return dropped, Usage()
        # The same tools and the same start as the turns before: what is in the model's cache stays of use.
        asked = replace(
            request,
            messages=(*going, UserMessage(_ASK)),
            tool_choice="none",
            max_tokens=plan.summary_tokens,
            plan_tokens=0,
            observe_tokens=0,
            output_schema=None,
        )
        try:
            message, end = await hear(model.stream(asked), Nobody(), None)
        except ContextError:
            return dropped, Usage()  # even the older part is too long to be read
        return message.text.strip() or dropped, end.usage


def _left_out(number: int) -> str:
    return f"[{number} earlier messages are left out here.]"


def _kept(measuring: MeasuringModel | None, request: TurnRequest, most: int, note: str) -> int | None:
    """How many of the newest messages stay: as many as fit beside the note, at least the last turn. None:
    nothing can go."""
    view = request.messages
    head = 1 if isinstance(view[0], SystemMessage) else 0
    starts = [
        at
        for at in range(head + 1, len(view))
        if not isinstance(view[at], ToolMessage) and not isinstance(view[at - 1], UserMessage)
    ]
    if not starts:
        return None
    stand_in = UserMessage(_with_task(note, view, len(view)))
    low, high = 0, len(starts) - 1  # the first start that fits; the last one stays even if it does not
    while low < high:
        middle = (low + high) // 2
        shorter = (*view[:head], stand_in, *view[starts[middle] :])
        if _count(measuring, replace(request, messages=shorter)) <= most:
            high = middle
        else:
            low = middle + 1
    return len(view) - starts[low]


def _with_task(text: str, view: Sequence[Message], going: int) -> str:
    """The stand-in, with the user's last words where they would be gone."""
    last = max((at for at, one in enumerate(view) if isinstance(one, UserMessage)), default=-1)
    task = view[last] if 0 <= last < going else None
    return f"{text}\n\n{task.text}".strip() if isinstance(task, UserMessage) else text


def _count(measuring: MeasuringModel | None, request: TurnRequest) -> int:
    """Tokens of a prompt: exactly where the model counts them, else by four bytes a token."""
    if measuring is not None:
        return measuring.count(request)
    return sum(map(_bytes, request.messages)) // 4


def _bytes(message: Message) -> int:
    """At least the tokens of a message, with what a template writes around it."""
    if isinstance(message, ToolMessage):
        text = message.result.text
    elif isinstance(message, AssistantMessage):
        text = message.plan + message.text + "".join(c.name + c.arguments for c in message.calls)
    else:
        text = message.text
    return 64 + (len(text) if text.isascii() else len(text.encode("utf-8", "replace")))
