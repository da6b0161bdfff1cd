"""Patterns with what stands before them: look-aheads and (?i) let through what Python's `re` does."""

from __future__ import annotations

import re

import numpy as np
import pytest

from kogagent.engine.grammar.regex import compile_pattern


@pytest.mark.parametrize(
    ("pattern", "letters"),
    [
        (r"^(?=.*[A-Z])(?=.*\d).{3,}$", "aB1."),
        (r"^(?!foo|bar$)[a-z]+$", "fobar"),
        (r"^(?!\.)(?!.*\.\.)[a.]*@a$", "a.@"),
        (r"^(?!a\)b)(?![)]c)...$", "a)bc"),
        (r"^(?!.*(ab|ba)).*$", "abc"),
        (r"^(?=b)a", "ab"),
        (r"(?i)^ab[^cs]k$", "abABcCsSkK\u212a\u017f"),
        (r"(?i)^(?!AB)[a-c]+\_$", "abcABC_"),
        (r"(?i)[^k-s]x", "jklstJKLSTxX\u212a\u017f"),
        (r"^(?P<year>\d)(?P<rest>a)$", "1a"),
    ],
)
def test_a_pattern_means_what_python_reads(pattern: str, letters: str, rng: np.random.Generator) -> None:
    dfa = compile_pattern(pattern)
    drawn = {"".join(rng.choice([*letters], int(rng.integers(0, 8)))) for _ in range(3000)}
    found = {text for text in drawn if dfa is not None and dfa.matches(text)}
    wanted = {text for text in drawn if re.search(pattern, text)}
    assert found <= wanted
    assert not [text for text in wanted - found if text.isascii()], (
        "of the signs that fold to letters none is needed"
    )
