"""llama.cpp on our weights, in a process of its own: a peer of decode and of pre-fill on the CPU.

    python -m benchmarks.llama_peer FILE THREADS CONTEXT

The child loads a .gguf file and answers "decode CONTEXT TOKENS" with tokens a second and "prefill COUNT" with
seconds. It needs llama-cpp-python alone: `make peers` builds it, which takes some minutes, in .venv-peers;
KOGAGENT_PEERS_PYTHON names other Pythons, with ":" between them, that are asked first.
"""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.child import Child, answer_lines
from benchmarks.common import ROOT

_BUILD = ROOT / "build" / "peers"
_PYTHON = ROOT / ".venv-peers" / "bin" / "python"


class LlamaPeer:
    """llama.cpp on one file. Raises PeerFailed when it is not ready within `seconds`."""

    def __init__(self, file: Path, threads: int, context: int, seconds: float = 120.0) -> None:
        python = find_python()
        assert python is not None, "ask find_python first"
        command = [python, "-m", "benchmarks.llama_peer", str(file), str(threads), str(context)]
        self._child = Child(command, f"llama.cpp on {file.name}", seconds)

    def decode(self, context: int, tokens: int) -> float:
        """Tokens a second, greedy, behind a random prompt."""
        return float(self._child.ask(f"decode {context} {tokens}"))

    def prefill(self, count: int) -> float:
        """Seconds for a random prompt."""
        return float(self._child.ask(f"prefill {count}"))

    def close(self) -> None:
        self._child.close()


def find_python(*modules: str) -> str | None:
    """A Python that has these modules, by default llama_cpp; None where there is none. This one is asked
    last."""
    named = os.environ.get("KOGAGENT_PEERS_PYTHON", "").split(os.pathsep)
    test = f"import importlib.util as u, sys; sys.exit(None in map(u.find_spec, {modules or ('llama_cpp',)}))"
    for python in (*filter(None, named), str(_PYTHON), sys.executable):
        found = Path(python).exists()
        if found and subprocess.run([python, "-c", test], check=False).returncode == 0:
            return python
    return None


def gguf_as(source: Path, kind: str) -> Path:
    """A copy of a .gguf file with its matrices as "F16" or "Q8_0", in build/peers. Needs the package gguf."""
    import gguf

    target = _BUILD / f"{source.stem}-{kind}.gguf"
    if target.exists():
        return target
    _BUILD.mkdir(parents=True, exist_ok=True)
    reader = gguf.GGUFReader(source)
    kinds: Any = gguf.GGMLQuantizationType
    file_types = {"F16": 1, "Q8_0": 7}
    part = target.with_suffix(".part")
    writer = gguf.GGUFWriter(part, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        inner = field.types[1] if len(field.types) > 1 else None
        writer.add_key_value(name, field.contents(), field.types[0], sub_type=inner)
    writer.add_uint32("general.file_type", file_types[kind])
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        wanted = kinds.F32 if values.ndim == 1 else kinds[kind]
        data = gguf.quants.quantize(values, wanted)
        writer.add_tensor(tensor.name, data, raw_dtype=wanted)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    part.replace(target)
    return target


# ── the child ──


def _runner(file: str, threads: int, context: int) -> Callable[[str], str]:
    import llama_cpp  # type: ignore[import-not-found, unused-ignore]
    import numpy as np

    c: Any = llama_cpp
    c.llama_backend_init()
    options = c.llama_model_default_params()
    model = c.llama_model_load_from_file(file.encode(), options)
    if not model:
        raise RuntimeError(f"llama.cpp cannot load {file}")
    settings = c.llama_context_default_params()
    settings.n_ctx, settings.n_batch, settings.n_ubatch = context, 512, 512
    settings.n_threads = settings.n_threads_batch = threads
    settings.no_perf = True
    state = c.llama_init_from_model(model, settings)
    vocabulary = c.llama_vocab_n_tokens(c.llama_model_get_vocab(model))

    def feed(ids: list[int]) -> None:
        row = (ctypes.c_int32 * len(ids))(*ids)
        if c.llama_decode(state, c.llama_batch_get_one(row, len(ids))) != 0:
            raise RuntimeError("llama_decode failed")
        c.llama_synchronize(state)

    def clear() -> None:
        c.llama_memory_clear(c.llama_get_memory(state), True)

    def fresh(count: int) -> list[int]:
        return [random.randrange(vocabulary) for _ in range(count)]

    def largest() -> int:
        logits = np.ctypeslib.as_array(c.llama_get_logits_ith(state, -1), (vocabulary,))
        return int(logits.argmax())

    def answer(line: str) -> str:
        what, *numbers = line.split()
        counts = [int(number) for number in numbers]
        clear()
        prompt = fresh(counts[0])
        if what == "prefill":
            start = time.perf_counter()
            feed(prompt)
            return repr(time.perf_counter() - start)
        if len(prompt) > 1:
            feed(prompt[:-1])
        token = prompt[-1]
        start = time.perf_counter()
        for _ in range(counts[1]):
            feed([token])
            token = largest()
        return repr(counts[1] / (time.perf_counter() - start))

    return answer


if __name__ == "__main__":
    answer_lines(_runner(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
