"""Free grammars: what their rules mean, how deep they nest, and which are refused with which words."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable

import numpy as np
import pytest
from grammar_rules import ALPHABET, random_grammar, recognises, short_walk
from grammar_schemas import random_walk
from grammar_vocabularies import byte_vocabulary, smollm

from kogagent.engine.grammar import Grammar, compile_ebnf, procedures
from kogagent.engine.grammar.automaton import END, FINISHED, Frame
from kogagent.engine.grammar.ebnf import read_ebnf
from kogagent.engine.grammar.tables import begin, make_tables, step
from kogagent.errors import InputError
from kogagent.local import Ebnf
from kogagent.local.stream import compiled
from kogagent.spec import Vocabulary

PLAIN = byte_vocabulary()
JSON = r"""
# JSON with a little white space, the classic test of a text form
start: ws value
value: (object | array | string | number | "true" | "false" | "null") ws
object: "{" ws (pair ("," ws pair)*)? "}"
pair ::= string ws ":" ws value
array = "[" ws (value ("," ws value)*)? "]"   // any of three signs defines a rule
string: '"' (/[^"\\\x00-\x1f]/ | "\\" (["\\\/bfnrt] | "u" [0-9a-cA-C] [0-9a-fA-F]{3}))* '"'
number: "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [+\-]? [0-9]+)?
ws: [ \n\t]{0,2}
"""


def accepts(grammar: Grammar, text: str) -> bool:
    automaton = grammar.automaton
    here: tuple[int, Frame] | None = (automaton.start, automaton.frames)
    for symbol in (*text.encode(), END):
        if here is None:
            return False
        here = automaton.step(here[0], here[1], symbol)
    return here is not None and here[0] == FINISHED


def test_a_grammar_of_json_writes_json(rng: np.random.Generator) -> None:
    rand = random.Random(int(rng.integers(2**32)))
    grammar = compile_ebnf(JSON, PLAIN, depth=6)
    for _ in range(60):
        text = random_walk(grammar.automaton, rand, patience=rand.choice([0, 20, 60])).decode()
        json.loads(text)
        assert accepts(grammar, text)
    for text in ("[1, ]", '{"a" 1}', "01", "[", "", '"\t"', "nulltrue", "   1"):
        assert not accepts(grammar, text), text


def test_random_grammars_mean_what_a_recogniser_of_another_kind_says(rng: np.random.Generator) -> None:
    seed = int(rng.integers(2**32))
    compared = taken = nested = 0
    for number in range(550):
        rand = random.Random(f"{seed}/{number}")
        source = random_grammar(rand)
        try:
            grammar = compile_ebnf(source, PLAIN)
        except InputError:
            continue
        rules = read_ebnf(source)
        nested += bool(grammar.notes and "nest" in grammar.notes[0])
        texts = ["".join(rand.choice(ALPHABET) for _ in range(rand.randint(0, 6))) for _ in range(15)]
        for _ in range(3):
            walked = short_walk(grammar.automaton, rand)
            if walked is None:
                continue
            assert recognises(rules, walked), (seed, number, source, walked)
            at = rand.randrange(len(walked) + 1)
            texts += [
                walked,
                walked[:at] + rand.choice(ALPHABET) + walked[at:],
                walked[:at] + walked[at + 1 :],
            ]
        for text in texts:
            expected = recognises(rules, text)
            assert accepts(grammar, text) == expected, (seed, number, source, text)
            compared += 1
            taken += expected
    assert compared > 2000 and taken > 250 and nested > 8, (compared, taken, nested)


def test_the_devices_tables_walk_free_grammars_too(rng: np.random.Generator) -> None:
    rand = random.Random(int(rng.integers(2**32)))
    automaton = compile_ebnf(JSON, PLAIN, depth=4).automaton
    tables = make_tables(automaton)
    for _ in range(10):
        at = begin(tables)
        for symbol in (*random_walk(automaton, rand, patience=30), 256):
            assert step(tables, at, symbol)
        assert at.state == 1


def test_nesting_stops_at_the_depth_and_right_recursion_does_not_nest() -> None:
    nest = compile_ebnf('start: "(" start ")" | "x"', PLAIN, depth=3)
    assert accepts(nest, "(((x)))") and not accepts(nest, "((((x))))")
    assert nest.notes == ("rules nest inside themselves at most 3 deep",)
    walk = nest.start()
    for byte in b"(((":
        walk.advance(byte)
    assert walk.forced() == (ord("x"),)  # never led to where it could not end
    items = compile_ebnf('start: item | item ", " start\nitem: [a-z]{1,3}', PLAIN, depth=0)
    assert accepts(items, ", ".join(["abc"] * 100))
    twice = 'start: "<" start ">" one | "x" one\none: "(" start ")" | two\ntwo: "[" one "]" two | "."'
    assert accepts(compile_ebnf(twice, PLAIN, depth=1), "x[.].")
    deep = 'start: "(" one ")"\none: "[" start "]" | "." inner\ninner: "{" "}"'
    assert accepts(compile_ebnf(deep, PLAIN, depth=0), "(.{})")


def test_white_space_is_only_what_the_rules_write() -> None:
    grammar = compile_ebnf('start: "a" "b"   # nothing between them', PLAIN)
    assert accepts(grammar, "ab") and not accepts(grammar, "a b")


def test_forced_text_of_a_grammar_comes_as_a_run() -> None:
    vocabulary, _ = smollm()
    grammar = compile_ebnf('start: ("yes" | "no") ", that is the answer."', vocabulary)
    matcher = grammar.start()
    assert vocabulary.encode is not None
    assert matcher.forced() == ()
    matcher.advance(vocabulary.encode("yes")[0])
    assert vocabulary.decode(matcher.forced()).decode().startswith(", that is the answer.")


def test_a_nested_text_of_several_lines_and_every_escape() -> None:
    grammar = compile_ebnf(
        'start:\n  \'it\\\'s\'\n  | "\\u00e9\\x41\\n\\ud83d\\ude0a\\u{1F600}"\n  | ""', PLAIN
    )
    for text in ("it's", "éA\n😊😀", ""):
        assert accepts(grammar, text), text


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('start: "a"\nb: c', "line 2, rule 'b': the rule 'c' is not defined"),
        ('start: b "x"\nb: c\nc: "q"? b', r"line 2, rule 'b': it is left-recursive \(b -> c -> b\)"),
        ('start: "(" start ")"', "line 1, rule 'start': it has no finite text"),
        ('begin: "a"', "no rule 'start' to start from; it has begin"),
        (
            'start: "a" s\ns: "if" s ("else" s)? | "b"',
            "line 2, rule 's': it is ambiguous: where it may end, 'e' may continue it",
        ),
        (
            'start: "(" (start | "xy") ")" | "x"',
            "rule 'start': here both the rule 'start' and what stands beside it may begin with 'x'",
        ),
        ('start: "a" | "b"\n\nstart: "c"', "line 3, rule 'start': defined before, on line 1"),
        ("start:", 'line 1, rule \'start\': it has no body; write ""'),
        ('start: "a', "line 1, cannot read '\"a'"),
        ("start:\n  [z-a]", r"line 2, rule 'start': bad or unsupported pattern \[z-a\]: a range is out"),
        ("start: /(?=x)/", "line 1, rule 'start': bad or unsupported pattern"),
        ('start: "a"{3,1}', r"line 1, rule 'start': the repetition \{3,1\} is out of order"),
        ('start: "a"{9999}', "of more than 2000"),
        ('start: * "a"', r"nothing to repeat before '\*'"),
        ('start: ("a"', r"line 1, rule 'start': '\(' is not closed"),
        ('start: "a")', r"line 1, rule 'start': '\)' without '\('"),
        ('start: "\\q"', "unknown escape"),
        ('start: "\\ud800"', "lone surrogate"),
        ('start: ("a"{2000}){2000}', "more than 50000 places"),
        ('start: [ab]* "a" [ab]{14}', "rule 'start': it needs more than 16384 states"),
        ('"a"', "line 1, expected a rule's name"),
        ("", "a grammar is a text of rules"),
    ],
)  # fmt: skip
def test_a_bad_grammar_is_refused_by_rule_and_line(source: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        compile_ebnf(source, PLAIN)


def test_depth_and_types_are_checked() -> None:
    with pytest.raises(InputError, match="depth must be an integer from 0 to 256, not -1"):
        compile_ebnf('start: "a"', PLAIN, depth=-1)
    with pytest.raises(InputError, match="a text of rules and the name of one"):
        compile_ebnf(b"start: 1", PLAIN)  # type: ignore[arg-type]


def test_a_grammar_that_needs_a_byte_no_token_has_is_refused() -> None:
    tokens = (*(bytes([i]) for i in range(256) if i != ord("x")), b"<end>")
    with pytest.raises(InputError, match="0x78"):
        compile_ebnf('start: "ax"', Vocabulary(tokens, frozenset({255}), (255,)))


def test_the_engine_takes_it_beside_the_other_grammars() -> None:
    grammar = compiled(Ebnf('word: "a" | "b"', start="word", depth=2), PLAIN)
    assert grammar is compile_ebnf('word: "a" | "b"', PLAIN, start="word", depth=2)


def test_a_rule_that_cannot_be_told_apart_is_refused_before_it_costs_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[int] = []
    real = procedures._Nfa.closure

    def closure(self: procedures._Nfa, states: Iterable[int]) -> frozenset[int]:
        found = real(self, states)
        looked_at.append(len(found))
        return found

    monkeypatch.setattr(procedures._Nfa, "closure", closure)
    monkeypatch.setattr(procedures, "MAX_LOOKED_AT", 20_000)
    with pytest.raises(
        InputError, match="rule 'start': to tell its alternatives apart more than 20000 places"
    ):
        compile_ebnf('start: (("a"|"b"){0,40} "c"?){0,60}', PLAIN)
    assert sum(looked_at) <= 20_000 + 3 * max(looked_at)
    looked_at.clear()
    compile_ebnf('start: (("a"|"b"){0,4} "c"?){0,6}', PLAIN)
    assert 0 < sum(looked_at) < 20_000
