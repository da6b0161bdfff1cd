"""From a schema to the tokens that are legal next. Knows bytes and ids only.

Compiled on the host to a byte automaton with counters and a bounded stack (automaton.py), walked along the
vocabulary (walker.py) for masks and forced runs (matcher.py). docs/grammar.md says what is enforced.
"""

from kogagent.engine.grammar.compile import (
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

__all__ = [
    "ArgumentKinds",
    "Bounds",
    "FallbackGrammar",
    "FallbackMatcher",
    "Grammar",
    "Matcher",
    "compile_choices",
    "compile_ebnf",
    "compile_regex",
    "compile_schema",
    "compile_turn",
]
