"""Tools told as one line each, and whole prompts of a format that tells them so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kogagent.chat.guard import Guard
from kogagent.chat.inputs import tool_prompt
from kogagent.chat.signatures import signature, type_in_words
from kogagent.spec import HERMES
from kogagent.tokenizer.names import Names
from kogagent.types import ToolSpec

UNITS = {"enum": ["kilograms", "pounds", "ounces"]}


def spec(properties: dict[str, Any], required: list[str], description: str = "Does it.") -> ToolSpec:
    return ToolSpec("act", description, {"type": "object", "properties": properties, "required": required})


def test_a_signature_names_arguments_types_and_what_may_be_left_out() -> None:
    tool = spec(
        {
            "value": {"type": "number", "minimum": 0},
            "unit": UNITS,
            "to": UNITS,
            "note": {"type": "string", "pattern": "^x{1,40}$", "description": "for\nthe log"},
        },
        ["value", "unit", "to"],
        "Converts.\n\nOne value.",
    )
    assert signature(tool) == (
        "act(value: number, unit: kilograms | pounds | ounces, to: like unit, note?: text (for the log)): "
        "Converts. One value."
    )
    assert signature(spec({}, [])) == "act(): Does it."


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "array", "items": {"type": "integer"}}, "list of whole number"),
        ({"type": ["string", "null"]}, "text or nothing"),
        ({"anyOf": [{"type": "string"}, {"type": "string", "maxLength": 3}, {"const": 7}]}, "text or 7"),
        ({"enum": ["a", 1, None]}, "a | 1 | null"),
        ({"type": "object", "properties": {"x": {"type": "boolean"}}}, "{x: true or false}"),
        ({"$ref": "#/$defs/other"}, "value"),
        (True, "value"),
    ],
)
def test_a_type_is_told_in_words(schema: Any, words: str) -> None:
    assert type_in_words(schema) == words


def test_a_format_with_signatures_says_no_schema() -> None:
    tool = spec({"text": {"type": "string", "pattern": "^a+$"}}, ["text"])
    guard = Guard(Names({}))
    short = tool_prompt([tool], replace(HERMES, signatures=True), guard)
    assert "<tools>\nact(text: text): Does it.\n</tools>" in short and "pattern" not in short
    assert '"pattern": "^a+$"' in tool_prompt([tool], HERMES, guard)
