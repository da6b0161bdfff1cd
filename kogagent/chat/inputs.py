"""Messages and tool specs as a chat template reads them. Knows no tokens.

Two ways. A template that knows tools gets what transformers gives it: `tools`, `tool_calls`, role "tool".
For one that does not, calls are written into the assistant's text in the model's call format, the tools are
described in the system message, and results come as a user message:

    <tool_response>
    TEXT
    </tool_response>

one such block a result, in call order, with the user's next words behind them if there are any: such
templates often insist that user and assistant alternate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kogagent.chat.guard import Guard
from kogagent.chat.partial import partial_json
from kogagent.chat.signatures import signature
from kogagent.chat.template import RawArguments
from kogagent.errors import InputError
from kogagent.spec import CallFormat
from kogagent.types import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

Input = dict[str, Any]


def tool_inputs(tools: Sequence[ToolSpec], guard: Guard) -> list[Input]:
    """The `tools` of a template."""
    return [
        {
            "type": "function",
            "function": {
                "name": guard.text(tool.name),
                "description": guard.text(tool.description),
                "parameters": guard.value(tool.parameters),
            },
        }
        for tool in tools
    ]


def native_inputs(messages: Sequence[Message], guard: Guard) -> list[Input]:
    """The `messages` of a template that knows tools."""
    return [_native(message, guard) for message in messages]


def _native(message: Message, guard: Guard) -> Input:
    match message:
        case SystemMessage(text):
            return {"role": "system", "content": guard.text(text)}
        case UserMessage(text):
            return {"role": "user", "content": guard.text(text)}
        case AssistantMessage():
            out: Input = {"role": "assistant", "content": guard.text(spoken(message))}
            if message.calls:
                out["tool_calls"] = [_native_call(call, guard) for call in message.calls]
            return out
        case ToolMessage(result):
            return {
                "role": "tool",
                "name": guard.text(result.name),
                "tool_call_id": guard.text(result.call_id),
                "content": guard.text(result.text),
            }
        case _:
            raise _unknown(message)


def _native_call(call: ToolCall, guard: Guard) -> Input:
    try:
        values = guard.value(json.loads(call.arguments))
    except ValueError:  # cut, or written without a grammar: no JSON, or half a surrogate pair as an escape
        values = {}
    arguments = RawArguments(values if isinstance(values, dict) else {}, guard.text(call.arguments))
    return {
        "id": guard.text(call.id),
        "type": "function",
        "function": {"name": guard.text(call.name), "arguments": arguments},
    }


def spoken(message: AssistantMessage) -> str:
    """What an assistant said in words: its plan, then its text."""
    return "\n".join(part for part in (message.plan, message.text) if part)


def written_inputs(
    messages: Sequence[Message], tools: Sequence[ToolSpec], form: CallFormat, guard: Guard
) -> list[Input]:
    """The `messages` for a template without tools. A system message is made where tools need one."""
    out: list[Input] = []
    rest = messages
    if tools:
        system = ""
        if messages and isinstance(messages[0], SystemMessage):
            system, rest = guard.text(messages[0].text) + "\n\n", messages[1:]
        out.append({"role": "system", "content": system + tool_prompt(tools, form, guard)})
    after_results = False
    for message in rest:
        content = _written(message, form, guard)
        results = isinstance(message, ToolMessage)
        if after_results and (results or isinstance(message, UserMessage)):
            out[-1]["content"] += "\n" + content
        else:
            out.append({"role": _ROLES[type(message)], "content": content})
        after_results = results
    return out


_ROLES: Mapping[type, str] = {
    SystemMessage: "system",
    UserMessage: "user",
    AssistantMessage: "assistant",
    ToolMessage: "user",
}


def _written(message: Message, form: CallFormat, guard: Guard) -> str:
    match message:
        case SystemMessage(text) | UserMessage(text):
            return guard.text(text)
        case AssistantMessage():
            words = guard.text(spoken(message))
            if not message.calls:
                return words
            return words + ("\n" if words else "") + written_calls(message.calls, form, guard)
        case ToolMessage(result):
            return f"<tool_response>\n{guard.text(result.text)}\n</tool_response>"
        case _:
            raise _unknown(message)


def written_calls(calls: Sequence[ToolCall], form: CallFormat, guard: Guard) -> str:
    """Calls in a model's own format; one that was cut ends where it was cut."""
    out = [form.begin]
    for i, call in enumerate(calls):
        out += [
            form.between if i else "",
            form.prefix, guard.text(call.name), form.middle, _written_arguments(call, form, guard),
            form.suffix if call.complete else "",
        ]  # fmt: skip
    if not calls or calls[-1].complete:
        out.append(form.end)
    return "".join(out)


def _written_arguments(call: ToolCall, form: CallFormat, guard: Guard) -> str:
    """JSON arguments are the very text the model wrote; in another style that text is written anew."""
    if form.is_json:
        return guard.text(call.arguments)
    try:
        values = json.loads(call.arguments)
    except ValueError:
        values = partial_json(call.arguments) if not call.complete else None
    return form.write_arguments(guard.value(values) if isinstance(values, dict) else {})


def tool_prompt(tools: Sequence[ToolSpec], form: CallFormat, guard: Guard) -> str:
    """What a model whose template knows no tools is told of them: a line a tool, how to write a call."""

    def line(tool: ToolSpec) -> str:
        if form.signatures:
            return guard.text(signature(tool))
        about = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        return guard.text(json.dumps(about, ensure_ascii=False))

    listed = "\n".join(line(tool) for tool in tools)
    schemas = "" if form.signatures else " Each line is one function, as JSON with a schema of its arguments"
    example = written_calls(
        [ToolCall("", "name_of_function", '{"name_of_argument": "value"}')], form, guard
    )  # a real tool here would be called more often than it should
    several = " Several calls may follow one another." if form.parallel else ""
    return (
        f"You can call functions{'.' if schemas else ''}{schemas}:\n"
        f"<tools>\n{listed}\n</tools>\n"
        "To call a function, write nothing but its name and its arguments, exactly like this:\n"
        f"{example}\n"
        f"{several.strip()}{' ' if several else ''}"
        "The results come back between <tool_response> and </tool_response>. "
        "When you know enough, answer the user in plain words."
    )


def _unknown(message: object) -> InputError:
    return InputError(
        f"{message!r} is no message. Pass SystemMessage, UserMessage, AssistantMessage or ToolMessage."
    )
