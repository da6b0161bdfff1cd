"""Programs that play a tape of token ids: transformers, torch, llama.cpp. Knows nothing of ours but the tape.

    python -m benchmarks.agent_loops.players MODEL.gguf THREADS

plays tapes with llama.cpp, in a Python that has llama-cpp-python: a line of JSON [[prompt, output], …] is
answered with the seconds it took. A player keeps its cache from step to step and from tape to
tape, and computes only what differs from it: the best that each of them can do.
"""

from __future__ import annotations

import inspect
import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kogagent.spec import ModelSpec

Steps = Sequence[tuple[Sequence[int], Sequence[int]]]


class Player(Protocol):
    def step(self, prompt: Sequence[int], output: Sequence[int]) -> None:
        """Compute what is new of the prompt, then a pass a token of the output."""


def play(player: Player, steps: Steps) -> float:
    """Seconds of all steps."""
    start = time.perf_counter()
    for prompt, output in steps:
        player.step(prompt, output)
    return time.perf_counter() - start


class Transformers:
    """A causal LM of transformers, by its own `generate` with its dynamic cache."""

    def __init__(self, model: Any) -> None:
        from transformers import DynamicCache

        newer = "cache" in inspect.signature(model.forward).parameters  # renamed by transformers
        self._model, self._keyword = model, "cache" if newer else "past_key_values"
        self._cache, self._ids = DynamicCache(config=model.config), list[int]()

    def step(self, prompt: Sequence[int], output: Sequence[int]) -> None:
        import torch

        kept = min(_same(self._ids, prompt), len(prompt) - 1)
        if kept < len(self._ids):
            self._cache.crop(kept - len(self._ids))  # so many fewer
        device = self._model.device
        with torch.inference_mode():
            self._model.generate(
                torch.tensor([list(prompt)], device=device),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.long, device=device),
                **{self._keyword: self._cache},
                logits_processor=[_Follow(output, len(prompt))],
                max_new_tokens=len(output),
                min_new_tokens=len(output),
                do_sample=False,
                use_cache=True,
                pad_token_id=0,
            )
        self._ids = [*prompt, *output[:-1]]  # the last id was never computed

    def greedy(self, prompt: Sequence[int], count: int) -> list[int]:
        """Its own choice of so many tokens, from an empty cache."""
        import torch

        device = self._model.device
        with torch.inference_mode():
            ids = self._model.generate(
                torch.tensor([list(prompt)], device=device),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.long, device=device),
                max_new_tokens=count,
                min_new_tokens=count,
                do_sample=False,
                pad_token_id=0,
            )
        return [int(i) for i in ids[0, len(prompt) :]]


class _Follow:
    """A logits processor that lets one id through."""

    def __init__(self, output: Sequence[int], start: int) -> None:
        self._output, self._start = output, start

    def __call__(self, ids: Any, scores: Any) -> Any:
        scores[:, self._output[ids.shape[1] - self._start]] = 1e4
        return scores


class Compiled:
    """A plain transformer of a shape in torch: a static cache, a compiled pass a token, prompts in a few
    sizes, each a CUDA graph where there is a GPU. Like any loop it reads a token before it asks for more."""

    _SIZES = (16, 32, 64, 128, 256, 512)

    def __init__(self, spec: ModelSpec, device: str) -> None:
        import torch

        from benchmarks.compiled_peer import make_model

        self._torch, self._device = torch, device
        self._model = make_model(spec, spec.context + self._SIZES[-1], device, sample=False)
        mode = "reduce-overhead" if device == "cuda" else "default"
        self._step = torch.compile(self._model, mode=mode, fullgraph=True, dynamic=False)
        self._ids = list[int]()
        self._graphs: dict[int, Any] = {}
        with torch.inference_mode():
            for at in range(4):
                self._token(3, at)
            for size in self._SIZES:
                self._prompt([3] * size, 0)

    def step(self, prompt: Sequence[int], output: Sequence[int]) -> None:
        at = min(_same(self._ids, prompt), len(prompt) - 1)
        with self._torch.inference_mode():
            while at < len(prompt):
                part = prompt[at : at + self._SIZES[-1]]
                self._prompt(part, at)
                at += len(part)
            for id in output[:-1]:
                self._token(id, at)
                at += 1
        self._ids = [*prompt, *output[:-1]]

    def _token(self, id: int, at: int) -> int:
        torch, device = self._torch, self._device
        return int(self._step(torch.tensor([[id]], device=device), torch.tensor([at], device=device)))

    def _prompt(self, ids: Sequence[int], start: int) -> int:
        torch = self._torch
        size = next(size for size in self._SIZES if size >= len(ids))
        row = torch.tensor([[*ids, *[0] * (size - len(ids))]])
        at, last = torch.arange(start, start + size), torch.tensor([len(ids) - 1])
        if self._device != "cuda":
            return int(self._model(row, at, last))
        if size not in self._graphs:
            self._graphs[size] = self._captured(size)
        graph, inputs, out = self._graphs[size]
        for place, value in zip(inputs, (row, at, last), strict=True):
            place.copy_(value)
        graph.replay()
        return int(out)

    def _captured(self, size: int) -> Any:
        torch = self._torch
        shapes = ((1, size), (size,), (1,))
        inputs = [torch.zeros(shape, dtype=torch.long, device="cuda") for shape in shapes]
        stream: Any = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._model(*inputs)
            graph: Any = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                out = self._model(*inputs)
        torch.cuda.synchronize()
        return graph, inputs, out


class Llama:
    """llama.cpp through llama-cpp-python."""

    def __init__(self, path: str, threads: int) -> None:
        import llama_cpp

        self._llama = llama_cpp.Llama(
            path, n_ctx=0, n_threads=threads, n_threads_batch=threads, verbose=False, logits_all=False
        )
        self._ids = list[int]()

    def step(self, prompt: Sequence[int], output: Sequence[int]) -> None:
        kept = min(_same(self._ids, prompt), len(prompt) - 1)
        self._llama.n_tokens = kept  # eval drops what the cache holds past it
        self._llama.eval(list(prompt[kept:]))
        for number, id in enumerate(output):
            self._llama.sample(temp=0.0)
            if number < len(output) - 1:
                self._llama.eval([id])
        self._ids = [*prompt, *output[:-1]]


def _same(one: Sequence[int], other: Sequence[int]) -> int:
    length = min(len(one), len(other))
    return next((i for i in range(length) if one[i] != other[i]), length)


def main() -> None:
    from benchmarks.child import answer_lines

    path, threads = sys.argv[1:]
    player = Llama(path, int(threads))
    answer_lines(lambda line: repr(play(player, json.loads(line))))


if __name__ == "__main__":
    main()
