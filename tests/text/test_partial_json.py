"""The view of unfinished JSON: it only grows, ends as the whole value, and takes nothing that is no JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kogagent.chat import partial_json
from kogagent.errors import InputError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def grew(old: Any, new: Any) -> bool:
    """Whether `new` is `old` and perhaps more."""
    if old is None or type(old) is not type(new):
        return old is None
    if isinstance(old, str):
        return bool(new.startswith(old))
    if isinstance(old, list):
        return len(old) <= len(new) and all(grew(a, b) for a, b in zip(old, new, strict=False))
    if isinstance(old, dict):
        return all(key in new and grew(value, new[key]) for key, value in old.items())
    return bool(old == new)


@settings(max_examples=150)
@given(VALUES, st.booleans())
def test_every_beginning_gives_a_value_that_only_grows(value: Any, plain: bool) -> None:
    text = json.dumps([value], ensure_ascii=plain)
    seen: Any = None
    for end in range(len(text) + 1):
        now = partial_json(text[:end])
        assert grew(seen, now), (text[:end], seen, now)
        json.dumps(now, ensure_ascii=False).encode()  # no half of a surrogate pair
        seen = now
    assert seen == json.loads(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("{", {}),
        ('{"a', {}),
        ('{"a"', {}),
        ('{"a": 1', {}),
        ('{"a": 1,', {"a": 1}),
        ('{"a": "x\\', {"a": "x"}),
        ('{"a": "x\\u00', {"a": "x"}),
        ('{"a": "\\ud83d', {"a": ""}),
        ('{"a": "\\ud83d\\ude0a', {"a": "😊"}),
        ('{"a": [1, tr', {"a": [1]}),
        ('{"a": [1, true', {"a": [1, True]}),
        ('[[{"b": [', [[{"b": []}]]),
        ("-", None),
        ("12", None),
        (" [ 1 , 2 ] ", [1, 2]),
    ],
)
def test_what_is_certain_is_shown_and_nothing_else(text: str, value: Any) -> None:
    assert partial_json(text) == value


@pytest.mark.parametrize(
    "text", ["}", "{]", '{"a" 1', "[1 2", "nul1", "[01", '"\n', '"\\x', "[1]x", "[,", "{,", "-a"]
)
def test_what_begins_no_json_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="no beginning of JSON"):
        partial_json(text)


def test_deep_nesting_is_refused_and_not_a_crash() -> None:
    with pytest.raises(InputError, match="nested more than 256 deep"):
        partial_json("[" * 100_000)
