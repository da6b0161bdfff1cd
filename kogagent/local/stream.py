"""Text conversations on an engine: token streams and sessions. Knows ids and text; no messages, no tools."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeAlias

from kogagent.engine.backend import TokenGrammar
from kogagent.engine.counters import Counters
from kogagent.engine.sampling import SamplingParams
from kogagent.engine.session import Session
from kogagent.engine.stream import SessionStream
from kogagent.errors import InputError
from kogagent.local.tokens import Token, TokenText, stop_strings
from kogagent.spec import Vocabulary
from kogagent.tokenizer import Tokenizer
from kogagent.types import FinishReason, Timings, Usage


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """A grammar: one JSON value of a schema. fallback: what the own compiler refuses is handed to llguidance
    (the extra `fallback`) where that enforces it."""

    schema: Mapping[str, Any] | bool
    fallback: bool = False


@dataclass(frozen=True, slots=True)
class Regex:
    """A grammar: text that an ECMA-262 pattern matches from end to end, at most max_length code points.

    Raises SchemaError for a pattern that cannot be read.
    """

    pattern: str
    max_length: int = 4096

    def __post_init__(self) -> None:
        from kogagent.engine.grammar import check_regex

        check_regex(self.pattern, self.max_length)


@dataclass(frozen=True, slots=True)
class Choices:
    """A grammar: exactly one of several texts. Raises InputError for none."""

    texts: Sequence[str]

    def __post_init__(self) -> None:
        from kogagent.engine.grammar import check_choices

        check_choices(self.texts)


@dataclass(frozen=True, slots=True)
class Ebnf:
    """A grammar: rules as docs/grammar.md writes them. depth: how deep they may nest inside themselves."""

    text: str
    start: str = "start"
    depth: int = 16


Grammar: TypeAlias = Mapping[str, Any] | JsonSchema | Regex | Choices | Ebnf | TokenGrammar
"""What `grammar=` takes: a JSON Schema, plain or as JsonSchema, a Regex, Choices, Ebnf, or a grammar compiled
for the vocabulary."""


def check_grammar(grammar: Grammar | None) -> None:
    """Raise InputError for what is no grammar at all."""
    known = grammar is None or isinstance(grammar, Mapping | JsonSchema | Regex | Choices | Ebnf)
    if not known and not callable(getattr(grammar, "start", None)):
        schema = ""
        if isinstance(grammar, type) and hasattr(grammar, "model_json_schema"):
            schema = f". Pass {grammar.__name__}.model_json_schema()."
        raise InputError(
            f"grammar={grammar!r}: must be a JSON Schema, JsonSchema(...), Regex(...), Choices(...), "
            f"Ebnf(...) or a compiled grammar{schema}"
        )


def compiled(grammar: Grammar | None, vocabulary: Vocabulary) -> TokenGrammar | None:
    """Compile what `grammar=` was given. Raises SchemaError or InputError naming what is refused."""
    check_grammar(grammar)
    if grammar is None:
        return None
    from kogagent.engine.grammar import compile_choices, compile_ebnf, compile_regex, compile_schema

    if isinstance(grammar, Mapping):
        return compile_schema(grammar, vocabulary)
    if isinstance(grammar, JsonSchema):
        return compile_schema(grammar.schema, vocabulary, fallback=grammar.fallback)
    if isinstance(grammar, Regex):
        return compile_regex(grammar.pattern, vocabulary, max_length=grammar.max_length)
    if isinstance(grammar, Choices):
        return compile_choices(grammar.texts, vocabulary)
    if isinstance(grammar, Ebnf):
        return compile_ebnf(grammar.text, vocabulary, start=grammar.start, depth=grammar.depth)
    return grammar


def usage_of(counters: Counters) -> Usage:
    c = counters
    return Usage(c.reused, c.prefilled, c.sampled, c.forced, c.steps, c.restored)


def encode_prompt(tokenizer: Tokenizer, text: str, *, first: bool) -> list[int]:
    """Ids of plain text: a prompt of its own, with the tokenizer's BOS, or a text that goes on."""
    if first:
        return [*tokenizer.prompt_prefix, *tokenizer.encode(text)]
    return tokenizer.encode_continuing(text)


class TokenStream:
    """Tokens as they come: an async iterator and a context manager. Nothing runs before it is read.

    Leaving early stops at a token border; the session then holds the tokens that were handed over, and after
    a stop string those it is made of. Read to the end it needs no `async with`; dropped half-way it warns.
    prompt: ids to append first, which take a while to make; these and the grammar are made in a thread.
    """

    def __init__(
        self,
        session: Session,
        vocabulary: Vocabulary,
        *,
        sampling: SamplingParams | None,
        stop: str | Sequence[str],
        grammar: Grammar | None,
        max_tokens: int | None,
        owns_session: bool,
        prompt: Callable[[], list[int]] | None = None,
    ) -> None:
        self._session, self._owns = session, owns_session
        self._vocabulary = vocabulary
        self._text = TokenText(vocabulary, stop_strings(stop))
        check_grammar(grammar)
        self._grammar = grammar
        self._prompt = prompt
        self._options = (session.checked(sampling, max_tokens), max_tokens)
        self._started = False
        self._stream: SessionStream | None = None
        if prompt is None:
            self._open()
        self._ready: deque[Token] = deque()
        self._given = 0  # tokens handed over
        self._fed = 0  # ids that went into the text
        self._ended = self._closed = False
        self._reason: FinishReason | None = None

    @property
    def reason(self) -> FinishReason | None:
        """Why it ended; None while it runs and after an error."""
        return self._reason

    def _open(self) -> SessionStream:
        sampling, max_tokens = self._options
        self._base = len(self._session)
        self._stream = self._session.stream(
            sampling=sampling,
            stop_ids=self._vocabulary.end_ids,
            max_tokens=max_tokens,
            legal_ids=len(self._vocabulary),
        )
        return self._stream

    async def _start(self) -> SessionStream:
        """Make what takes longer than a loop may wait."""
        self._started = True
        if self._prompt is not None:
            self._session.append(await asyncio.to_thread(self._prompt))
        stream = self._open() if self._stream is None else self._stream
        if self._grammar is not None:
            grammar = await asyncio.to_thread(compiled, self._grammar, self._vocabulary)
            if grammar is not None:
                stream.follow(grammar.start())
        return stream

    @property
    def _counters(self) -> Counters:
        return Counters() if self._stream is None else self._stream.counters

    @property
    def usage(self) -> Usage:
        return usage_of(self._counters)

    @property
    def timings(self) -> Timings:
        """Seconds inside the engine; wall_s is their sum."""
        c = self._counters
        return Timings(c.prefill_s, c.sampled_s, c.forced_s, wall_s=c.prefill_s + c.sampled_s + c.forced_s)

    def __aiter__(self) -> TokenStream:
        return self

    async def __anext__(self) -> Token:
        while not self._ready:
            if self._ended:
                await self.aclose()
                raise StopAsyncIteration
            await self._more()
        self._given += 1
        return self._ready.popleft()

    async def _more(self) -> None:
        stream = self._stream
        try:
            if not self._started or stream is None:
                stream = await self._start()
            batch = await stream.__anext__()
        except StopAsyncIteration:
            self._ended = True
            self._reason = None if stream is None else stream.reason
            self._ready += self._text.finish()
            if self._text.stopped:
                self._reason = "stop_text"
            return
        except asyncio.CancelledError:
            self._ended = True
            await self._release(self._given)  # ids whose text was held back were not handed over
            raise
        except BaseException:
            self._ended = True
            await self._release()
            raise
        for emitted in batch:
            self._fed += 1
            self._ready += self._text.feed(emitted.id, emitted.logprob, emitted.forced)
            if self._text.stopped:
                self._ended = True
                self._reason = "stop_text"
                await stream.aclose()
                return

    async def text(self) -> str:
        """Read to the end; all the text."""
        return "".join([token.text async for token in self])

    async def aclose(self) -> None:
        """Stop at a token border and wait for it. Idempotent."""
        if self._closed:
            return
        kept = self._fed if self._ended and not self._ready else self._given
        if not self._ended or self._ready:
            self._reason = "cancelled"
        self._ended = True
        self._ready.clear()
        await self._release(kept)

    async def _release(self, kept: int | None = None) -> None:
        self._closed = True
        if self._stream is not None:
            await self._stream.aclose()
        if self._owns:
            await self._session.aclose()
        elif kept is not None and self._stream is not None:
            self._session.rewind(min(len(self._session), self._base + kept))

    async def __aenter__(self) -> TokenStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class TextSession:
    """One conversation in text: append, stream, rewind, fork. Made by `Engine.session`.

    Text appended continues the text so far; its special names stay text. Used by one task at a time.
    """

    def __init__(self, session: Session, tokenizer: Tokenizer) -> None:
        self._session, self._tokenizer = session, tokenizer

    @property
    def ids(self) -> tuple[int, ...]:
        return self._session.ids

    def __len__(self) -> int:
        """Tokens so far."""
        return len(self._session)

    @property
    def text(self) -> str:
        """The text of all ids so far; special ids have none."""
        return self._tokenizer.vocabulary.decode(self._session.ids).decode(errors="replace")

    @property
    def usage(self) -> Usage:
        """Summed over all streams of this session that have ended."""
        return usage_of(self._session.counters)

    def append(self, text: str | Sequence[int]) -> None:
        """Add text, or ids as they are. Raises ContextError when it does not fit, and changes nothing."""
        if isinstance(text, str):
            self._session.append(encode_prompt(self._tokenizer, text, first=not len(self._session)))
        else:
            self._session.append(text)

    def rewind(self, tokens: int) -> None:
        """Forget everything past the first `tokens`."""
        self._session.rewind(tokens)

    async def fork(self) -> TextSession:
        """A second session with the same past; what is in the cache is copied, not computed again."""
        return TextSession(await self._session.fork(), self._tokenizer)

    async def prefill(self) -> None:
        """Compute what was appended now, so that the next stream starts at once."""
        await self._session.prefill()

    def stream(
        self,
        *,
        sampling: SamplingParams | None = None,
        stop: str | Sequence[str] = (),
        grammar: Grammar | None = None,
        max_tokens: int | None = None,
    ) -> TokenStream:
        """Continue. The tokens handed over join the session."""
        return TokenStream(
            self._session,
            self._tokenizer.vocabulary,
            sampling=sampling,
            stop=stop,
            grammar=grammar,
            max_tokens=max_tokens,
            owns_session=False,
        )

    async def aclose(self) -> None:
        """End it; the engine keeps its cache for conversations that start alike. Idempotent."""
        await self._session.aclose()

    async def __aenter__(self) -> TextSession:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
