"""From a schema to the tokens that are legal next. Knows bytes and ids only.

Compiled on the host to a byte automaton with counters and a bounded stack (automaton.py), walked along the
vocabulary (walker.py) for masks and forced runs (matcher.py). docs/grammar.md says what is enforced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kogagent.engine.grammar.compile import (
        check_choices,
        check_regex,
        compile_choices,
        compile_ebnf,
        compile_regex,
        compile_schema,
        compile_turn,
    )
    from kogagent.engine.grammar.fallback import FallbackGrammar, FallbackMatcher
    from kogagent.engine.grammar.kinds import ArgumentKinds
    from kogagent.engine.grammar.matcher import Grammar, Matcher
    from kogagent.engine.grammar.shapes import Bounds

# Nothing is imported before it is asked for: who walks through a grammar need not wait for what compiles one.
_NAMES_OF = {
    "compile": "check_choices check_regex compile_choices compile_ebnf compile_regex compile_schema "
    "compile_turn",
    "fallback": "FallbackGrammar FallbackMatcher",
    "kinds": "ArgumentKinds",
    "matcher": "Grammar Matcher",
    "shapes": "Bounds",
}
_HOME = {name: module for module, names in _NAMES_OF.items() for name in names.split()}

__all__ = [
    "ArgumentKinds",
    "Bounds",
    "FallbackGrammar",
    "FallbackMatcher",
    "Grammar",
    "Matcher",
    "check_choices",
    "check_regex",
    "compile_choices",
    "compile_ebnf",
    "compile_regex",
    "compile_schema",
    "compile_turn",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value  # asked for once
    return value
