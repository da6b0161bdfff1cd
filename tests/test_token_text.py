"""Text of tokens: whole code points, exact stops, nothing lost at either."""

from __future__ import annotations

import numpy as np
import pytest

from kogagent.errors import InputError
from kogagent.local.tokens import Token, TokenText, stop_strings
from kogagent.spec import Vocabulary

PIECES = [
    b"a", b"b", b"ab", b"<", b"</", b"stop", b"sto", b"p>", b"\n", b" ", b"\xf0", b"\x9f", b"\x98", b"\x80",
    b"\xf0\x9f", b"\x98\x80", b"\xc3", b"\xa9x", b"\xff", b"x\xc3", "é".encode(), "日本".encode(), b"END",
]  # fmt: skip
VOCABULARY = Vocabulary(tuple(PIECES), frozenset([22]), (22,))


def run(ids: list[int], stops: tuple[str, ...] = ()) -> tuple[list[Token], TokenText]:
    text = TokenText(VOCABULARY, stops)
    out: list[Token] = []
    for i, token in enumerate(ids):
        out += text.feed(token, -float(i), False)
    return out + text.finish(), text


def test_texts_concatenate_to_the_decoded_bytes(rng: np.random.Generator) -> None:
    for _ in range(500):
        ids = rng.integers(0, len(PIECES), int(rng.integers(0, 12))).tolist()
        out, _ = run(ids)
        assert [token.id for token in out] == ids
        assert "".join(token.text for token in out) == VOCABULARY.decode(ids).decode(errors="replace")
        assert b"".join(token.bytes for token in out) == VOCABULARY.decode(ids)
        assert [token.logprob for token in out] == [-float(i) for i in range(len(ids))]


def test_text_is_cut_before_the_first_stop_string_wherever_tokens_end(rng: np.random.Generator) -> None:
    stops = ("</stop>", "ab", "\n\n", "é<")
    stopped = 0
    for _ in range(2000):
        ids = rng.integers(0, len(PIECES), int(rng.integers(0, 15))).tolist()
        whole = VOCABULARY.decode(ids).decode(errors="replace")
        places = [at for at in (whole.find(stop) for stop in stops) if at >= 0]
        out, text = run(ids, stops)
        expected = whole[: min(places)] if places else whole
        assert "".join(token.text for token in out) == expected
        assert text.stopped == bool(places)
        assert [token.id for token in out] == ids[: len(out)]
        stopped += bool(places)
    assert stopped > 100


def test_a_stop_string_is_seen_with_its_last_token_and_not_later() -> None:
    text = TokenText(VOCABULARY, ("</stop>",))
    assert [t.text for t in text.feed(0, 0.0, False)] == ["a"]
    assert text.feed(4, 0.0, False) == []
    assert text.feed(6, 0.0, False) == []
    assert not text.stopped
    assert text.feed(7, 0.0, False) == [] and text.stopped
    assert text.feed(0, 0.0, False) == [] and text.finish() == []


def test_text_that_only_looked_like_a_stop_is_released_as_soon_as_it_cannot_be_one() -> None:
    text = TokenText(VOCABULARY, ("</stop>",))
    assert text.feed(4, 0.0, False) == []
    assert [t.text for t in text.feed(0, 0.0, False)] == ["</", "a"]


def test_an_emoji_over_two_tokens_comes_with_the_second() -> None:
    text = TokenText(VOCABULARY)
    assert text.feed(14, 0.0, False) == []
    assert [t.text for t in text.feed(15, 0.0, False)] == ["", "😀"]


def test_a_character_cut_off_by_the_end_is_replaced() -> None:
    out, _ = run([0, 19])
    assert [t.text for t in out] == ["a", "x\ufffd"]


def test_special_ids_have_no_text() -> None:
    out, _ = run([0, 22])
    assert [(t.text, t.bytes) for t in out] == [("a", b"a"), ("", b"")]


def test_stop_takes_one_string_or_several_and_refuses_the_rest() -> None:
    assert stop_strings("ab") == ("ab",)
    assert stop_strings(["a", "b"]) == ("a", "b")
    assert stop_strings(()) == ()
    for bad in ("", ["a", ""], [3], b"a"):
        with pytest.raises(InputError, match="non-empty string"):
            stop_strings(bad)  # type: ignore[arg-type]
    for other in (None, 3):
        with pytest.raises(InputError, match=f"stop={other}: must be a string or a list"):
            stop_strings(other)  # type: ignore[arg-type]
