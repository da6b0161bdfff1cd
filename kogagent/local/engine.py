"""The public engine: a model by name, text in, tokens out. Joins engine core, tokenizer and chat."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType

from kogagent.chat import Chat
from kogagent.disk_cache import DiskCache
from kogagent.engine.backend import TokenGrammar
from kogagent.engine.engine import EngineCore
from kogagent.engine.kv import CacheUse
from kogagent.engine.prefixes import Prefixes
from kogagent.engine.sampling import SamplingParams
from kogagent.errors import ConfigError, InputError, named_options
from kogagent.local.model import LocalModel, ModelOptions, takes_a_while
from kogagent.local.names import dtype_for, find_model
from kogagent.local.recent import Recent
from kogagent.local.stream import Grammar, TextSession, TokenStream, compiled, encode_prompt, usage_of
from kogagent.spec import CallFormat, ModelSpec
from kogagent.tokenizer import Tokenizer
from kogagent.types import Message, Usage, Written

_GRAMMARS = 16  # of turns, kept in memory for conversations with the same tools


class Engine:
    """A loaded model, ready to stream. Close it, or use it as a context manager.

    One thread owns the device; any number of streams, sessions and agents share it, each used by one task at
    a time. It stays usable after every error but a DeviceError; then a new one can be loaded.
    """

    def __init__(self, core: EngineCore, tokenizer: Tokenizer, disk: DiskCache | None = None) -> None:
        self._core, self._tokenizer, self._disk = core, tokenizer, disk
        self._grammars: Recent[TokenGrammar] = Recent(_GRAMMARS)
        self._written: dict[int, Written] = {}

    @cached_property
    def chat(self) -> Chat:
        """How this model writes conversations. Raises ConfigError when it has no chat template."""
        return Chat(self._tokenizer)

    @classmethod
    @named_options
    def load(
        cls,
        name_or_path: str | Path,
        *,
        device: str = "auto",
        dtype: str = "auto",
        cache_bytes: int | None = None,
        host_cache_bytes: int | None = None,
        disk_cache: DiskCache | bool = True,
        keep_prompts: bool = False,
    ) -> Engine:
        """Load a model: a known name, a checkpoint directory, or a .gguf file. Blocks until it is ready.

        device: "auto", "cpu", or a backend by name: "cuda", "native", "torch", "reference"; "cuda:0,1" is one
        model over those GPUs. dtype: what that backend takes, or "auto", which loses nothing that tells
        (docs/cpu.md, docs/nano.md); `Engine.dtype` says which it is. cache_bytes: the memory that the caches
        of all conversations may take; those that wait make room, first into host_cache_bytes of the host's
        memory. By default most of what is free on a GPU and a quarter of this machine's, on a CPU half.
        disk_cache: whether the native backend keeps weights on disk as it has packed them, so that the next
        load takes a tenth of the time. keep_prompts: whether keys and values of what agents' prompts begin
        with (instructions, tools, history in front of the question) are kept there too, in files that only
        this user can read, so that a later process need not compute them (docs/cpu.md). Raises InputError
        that lists the known names, ConfigError naming what is wrong with the files, MissingExtraError for a
        package not installed.
        """
        from kogagent.engine.backends import load_backend, resolve

        # Options first: a wrong one is found out before torch is imported and the files are read.
        if not isinstance(disk_cache, bool | DiskCache):
            raise InputError(f"disk_cache={disk_cache!r}: must be True, False or a kogagent.DiskCache")
        if not isinstance(keep_prompts, bool):
            raise InputError(f"keep_prompts={keep_prompts!r}: must be True or False")
        path = find_model(name_or_path)
        dtype = dtype_for(path, resolve(device, dtype), dtype)
        from kogagent.engine.weights import identity, model_file
        from kogagent.local.words import spell

        path = model_file(path)

        disk = DiskCache() if disk_cache is True else disk_cache or None

        tokenizer = Tokenizer.load(path)
        spell(tokenizer, path, disk)  # the first turn need not wait for it
        core = EngineCore(
            lambda: load_backend(device, path, dtype, disk),
            cache_bytes=cache_bytes,
            host_cache_bytes=host_cache_bytes,
            prefixes=Prefixes(disk, identity(path)) if keep_prompts and disk is not None else None,
        )
        width, words = core.spec.vocab_size, len(tokenizer.vocabulary)
        if words > width:
            core.close()
            raise ConfigError(f"{path}: the tokenizer has {words} tokens, the model only {width}: no pair")
        return cls(core, tokenizer, disk)

    @property
    def name(self) -> str:
        """What its checkpoint calls it."""
        return self._core.spec.name

    @property
    def spec(self) -> ModelSpec:
        """The model's shape."""
        return self._core.spec

    @property
    def tokenizer(self) -> Tokenizer:
        return self._tokenizer

    @property
    def backend_name(self) -> str:
        """Which backend runs: "cuda", "native", "torch" or "reference"."""
        return self._core.backend_name

    @property
    def dtype(self) -> str:
        """The type of its weights: "float16", "int4" …"""
        return self._core.dtype

    @property
    def usage(self) -> Usage:
        """Summed over everything that has ended on this engine."""
        return usage_of(self._core.counters)

    async def caches(self) -> CacheUse:
        """The memory of all conversations, and what making room for them has cost since the engine loaded."""
        return await self._core.caches()

    @property
    def closed(self) -> bool:
        return self._core.closed

    @named_options
    def stream(
        self,
        prompt: str | Sequence[Message],
        *,
        sampling: SamplingParams | None = None,
        stop: str | Sequence[str] = (),
        grammar: Grammar | None = None,
        max_tokens: int | None = None,
    ) -> TokenStream:
        """Generate. A string is continued as it is; messages go through the model's chat template.

        sampling: greedy by default. stop: strings that end the text, cut off exactly. grammar: a JSON Schema,
        Regex, Choices, Ebnf, or a compiled grammar the text must follow. max_tokens: None for all that fit.
        Options and short prompts are checked here: InputError, or ContextError with both numbers. What takes
        longer than an event loop may wait, a grammar and a prompt of many thousand characters, is read in a
        thread when the stream is, and its errors are raised there: SchemaError for a grammar.
        """
        text = prompt if isinstance(prompt, str) else _messages(prompt)

        def encode() -> list[int]:
            if isinstance(text, str):
                ids = encode_prompt(self._tokenizer, text, first=True)
            else:
                ids = self.chat.render(text)
            if not ids:
                raise InputError("the prompt is empty: pass some text, or at least one message")
            return ids

        session = self._core.session()
        later = takes_a_while(text)
        if not later:
            session.append(encode())
        return TokenStream(
            session,
            self._tokenizer.vocabulary,
            sampling=sampling,
            stop=stop,
            grammar=grammar,
            max_tokens=max_tokens,
            owns_session=True,
            prompt=encode if later else None,
        )

    async def prepare(self, grammar: Grammar) -> TokenGrammar:
        """Compile what `grammar=` takes, and make what the device needs of it, in a thread: a stream that is
        given what this returns begins at once. Raises SchemaError or InputError naming what is refused."""
        self._core.check_open()

        def make() -> TokenGrammar:
            made = compiled(grammar, self._tokenizer.vocabulary)
            if made is None:
                raise InputError("grammar=None: there is nothing to prepare. Pass what `stream` takes.")
            self._core.prepare(made)
            return made

        return await asyncio.to_thread(make)

    def session(self, context: int | None = None) -> TextSession:
        """A conversation to append to, stream from, rewind and fork; room for `context` tokens."""
        return TextSession(self._core.session(context), self._tokenizer)

    @named_options
    def model(
        self,
        *,
        sampling: SamplingParams | None = None,
        constrained: bool = True,
        fallback: bool = False,
        forced_runs: bool = True,
        reuse: bool = True,
        distinct_calls: bool = False,
        call_format: CallFormat | None = None,
        patient: bool = True,
    ) -> LocalModel:
        """A model for one conversation of an agent; close it, or leave that to the run.

        fallback: tools with schemas the grammar refuses are held by llguidance (the extra `fallback`).
        constrained, forced_runs, reuse: off to measure what grammar, forced tokens and the cache are worth.
        distinct_calls: a call that repeats one of its turn, tool and arguments alike, ends the turn and is
        not told; for small models that do not find the end of a list of calls.
        call_format: how it writes calls, by default what its template shows.
        patient: where the model computes on this program's own processors, what it writes may come some 50 ms
        late, so that it is not interrupted for each token; off for a reader that leaves early.
        """
        params = sampling if sampling is not None else SamplingParams()
        options = ModelOptions(
            params, constrained, fallback, forced_runs, reuse, distinct_calls, patient=patient
        )
        self._core.check_open()
        chat = self.chat if call_format is None else Chat(self._tokenizer, format=call_format)
        return LocalModel(
            self._core, self._tokenizer, chat, options, self._disk, self._grammars, self._written
        )

    def as_model(self) -> LocalModel:
        """What `Agent(engine)` runs on: `model()` with its defaults, greedy."""
        return self.model()

    def close(self) -> None:
        """Stop what runs at its next token border and give the device back. Idempotent."""
        self._core.close()

    async def aclose(self) -> None:
        """`close` without blocking the event loop."""
        await self._core.aclose()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Engine:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _messages(prompt: Iterable[Message]) -> list[Message]:
    if isinstance(prompt, bytes) or not isinstance(prompt, Iterable):
        raise InputError(f"prompt={prompt!r}: must be a str or a list of messages")
    return list(prompt)
