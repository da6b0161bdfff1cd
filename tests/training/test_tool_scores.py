"""The scorer of tool calls: what counts as right, how foreign schemas are read, what is held out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from benchmarks.tool_calls import (
    HELD_OUT,
    OWN,
    Question,
    arguments_match,
    as_typed,
    ask,
    blame,
    held_out,
    json_schema,
    judge,
    plain_name,
    questions_of,
    same,
)
from kogagent import Engine
from kogagent.types import ToolSpec, UserMessage
from training.naming import held_out as of_test_split

WEATHER = ToolSpec("weather", "", {"type": "object", "properties": {"city": {"type": "string"}}})


def _question(*accepted: tuple[str, dict[str, list[Any]]]) -> Question:
    return Question("q", (UserMessage("?"),), (WEATHER,), accepted)


def test_calls_match_in_any_order_and_neither_more_nor_fewer() -> None:
    question = _question(("weather", {"city": ["Oslo"]}), ("weather", {"city": ["Rome"]}))
    rome, oslo = ("weather", {"city": "Rome"}), ("weather", {"city": "Oslo"})
    assert judge(question, [rome, oslo]) == (True, True)
    assert judge(question, [rome]) == (False, False)
    assert judge(question, [rome, rome]) == (True, False)
    assert judge(question, [rome, oslo, oslo]) == (False, False)
    assert judge(question, [rome, ("weather", None)]) == (True, False)


def test_where_no_call_is_right_any_call_is_wrong() -> None:
    assert judge(_question(), []) == (True, True)
    assert judge(_question(), [("weather", {"city": "Oslo"})]) == (False, False)


def test_an_argument_may_be_left_out_only_where_the_answer_says_so() -> None:
    accepted = {"city": ["Oslo"], "unit": ["celsius", ""]}
    assert arguments_match({"city": "Oslo"}, accepted)
    assert arguments_match({"city": "Oslo", "unit": "celsius"}, accepted)
    assert not arguments_match({"city": "Oslo", "unit": "kelvin"}, accepted)
    assert not arguments_match({"unit": "celsius"}, accepted)
    assert not arguments_match({"city": "Oslo", "day": 1}, accepted)


def test_a_held_out_object_with_a_list_in_it_matches_itself_alone(tmp_path: Path) -> None:
    call = ("w", {"who": {"names": ["Ann", "Bo"], "age": 3}, "rules": [{"field": "x", "in": [1, 2]}]})
    row = {"id": "q", "system": "", "request": "?", "tools": [], "calls": [call]}
    (tmp_path / "held.jsonl").write_text(json.dumps(row))
    (question,) = held_out(tmp_path / "held.jsonl")
    assert judge(question, [call]) == (True, True)
    for who in ({"names": ["Ann"], "age": 3}, {"names": "Ann", "age": 3}, {"names": ["Ann", "Bo"]}):
        assert judge(question, [("w", {**call[1], "who": who})]) == (True, False)
    assert judge(question, [("w", {**call[1], "rules": [{"field": "x", "in": [1, 3]}]})]) == (True, False)


def test_errors_are_sorted_by_kind() -> None:
    def kinds(*calls: tuple[str, Any]) -> set[str]:
        accepted: dict[str, list[Any]] = {
            "city": ["Oslo"],
            "days": [12],
            "unit": ["c", ""],
            "tags": [["a", "b"]],
        }
        question = Question(
            "q", (UserMessage("Oslo or Rome for 12 days, 3 c, a, b"),), (WEATHER,), (("w", accepted),)
        )
        return set(blame(question, calls))

    def one(**changes: Any) -> set[str]:
        arguments = {"city": "Oslo", "days": 12, "tags": ["a", "b"], **changes}
        return kinds(("w", {k: v for k, v in arguments.items() if v is not None}))

    assert one() == set() and one(city="Rome") == {"string of another argument"}
    assert one(city="Osl") == {"string cut wrongly"} and one(city="Olso") == {"string miscopied"}
    assert one(days=3) == {"number of another argument"} and one(days=2) == {
        "number that is not in the request"
    }
    assert one(days=None, more=1) == {"an argument left out", "an argument nobody gave"}
    assert one(tags=["a"]) == {"list of another length"} and one(tags=["b", "a"]) == {"item of a list"}
    assert kinds() == {"no call"} and kinds(("w", None)) == {"cut off"} and kinds(("x", {})) == {"wrong tool"}
    assert kinds(("w", {}), ("w", {})) == {"too many calls"}
    assert set(blame(_question(), [("w", {})])) == {"a call where none fits"}


@pytest.mark.parametrize(
    ("given", "accepted", "equal"),
    [
        (3, 3.0, True),
        (3, 4, False),
        (True, 1, False),
        ("New York, NY", "new york NY", True),
        ("Oslo", "Rome", False),
        ([1, 2], [1, 2], True),
        ([1, 2], [2, 1], False),
        ({"a": 1}, {"a": [1, 2]}, True),
        ({"a": 3}, {"a": [1, 2]}, False),
        (None, "x", False),
    ],
    ids=str,
)
def test_values_are_equal_up_to_how_they_are_written(given: Any, accepted: Any, equal: bool) -> None:
    assert same(given, accepted) is equal


def test_python_types_become_json_schema() -> None:
    schema = json_schema(
        {
            "type": "dict",
            "properties": {
                "x": {"type": "float", "description": "d"},
                "y": {"type": "tuple", "items": {"type": "integer"}},
                "z": {"type": "any"},
            },
            "required": ["x", "gone"],
        }
    )
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["x"] == {"type": "number", "description": "d"}
    assert schema["properties"]["y"] == {"type": "array", "items": {"type": "integer"}}
    assert schema["required"] == ["x"]
    assert plain_name("math.gcd x") == "math_gcd_x"


def test_held_out_requests_are_valid_and_wholly_of_the_test_split() -> None:
    questions = list(held_out())
    assert len(questions) >= 200
    assert 0.1 < sum(not q.accepted for q in questions) / len(questions) < 0.4
    for q in questions:
        for tool in q.tools:
            assert all(of_test_split(n) for n in (tool.name, *tool.parameters["properties"]))
    for row in map(json.loads, HELD_OUT.read_text(encoding="utf-8").splitlines()):
        schemas = {t["name"]: t["parameters"] for t in row["tools"]}
        for name, arguments in row["calls"]:
            jsonschema.validate(arguments, schemas[name])


@pytest.mark.parametrize(
    ("name", "count", "without"),
    [("everyday", 50, 20), ("counter", 50, 16), ("fresh", 50, 17), ("unseen", 60, 20)],
)
def test_typed_requests_hold_calls_their_tools_allow_and_files_add_tools_alone(
    name: str, count: int, without: int
) -> None:
    assert {name, f"{name}_files"} <= set(OWN)
    plain, files = list(questions_of(name)), list(questions_of(f"{name}_files"))
    assert len(plain) == len(files) == count and len({q.messages for q in plain}) == count
    assert sum(not q.accepted for q in plain) == without
    for q, more in zip(plain, files, strict=True):
        assert more.tools[: len(q.tools)] == q.tools and len(more.tools) == len(q.tools) + 2
        assert (q.id, q.messages, q.accepted) == (more.id, more.messages, more.accepted)
        schemas = {tool.name: tool.parameters for tool in q.tools}
        for name, accepted in q.accepted:  # each accepted value, the others as they come first
            for key, values in accepted.items():
                for value in values:
                    chosen = {k: v[0] for k, v in accepted.items()} | {key: value}
                    given = {k: v for k, v in chosen.items() if v != ""}
                    jsonschema.validate(given, {**schemas[name], "additionalProperties": False})


def test_values_of_fresh_requests_are_copied_or_named_by_the_schema() -> None:
    for q in questions_of("fresh"):
        (message,) = q.messages
        assert isinstance(message, UserMessage)
        schemas = {tool.name: tool.parameters["properties"] for tool in q.tools}
        for name, accepted in q.accepted:
            for key, values in accepted.items():
                schema = schemas[name][key]
                named = [*schema.get("enum", ()), schema.get("default")]
                for value in values:
                    if value != "" and not isinstance(value, bool):
                        assert value in named or str(value).lower() in message.text.lower()


def test_a_call_is_asked_for_where_one_is_right_unless_the_question_is_open() -> None:
    question = _question(("weather", {"city": ["Oslo"]}))
    assert question.choice(grammar=True) == "required"
    assert question.choice(grammar=False) == _question().choice(grammar=True) == "auto"
    assert all(q.choice(grammar=True) == "auto" for q in as_typed("everyday", files=False))


async def test_the_shipped_model_answers_a_question_in_the_engine() -> None:
    with Engine.load("laneformer-nano", device="cpu") as engine:
        question = _question(("weather", {"city": ["Oslo"]}))
        score = await ask(engine, question, grammar=True, max_tokens=60)
    assert not score.error and score.calls >= 1  # "required": whatever the weights, at least one call
