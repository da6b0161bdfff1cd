"""A model's conversation as token ids: rendered whole, or only what comes after ids that are already there.

Knows a tokenizer and a template; no engine, no session.

Rendering whole costs time in proportion to the history, so a running conversation is not rendered again:
its ids are the prompt, what the model generated, and then `follow`, which needs the last turn and the new
messages alone. It renders a stand-in conversation of two messages before the new ones and cuts out what
stands behind the assistant's words. That is right only for a template whose later text depends on nothing
earlier; whether this holds is probed once for each shape of conversation (with or without system message,
tools, calls) by rendering conversations of growing length and comparing. For the others `follow` says None.
Where the template puts the new texts out as they stand (verbatim.py), the stand-in is rendered once and not
every turn.
"""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import NamedTuple, TypeAlias

from kogagent.chat.formats import native_format, same_calls, written_format
from kogagent.chat.guard import Guard, text_of
from kogagent.chat.inputs import Input, native_inputs, tool_inputs, written_inputs
from kogagent.chat.parser import TurnParser
from kogagent.chat.reader import Kinds, any_kind
from kogagent.chat.template import ChatTemplate
from kogagent.chat.verbatim import EDGES, SAMPLES, around, filled, watched
from kogagent.errors import ConfigError, InputError
from kogagent.spec import CallFormat
from kogagent.tokenizer import Tokenizer
from kogagent.types import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserMessage,
)


class _Shape(NamedTuple):
    """What decides how a template goes on."""

    system: bool
    tools: bool
    calls: bool


class _Closing(Enum):
    """How a template closes an assistant's turn. UNKNOWN: what follows it depends on what was before."""

    UNKNOWN = 0
    END_ID = 1
    NOTHING = 2


_MOST_KNOWN = 64
_Watch: TypeAlias = tuple[Sequence[str], list[str]]
"""What is in the texts to be watched, any of it, and where to note what was asked of them."""


def _words(message: Message) -> str:
    """Of a user or of a tool's result."""
    return message.result.text if isinstance(message, ToolMessage) else getattr(message, "text", "")


class Chat:
    """Renders conversations for one model. Immutable but for a cache; safe to share.

    template: Jinja source, by default the tokenizer's own. format: how calls are written, by default what the
    template shows. today: the date for templates that ask for one (None: the fixed date they were made with).
    Raises ConfigError where there is no template or it does not compile.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        template: str | None = None,
        format: CallFormat | None = None,
        today: datetime.date | None = None,
    ) -> None:
        plain, with_tools = template or tokenizer.chat_template, template or tokenizer.tool_template
        if plain is None or with_tools is None:
            raise ConfigError(
                f"{tokenizer.name}: no chat template, so messages cannot be written for this model. "
                "Save one beside the tokenizer as chat_template.jinja, or stream from a plain string."
            )
        self._tokenizer = tokenizer
        self._guard = Guard(tokenizer.control_names)
        names = tokenizer.special_names
        self._plain = ChatTemplate(plain, names, today=today, where=tokenizer.name)
        self._with_tools = self._plain
        if with_tools != plain:
            self._with_tools = ChatTemplate(with_tools, names, today=today, where=tokenizer.name)
        native = native_format(self._with_tools, self._guard)
        self.native_tools = native is not None and (format is None or same_calls(format, native))
        """Whether the template itself writes tools; else they are written into its messages."""
        self.format: CallFormat = format or native or written_format(with_tools)
        """How this model writes calls."""
        self._ends = frozenset(tokenizer.end_ids)
        self._end_names = {name for name, id in tokenizer.special_tokens.items() if id in self._ends}
        self._closings: dict[_Shape, _Closing] = {}
        self._known: dict[tuple[_Shape, int, int], Callable[[Sequence[str]], list[int]] | None] = {}
        token = secrets.token_hex(8)  # not to be guessed: it marks places in a rendered text
        self._asked, self._told, self._words = f"asked{token}", f"told{token}", f"words{token}"
        self._call_mark = f"call{token}"
        self._tools = (ToolSpec("probe_tool", self._told, {"type": "object", "properties": {}}),)
        self._tools_given = tool_inputs(self._tools, self._guard)

    # ── whole conversations ──

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        *,
        add_generation_prompt: bool = True,
    ) -> list[int]:
        """Ids of a conversation; names of special tokens in its texts stay text.

        Raises InputError: no messages, text that is no valid Unicode, a conversation the template refuses.
        """
        text = self._text(messages, tools, add_generation_prompt)
        return self._tokenizer.encode_pieces(self._guard.split(text))

    def before_last(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> list[int]:
        """Ids of what stands in front of the last message's words, where that is a user's: what other
        conversations with the same instructions, tools and examples begin with too. Its last ids may differ
        from `render`'s, whose tokens may go over that place; none where the last message is another."""
        if not messages or not isinstance(messages[-1], UserMessage):
            return []
        head, mark, _ = self._text([*messages[:-1], UserMessage(self._asked)], tools, True).partition(
            self._asked
        )
        return self._tokenizer.encode_pieces(self._guard.split(head)) if mark else []

    def render_text(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        *,
        add_generation_prompt: bool = True,
    ) -> str:
        """The text that `render` encodes, for reading: names in messages look like the template's own."""
        return text_of(self._guard.split(self._text(messages, tools, add_generation_prompt)))

    def _text(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        prompt: bool,
        watch: _Watch | None = None,
    ) -> str:
        if not messages:
            raise InputError("the list of messages is empty. Pass at least one message.")
        template = self._with_tools if tools else self._plain
        inputs: list[Input]
        if self.native_tools:
            inputs = native_inputs(messages, self._guard)
            given = self._tools_given if tools is self._tools else tool_inputs(tools, self._guard)
        else:
            inputs, given = written_inputs(messages, tools, self.format, self._guard), []
        if watch is not None:
            inputs = watched(inputs, *watch)
        return template.render(inputs, given, prompt)

    # ── going on ──

    def follow(
        self,
        messages: Sequence[Message],
        start: int,
        turn: Sequence[int],
        tools: Sequence[ToolSpec] = (),
    ) -> list[int] | None:
        """Ids that come after the prompt which led to a generated turn: the turn, its end, the new messages
        and the opening of the next turn. None where only `render` can tell.

        messages: the whole conversation; messages[start - 1] is the AssistantMessage made of `turn`, the ids
        the model generated, messages[start:] are new. An end id that the turn ended in is replaced by the one
        the template writes. The cost does not depend on the messages before `start`.
        """
        if not 0 < start <= len(messages) or not isinstance(messages[start - 1], AssistantMessage):
            raise InputError(f"start={start!r}: the message before it must be the assistant's generated turn")
        generated, new = messages[start - 1], messages[start:]
        assert isinstance(generated, AssistantMessage)
        if not new:
            return None
        system = messages[0] if isinstance(messages[0], SystemMessage) else None
        shape = _Shape(system is not None, bool(tools), bool(generated.calls))
        if shape not in self._closings:
            self._closings[shape] = self._probe(shape)
        closing = self._closings[shape]
        if closing is _Closing.UNKNOWN:
            return None
        kept = list(turn)
        while kept and kept[-1] in self._ends:
            kept.pop()
        usual = ToolMessage if shape.calls else UserMessage  # what the probe went on with
        as_probed = all(isinstance(message, usual) for message in new)
        said = [_words(message) for message in new] if as_probed else []
        if said and all(said) and (system is None or system.text):
            known = self._known_behind(shape, closing, len(generated.calls), len(new))
            if known is not None:
                try:
                    return kept + known(said)
                except InputError:
                    return None  # `render` says what is wrong with them
        tail = self._rendered_tail(shape, system, generated, new, as_probed=as_probed)
        if tail is None:
            return None
        return kept + self._tokenizer.encode_pieces(self._behind_end(tail, closing), after="text")

    def _behind_end(self, tail: str, closing: _Closing) -> list[str]:
        """The pieces of a tail from where the model's own turn ends."""
        pieces = self._guard.split(tail)
        return ["", *pieces[self._first_end(pieces) :]] if closing is _Closing.END_ID else pieces

    def _known_behind(
        self, shape: _Shape, closing: _Closing, calls: int, new: int
    ) -> Callable[[Sequence[str]], list[int]] | None:
        """What `follow` adds to a turn, by the words of the new messages; None where it must be rendered."""
        key = shape, calls, new
        if key not in self._known:
            marks = [f"new{i}x{secrets.token_hex(8)}" for i in range(new)]
            parts = self._probe_around(shape, calls, marks)
            pieces = [] if parts is None else self._behind_end(filled(parts, marks), closing)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = self._tokenizer.gapped(pieces, marks, after="text") if pieces else None
        return self._known.get(key)

    def _rendered_tail(
        self,
        shape: _Shape,
        system: SystemMessage | None,
        generated: AssistantMessage,
        new: Sequence[Message],
        *,
        as_probed: bool,
        watch: _Watch | None = None,
    ) -> str | None:
        before: list[Message] = [UserMessage(self._asked), self._stand_in(generated)]
        if system is not None:
            before.insert(0, system)
        stand_ins = self._tools if shape.tools else ()
        try:
            head, tail = self._around_mark(self._text([*before, *new], stand_ins, True, watch), shape)
            if not as_probed and head != self._around_mark(self._text(before, stand_ins, False), shape)[0]:
                return None
        except InputError:
            return None  # `render` says what is wrong with the conversation itself
        return None if self._asked in tail or self._told in tail else tail

    def _probe_around(self, shape: _Shape, calls: int, marks: Sequence[str]) -> tuple[str, ...] | None:
        """What stands around the words of so many new messages as there are marks, behind so many calls,
        whatever these and the system message say, if they say anything; None where that depends on them, or
        on names. The marks are texts that nobody else writes."""
        token, new = secrets.token_hex(8), len(marks)
        odd = [f"{EDGES}{mark}{EDGES}" for mark in marks]
        called = [ToolCall(f"id{i}{token}", f"name{i}{token}", "") for i in range(max(calls, new))]
        generated = AssistantMessage(calls=tuple(called[:calls]))

        def tail(texts: Sequence[str], watch: _Watch | None = None) -> str | None:
            system = SystemMessage(f"told{token}") if shape.system else None
            replies: list[Message] = [
                ToolMessage(ToolResult(one.id, one.name, text)) if shape.calls else UserMessage(text)
                for one, text in zip(called, texts, strict=False)
            ]
            return self._rendered_tail(shape, system, generated, replies, as_probed=True, watch=watch)

        looked: list[str] = []
        text = tail(odd, ((token, *marks), looked))
        parts = None if text is None or looked else around(text, list(map(self._guard.text, odd)))
        if parts is None or any(token in part for part in parts):
            return None
        for at in range(len(SAMPLES)):  # what was done to a text that another had been put into
            texts = [SAMPLES[(at + i) % len(SAMPLES)] for i in range(new)]
            if tail(texts) != filled(parts, map(self._guard.text, texts)):
                return None
        return parts

    def _stand_in(self, message: AssistantMessage) -> AssistantMessage:
        """The same ids and names of calls, and words by which the end of the message is found."""
        if not message.calls:
            return AssistantMessage(text=self._words)
        calls = tuple(
            replace(call, arguments=f'{{"probe": "{self._call_mark}"}}', complete=True)
            for call in message.calls
        )
        return AssistantMessage(calls=calls)

    def _around_mark(self, text: str, shape: _Shape) -> tuple[str, str]:
        """What stands before and behind the stand-in's words. InputError where the template drops them."""
        head, mark, tail = text.rpartition(self._call_mark if shape.calls else self._words)
        if not mark:
            raise InputError("the chat template leaves out what the assistant said")
        return head, tail

    def _probe(self, shape: _Shape) -> _Closing:
        """How the template closes a turn of the assistant, if what follows depends on nothing before it."""
        tools = self._tools if shape.tools else ()
        call = ToolCall("call_0001", self._tools[0].name, "")
        turn = self._stand_in(AssistantMessage(calls=(call,) if shape.calls else ()))

        def reply(text: str) -> Message:
            return ToolMessage(ToolResult(call.id, call.name, text)) if shape.calls else UserMessage(text)

        base: list[Message] = [UserMessage(self._asked)]
        if shape.system:
            base.insert(0, SystemMessage("system message of probe"))
        first, second = "first reply of probe", "second reply of probe"
        try:
            prompt = self._text(base, tools, True)
            one = self._text([*base, turn, reply(first)], tools, True)
            two = self._text([*base, turn, reply(first), turn, reply(second)], tools, True)
            closing = self._around_mark(self._text([*base, turn], tools, False), shape)[1]
            tail = self._around_mark(one, shape)[1]
            last = self._around_mark(two, shape)[1]
        except InputError:
            return _Closing.UNKNOWN
        if not one.startswith(prompt) or not two.startswith(one) or last != tail.replace(first, second):
            return _Closing.UNKNOWN
        pieces = self._guard.split(closing)
        end = self._first_end(pieces)
        if end < len(pieces):
            same = tail.startswith(text_of(pieces[: end + 1]))
            return _Closing.END_ID if same else _Closing.UNKNOWN
        # Without an end token anything may follow an assistant's words; after its calls nobody knows what of
        # the closing the model has written itself.
        return _Closing.UNKNOWN if shape.calls else _Closing.NOTHING

    def _first_end(self, pieces: Sequence[str]) -> int:
        """Index of the first name of an end id, len(pieces) where there is none."""
        return next((i for i in range(1, len(pieces), 2) if pieces[i] in self._end_names), len(pieces))

    # ── turns ──

    def parser(self, first_call: int = 1, *, calls: bool = True, kinds: Kinds = any_kind) -> TurnParser:
        """A parser of one generated turn. first_call numbers its calls; calls=False reads none. kinds: the
        types of arguments, which a format that writes strings bare needs to be read."""
        return TurnParser(
            self.format,
            self._tokenizer.vocabulary,
            first_call=first_call,
            calls=calls,
            strip_space=self._tokenizer.strips_space,
            kinds=kinds,
        )
