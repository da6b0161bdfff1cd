"""What every Triton kernel of pre-fill takes on a card, without one: a line of JSON a kernel and shape.

    python prefill_builds.py SHAPE DTYPE CAPABILITY ROWS ...

A process of its own, since a test that interprets the kernels decides so for the whole process. Passes of
the shape run over tensors without storage; what they would launch is compiled with what a launch would make
of its arguments.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from benchmarks.shapes import SHAPES
from kogagent.engine.backends.arrangement import kernel_steps
from kogagent.kernels.layout import plan
from kogagent.kernels.prefill import device, passes
from kogagent.kernels.prefill.products import Products

TYPES = {torch.float16: "*fp16", torch.bfloat16: "*bf16", torch.float32: "*fp32", torch.int64: "*i64"}
TYPES[torch.int32] = "*i32"
ALIGNED = [["tt.divisibility", 16]]
USAGE = re.compile(r"REG:(\d+) STACK:(\d+)")


class Launch:
    """One kernel: subscripted by a grid and called, it notes what would be compiled."""

    def __init__(self, name: str, found: dict[str, dict[str, Any]]) -> None:
        self._name, self._found = name, found

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return self._note

    def _note(self, *arguments: Any, num_warps: int, num_stages: int = 3, **constants: Any) -> None:
        kernel = getattr(device, self._name)
        signature, attributes, values = dict.fromkeys(constants, "constexpr"), {}, dict(constants)
        for i, (parameter, value) in enumerate(zip(kernel.params, arguments, strict=False)):
            if isinstance(value, torch.Tensor):
                signature[parameter.name], attributes[(i,)] = TYPES[value.dtype], ALIGNED
            elif isinstance(value, float):
                signature[parameter.name] = "fp32"
            elif value == 1 and not parameter.do_not_specialize:
                signature[parameter.name], values[parameter.name] = "constexpr", 1
            else:
                signature[parameter.name] = "i32"
                if value % 16 == 0 and not parameter.do_not_specialize:
                    attributes[(i,)] = ALIGNED
        options = {"num_warps": num_warps, "num_stages": num_stages}
        build = {"signature": signature, "constants": values, "attributes": attributes, "options": options}
        self._found[f"{self._name} {signature} {values} {options}"] = {"kernel": kernel, **build}


class Launches:
    """In place of the kernels' module."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, Any]] = {}

    def __getattr__(self, name: str) -> Launch:
        return Launch(name, self.found)


def launches(shape: str, dtype: torch.dtype, rows: list[int]) -> dict[str, dict[str, Any]]:
    spec = SHAPES[shape]
    tensors = {name: torch.empty(size, dtype=dtype, device="meta") for name, size in spec.tensors().items()}
    steps, one_stream = kernel_steps(spec)
    layout = plan(spec, 132, 232448, one_stream=one_stream)
    rope = torch.empty(spec.context, spec.head_dim // 2, 2, device="meta")
    notes = Launches()
    with (
        mock.patch.object(Products, "multiply", lambda self, x, w, out: None),
        mock.patch.object(passes.Passes, "_processors", lambda self: 132),
    ):
        made = passes.Passes(layout, tensors, steps, rope, max(rows), notes)
        for count in rows:
            made.body(count)
        made.last_row()
    return notes.found


def usage(cubin: bytes) -> tuple[int, int]:
    """Registers a thread and bytes of stack."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        tool = triton.knobs.nvidia.cuobjdump.path
        said = subprocess.run(
            [tool, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True
        )
    match = USAGE.search(said.stdout)
    assert match is not None, said.stdout
    return int(match[1]), int(match[2])


def main(shape: str, dtype: str, capability: int, rows: list[int]) -> None:
    for build in launches(shape, getattr(torch, dtype), rows).values():
        source = ASTSource(build["kernel"], build["signature"], build["constants"], build["attributes"])
        made = triton.compile(source, GPUTarget("cuda", capability, 32), build["options"])
        registers, stack = usage(made.asm["cubin"])
        found = {"registers": registers, "stack": stack, "shared": made.metadata.shared}
        line = json.dumps({"kernel": build["kernel"].__name__, **build["constants"], **found})
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), [int(rows) for rows in sys.argv[4:]])
