"""The next step is a value, decided by a pure function; limits are numbers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from kogagent import AssistantMessage, InputError, Limits, ToolCall
from kogagent.loop.step import Act, AskAgain, Finish, GiveUp, Invalid, Valid, decide
from kogagent.loop.unfinished import ran_on_in

CALL = ToolCall("1", "ls", "{}")


def number(text: str) -> Valid | Invalid:
    return Valid(int(text)) if text.isdigit() else Invalid(f"{text!r} is no number")


def test_a_turn_with_calls_is_acted_on_whatever_else_it_says() -> None:
    message = AssistantMessage("text", "plan", (CALL,))
    for reason in ("stop", "length"):
        assert decide(message, reason, None, 0) == decide(message, reason, number, 0) == Act((CALL,))


def test_any_text_is_an_answer_without_an_output_type() -> None:
    assert decide(AssistantMessage("hi"), "stop", None, 0) == Finish("hi")
    assert decide(AssistantMessage(""), "grammar", None, 0) == Finish("")


def test_an_answer_cut_off_is_never_called_finished() -> None:
    assert decide(AssistantMessage("hi"), "length", None, 0) == Finish("hi", "max_tokens")
    assert decide(AssistantMessage("hi"), "context", None, 0) == Finish("hi", "max_tokens")


def test_an_answer_of_the_output_type_is_delivered_as_a_value() -> None:
    assert decide(AssistantMessage("12"), "stop", number, 0) == Finish(12)


def test_an_answer_that_does_not_fit_is_asked_for_again_while_there_are_retries() -> None:
    assert decide(AssistantMessage("x"), "stop", number, 1) == AskAgain("'x' is no number")
    assert decide(AssistantMessage("x"), "stop", number, 0) == GiveUp("'x' is no number")


def test_a_cut_answer_of_an_output_type_is_not_read_even_if_it_would_parse() -> None:
    step = decide(AssistantMessage("12"), "length", number, 1)
    assert isinstance(step, AskAgain) and "cut off" in step.reason
    assert isinstance(decide(AssistantMessage("12"), "length", number, 0), GiveUp)


def test_a_cut_answer_says_what_it_ran_on_in(rng: np.random.Generator) -> None:
    long, many = 'na\\"ï ' * int(rng.integers(50, 99)), int(rng.integers(40, 99))
    cases = {
        json.dumps(long)[:-1]: f"a text, {len(json.dumps(long)) - 2:,} characters long",
        json.dumps({"name": long})[:-2]: "a text at 'name', ",
        json.dumps({"a": 1, "cities": [{"name": "Oslo", "sights": ["x"] * many}]})[:-4]: (
            f"a list at 'cities[0].sights', at item {many}"
        ),
        json.dumps([["a"] * many + [[["b"]]]])[:-4]: f"a list at '[0]', at item {many + 1}",
        json.dumps([*["text"] * many, "and"])[:-2]: f"a list, at item {many + 1}",
        json.dumps({str(n): n for n in range(many)})[:-1]: f"an object, at entry {many}",
        json.dumps({"n": 10**many})[:-1]: f"a number at 'n', {many + 1} characters long",
        '{"a": ' + "[" * many: "a list at 'a",
        json.dumps({long: 1})[:-5]: "a text, ",
        json.dumps({"a": {long: 1}})[:-6]: "a text at 'a', ",
    }
    for text, wanted in cases.items():
        assert ran_on_in(text).startswith(wanted), (text, ran_on_in(text))
    step = decide(AssistantMessage(json.dumps({"name": long})[:-9]), "length", number, 0)
    assert isinstance(step, GiveUp) and "token limit, in a text at 'name', " in step.reason


def test_any_text_cut_anywhere_is_told_as_something(rng: np.random.Generator) -> None:
    whole = json.dumps({"a\\": ['"\\', {"b": -1.5e9, "c": [True, None, {}]}, []], "d": "é\n"})
    letters = '{}[]",:\\ 1-e\n'
    for text in (
        *(whole[:cut] for cut in range(len(whole) + 1)),
        *("".join(rng.choice(list(letters), int(rng.integers(30)))) for _ in range(500)),
    ):
        kind = ran_on_in(text).split(" ")[:2]
        assert kind in ([""], ["a", "text"], ["a", "text,"], ["a", "list"], ["a", "list,"], ["a", "number"],
                        ["a", "number,"], ["an", "object"], ["an", "object,"])  # fmt: skip
    prose = "The file 'a' has a \" in it, and so" + " on" * int(rng.integers(1, 99))
    for text in (whole, "I cannot say, alas: 12", prose, f'{{"a": {prose}'):
        assert ran_on_in(text) == "", text


def test_asking_again_is_pointless_when_the_context_is_full() -> None:
    assert isinstance(decide(AssistantMessage("1"), "context", number, 5), GiveUp)


@pytest.mark.parametrize(
    "bad",
    [
        {"max_turns": 0},
        {"max_calls": -1},
        {"max_tokens": 1.5},
        {"max_seconds": 0},
        {"max_seconds": float("nan")},
        {"turn_tokens": None},
        {"turn_tokens": True},
        {"parallel_calls": 0},
        {"repeated_calls": 0},
        {"output_retries": -1},
        {"max_turns": "3"},
    ],
)
def test_a_bad_limit_is_refused_by_name(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"Limits.{next(iter(bad))}="):
        Limits(**bad)


def test_limits_say_which_of_them_is_reached() -> None:
    limits = Limits(max_turns=3, max_tokens=100, turn_tokens=40)
    assert limits.reached(2, 99) is None
    assert limits.reached(3, 0) == "max_turns"
    assert limits.reached(0, 100) == "max_tokens"
    assert limits.next_turn_tokens(0) == 40
    assert limits.next_turn_tokens(75) == 25
    assert Limits(max_turns=None, max_calls=None).reached(10**9, 10**9) is None
