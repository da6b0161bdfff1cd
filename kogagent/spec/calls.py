"""How models write their tool calls, as data. Knows no tokens and no schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kogagent.errors import ConfigError
from kogagent.spec.values import JSON, ObjectStyle, ValueStyle, write_object

BARE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
"""The names that can stand without quotes."""


@dataclass(frozen=True, slots=True)
class CallFormat:
    """How a model writes its tool calls. The text of n calls:

        begin + call + (between + call)*(n-1) + end,   call = prefix + NAME + middle + ARGUMENTS + suffix

    `trigger` is the exact tag, a prefix of `begin`, that starts the calls in free text: one special
    id where the vocabulary has it, else its bytes across token borders. at_start: it counts only as the very
    first text of a turn (behind thoughts, if there are any); for formats whose calls start like any text.

    NAME is the body of a JSON string, or with bare_names the name as it is. ARGUMENTS is an object: it and
    the values of its members are written in the style `arguments` (by default `values`), what is inside
    those in the style `values`. The separators of the styles are the only white space a grammar allows.

    A turn may open with thoughts, think_begin + THOUGHTS + think_end + think_gap, in which nothing is a call;
    think_begin is "" for a model that writes none.

    signatures: where the template knows no tools, they are told as NAME(ARGUMENT: TYPE): DESCRIPTION;
    what a grammar holds anyway is not said.
    """

    name: str
    trigger: str
    begin: str
    prefix: str
    middle: str
    suffix: str
    between: str
    end: str
    parallel: bool = True
    at_start: bool = False
    bare_names: bool = False
    values: ValueStyle = JSON
    arguments: ValueStyle | None = None
    think_begin: str = ""
    think_end: str = ""
    think_gap: str = ""
    signatures: bool = False

    def __post_init__(self) -> None:
        def refuse(what: str) -> ConfigError:
            return ConfigError(f"CallFormat {self.name!r}: {what}")

        if bool(self.think_begin) != bool(self.think_end) or (self.think_gap and not self.think_end):
            raise refuse("think_begin and think_end go together")
        if not self.think_end.isascii():
            raise refuse(f"think_end must be ASCII, not {self.think_end!r}")
        if not self.trigger or not self.begin.startswith(self.trigger):
            raise refuse(f"begin {self.begin!r} must start with the trigger {self.trigger!r}")
        if self.values.bare:
            raise refuse(
                "only the members of `arguments` can be bare strings: inside, nothing would end them"
            )
        for style in (self.values, self.outer):
            closers = (style.string_close, style.objects.value_close if style.bare else "")
            if style.escapes == "none" and not all(text.isascii() for text in closers):
                raise refuse("what closes a string without escapes must be ASCII")

    @property
    def outer(self) -> ValueStyle:
        """The style of ARGUMENTS and of its members' values."""
        return self.arguments or self.values

    @property
    def is_json(self) -> bool:
        """Whether ARGUMENTS is JSON."""
        return self.arguments is None and all(
            (self.values.escapes == "json", self.values.objects.quoted, self.values.words() == JSON.words())
        )

    @property
    def item_separator(self) -> str:
        return self.values.item_separator

    @property
    def key_separator(self) -> str:
        """What stands between a name's quote and its value, in a format whose values are JSON."""
        return self.values.objects.name_close.removeprefix('"')

    def write_arguments(self, arguments: Mapping[str, Any]) -> str:
        """ARGUMENTS as this format writes them."""
        return write_object(arguments, self.outer.objects, self.outer, self.values)


HERMES = CallFormat(
    name="hermes",
    trigger="<tool_call>",
    begin="<tool_call>\n",
    prefix='{"name": "',
    middle='", "arguments": ',
    suffix="}",
    between="\n</tool_call>\n<tool_call>\n",
    end="\n</tool_call>",
)

SMOLLM2 = CallFormat(
    name="smollm2",
    trigger="<tool_call>",
    begin="<tool_call>[",
    prefix='{"name": "',
    middle='", "arguments": ',
    suffix="}",
    between=", ",
    end="]</tool_call>",
)

MISTRAL = CallFormat(
    name="mistral",
    trigger="[TOOL_CALLS]",
    begin="[TOOL_CALLS] [",
    prefix='{"name": "',
    middle='", "arguments": ',
    suffix="}",
    between=", ",
    end="]",
)

LLAMA3_JSON = CallFormat(
    name="llama3-json",
    trigger='{"name": "',  # the call stands in the turn without any tag
    begin='{"name": "',
    prefix="",
    middle='", "parameters": ',
    suffix="}",
    between="",
    end="",
    parallel=False,
)

_PYTHON = ValueStyle(
    objects=ObjectStyle(name_open="'", name_close="': "),
    string_open="'",
    string_close="'",
    escapes="python",
    true="True",
    false="False",
    null="None",
)

PYTHONIC = CallFormat(
    name="pythonic",
    trigger="[",
    begin="[",
    prefix="",
    middle="",
    suffix="",
    between=", ",
    end="]",
    at_start=True,
    bare_names=True,
    values=_PYTHON,
    arguments=replace(
        _PYTHON, objects=ObjectStyle(open="(", name_open="", name_close="=", close=")", quoted=False)
    ),
)
"""A Python list of calls with keyword arguments: Llama 3.2 and 4, Olmo 3."""

LFM2 = replace(
    PYTHONIC,
    name="lfm2",
    trigger="<|tool_call_start|>",
    begin="<|tool_call_start|>[",
    end="]<|tool_call_end|>",
    at_start=False,
)
"""The same between tags."""

QWEN3_CODER = CallFormat(
    name="qwen3-coder",
    trigger="<tool_call>",
    begin="<tool_call>\n",
    prefix="<function=",
    middle=">",
    suffix="",
    between="\n</tool_call>\n<tool_call>\n",
    end="\n</tool_call>",
    bare_names=True,
    arguments=ValueStyle(
        objects=ObjectStyle(
            open="\n",
            name_open="<parameter=",
            name_close=">\n",
            value_close="\n</parameter>\n",
            separator="",
            close="</function>",
            quoted=False,
        ),
        string_open="",
        string_close="",
        escapes="none",
        true="True",
        false="False",
        null="None",
    ),
)
"""Each argument between tags, strings as they are: Qwen3-Coder, Qwen3.5."""

FUNCTION_GEMMA = CallFormat(
    name="function-gemma",
    trigger="<start_function_call>",
    begin="<start_function_call>",
    prefix="call:",
    middle="",
    suffix="",
    between="<end_function_call><start_function_call>",
    end="<end_function_call>",
    bare_names=True,
    values=ValueStyle(
        objects=ObjectStyle(name_open="", name_close=":", separator=",", quoted=False, by_name=True),
        item_separator=",",
        string_open="<escape>",
        string_close="<escape>",
        escapes="none",
        null="None",
    ),
)
"""Strings between <escape> and <escape>, names bare and in their order."""
