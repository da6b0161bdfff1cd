"""Values made by the fast `__init__` are what the standard one makes."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, fields, is_dataclass, replace
from typing import Any

import pytest
from pydantic import TypeAdapter

import kogagent.types as types
from kogagent.loop import protocols, step
from kogagent.types import Timings, ToolCall, TurnEnd, Usage
from kogagent.types.quick import maker, quick

CHECKED = ("File", "SamplingParams", "Event")  # look at what they are given, or are no value by themselves
MADE = [
    kind
    for module in (types, protocols, step)
    for kind in vars(module).values()
    if isinstance(kind, type) and is_dataclass(kind) and kind.__name__ not in CHECKED
]


def filled(kind: type) -> dict[str, Any]:
    return {field.name: f"the {field.name}" for field in fields(kind)}


@pytest.mark.parametrize("kind", MADE, ids=lambda kind: kind.__name__)
def test_a_value_is_what_was_given_and_stays_so(kind: Any) -> None:
    given = filled(kind)
    value: Any = kind(**given)
    assert {name: getattr(value, name) for name in given} == given and type(value) is kind
    plain = {field.name: given[field.name] for field in fields(kind) if not field.kw_only}
    made: Any = maker(kind)(**plain)  # takes no keywords: the moment is now
    assert {name: getattr(made, name) for name in plain} == plain and type(made) is kind
    copied: Any = replace(made)
    assert copied == made == value and copy.deepcopy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value
    for name in given:
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, "another")
        with pytest.raises(FrozenInstanceError):
            setattr(made, name, "another")
    with pytest.raises(FrozenInstanceError):
        value.no_field = 1
    with pytest.raises(TypeError, match="unexpected keyword argument 'wrong'"):
        kind(**given, wrong=1)


def test_defaults_are_made_anew_and_what_must_be_given_is_missed() -> None:
    first, second = TurnEnd("stop"), TurnEnd("stop")
    assert first == second == TurnEnd("stop", Usage(), Timings(), at=0.0) and first.at <= second.at
    third = maker(TurnEnd)("stop")
    assert third == first and third.at >= second.at
    with pytest.raises(TypeError, match="missing 2 required positional arguments: 'name' and 'arguments'"):
        ToolCall("1")  # type: ignore[call-arg]


def test_a_maker_takes_no_keyword_and_needs_a_default_in_its_place() -> None:
    @quick
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Marked:
        mark: str

    assert Marked(mark="x").mark == "x"
    with pytest.raises(TypeError, match=r"Marked\.mark: maker"):
        maker(Marked)
    with pytest.raises(TypeError, match="unexpected keyword argument 'at'"):
        maker(TurnEnd)("stop", at=1.0)


def test_a_class_below_and_a_validator_make_them_too() -> None:
    @dataclass(frozen=True, slots=True)
    class Labelled(TurnEnd):
        label: str = "none"

    class Named(Timings):
        name = "mine"

    labelled = Labelled("stop", label="x", at=2.0)
    assert (labelled.reason, labelled.usage, labelled.label, labelled.at) == ("stop", Usage(), "x", 2.0)
    assert Named(1.0, wall_s=3.0).loop_s == 2.0 and type(Named()) is Named
    assert TypeAdapter(Usage).validate_json('{"steps": 3}') == Usage(steps=3)


def test_a_generic_value_is_made_by_its_typed_name_too() -> None:
    call = ToolCall("1", "look", "{}")
    assert types.RunContext[int](3, call) == types.RunContext(3, call)
