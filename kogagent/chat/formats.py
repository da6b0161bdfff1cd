"""Which call format a template's model writes. Knows formats as data and probes templates; no tokens.

The template is asked, not guessed at: a short conversation with one call is rendered, and the format whose
writing of that call stands in the result is the one.
"""

from __future__ import annotations

from dataclasses import replace

from kogagent.chat.guard import Guard
from kogagent.chat.inputs import native_inputs, tool_inputs, written_calls
from kogagent.chat.template import ChatTemplate
from kogagent.errors import ConfigError, InputError
from kogagent.spec import (
    FUNCTION_GEMMA,
    HERMES,
    LFM2,
    LLAMA3_JSON,
    MISTRAL,
    PYTHONIC,
    QWEN3_CODER,
    SMOLLM2,
    CallFormat,
)
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

FORMATS: tuple[CallFormat, ...] = (
    *(HERMES, SMOLLM2, MISTRAL, LLAMA3_JSON),
    *(QWEN3_CODER, FUNCTION_GEMMA, LFM2, PYTHONIC),
)
"""The formats known, each tried in turn."""

_TOOL = ToolSpec("probe_tool", "described by probe", {"type": "object", "properties": {}})
_CALL = ToolCall("call_0001", _TOOL.name, '{"probe": "argument of probe"}')
_TURNS: tuple[Message, ...] = (
    UserMessage("asked by probe"),
    AssistantMessage(calls=(_CALL,)),
    ToolMessage(ToolResult(_CALL.id, _CALL.name, "result of probe")),
    AssistantMessage(text="answered by probe"),
)
_SHOWN = (_TOOL.description, "argument of probe", "result of probe")


def pick_call_format(tokenizer: Tokenizer, template: str | None = None) -> CallFormat:
    """The format a model writes its calls in, by its chat template.

    template: Jinja source, by default the tokenizer's own. Where it knows no tools: SMOLLM2 for the SmolLM2
    family, which learnt to call without its template saying so, else HERMES. Raises ConfigError where there
    is no template.
    """
    source = template or tokenizer.tool_template
    if source is None:
        raise ConfigError(
            f"{tokenizer.name}: no chat template. Save one beside the tokenizer as chat_template.jinja"
        )
    compiled = ChatTemplate(source, tokenizer.special_names, where=tokenizer.name)
    return native_format(compiled, Guard(tokenizer.control_names)) or written_format(source)


def native_format(template: ChatTemplate, guard: Guard) -> CallFormat | None:
    """The format in which the template itself writes calls. None where it shows no tools, calls or results,
    or writes calls in a way that is no known format."""
    for messages in (_TURNS, (SystemMessage("told by probe"), *_TURNS)):
        try:
            text = template.render(native_inputs(messages, guard), tool_inputs([_TOOL], guard), False)
        except InputError:
            continue
        if all(shown in text for shown in _SHOWN):
            for form in FORMATS:
                # Up to the end of the arguments: Mistral writes the call's id behind them.
                if written_calls([replace(_CALL, complete=False)], form, guard) in text:
                    return _with_thoughts(form, template.source)
    return None


def written_format(source: str) -> CallFormat:
    """The format for a model whose template knows no tools."""
    form = SMOLLM2 if "SmolLM" in source and "<tool_call>" not in source else HERMES
    return _with_thoughts(form, source)


def _with_thoughts(form: CallFormat, source: str) -> CallFormat:
    """The format of a model that thinks before it answers, where its template knows of that."""
    if "<think>" not in source or "</think>" not in source:
        return form
    return replace(form, think_begin="<think>", think_end="</think>", think_gap="\n\n")


def same_calls(a: CallFormat, b: CallFormat) -> bool:
    """Whether two formats write calls alike, thoughts aside."""
    return replace(a, think_begin="", think_end="", think_gap="") == replace(
        b, think_begin="", think_end="", think_gap=""
    )
