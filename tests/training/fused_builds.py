"""What the trainer's Triton kernels take on a card, without one: a line of JSON for each of nano's launches.

A process of its own, since a test that interprets the kernels decides so for the whole process.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from training import fused
from training.train import NANO

TYPES = {torch.bfloat16: "*bf16", torch.float32: "*fp32"}


class Recorder:
    """In place of a kernel: compiles for sm_90 what a launch would, and prints what it takes."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return self._compile

    def _compile(self, *arguments: Any, **options: Any) -> None:
        chosen = {k: options.pop(k) for k in ("num_warps", "num_stages", "maxnreg") if k in options}
        signature, attributes = dict.fromkeys(options, "constexpr"), {}
        for i, (parameter, value) in enumerate(zip(self._kernel.params, arguments, strict=False)):
            is_tensor = isinstance(value, torch.Tensor)
            signature[parameter.name] = TYPES[value.dtype] if is_tensor else "i32"
            if is_tensor:
                attributes[(i,)] = [["tt.divisibility", 16]]
        source = ASTSource(self._kernel, signature, options, attributes)
        made = triton.compile(source, GPUTarget("cuda", 90, 32), chosen)
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(made.asm["cubin"])
            file.flush()
            tool = [triton.knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
            said = subprocess.run(tool, capture_output=True, text=True, check=True).stdout
        found = re.search(r"REG:(\d+) STACK:(\d+)", said)
        assert found is not None, said
        line = {
            "kernel": self._kernel.__name__,
            "columns": options.get("columns", options.get("width")),
            "registers": int(found[1]) * 32 * chosen["num_warps"],
            "stack": int(found[2]),
            "shared": made.metadata.shared,
            "tensor_cores": "wgmma.mma_async" in made.asm["ptx"],
        }
        sys.stdout.write(json.dumps(line) + "\n")


def main() -> None:
    for name in ("streams_kernel", "gradients_kernel", "mlp_gradients_kernel", "turn_gradients_kernel"):
        setattr(fused, name, Recorder(getattr(fused, name)))
    operations, lanes, dim, n = fused.FusedOperations(), NANO.lanes, NANO.dim, 256

    def make(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    factor, x = make(n, lanes, 1, dtype=torch.float32), make(n, lanes, dim)
    for columns in (64, 128, 256):  # the first output that is private; those of a layer's halves
        z, w = make(n, lanes, columns), make(lanes, dim, columns)
        operations.streams(x if columns > 64 else make(n, dim), make(n, dim), z, w, lanes, NANO.norm_eps)
    for columns in (192, 256):
        draw, w = make(n, lanes, columns), make(lanes, columns, dim)
        operations.gradients(draw, w, x, x, factor, factor)
    inner, width = NANO.ffn_dim // lanes, NANO.head_dim
    fused.mlp_gradients(make(n, lanes, 2 * inner), factor, make(n, lanes, inner))
    angles, grad = make(1, n, 1, width // 2, dtype=torch.float32), make(1, lanes, n, width)
    fused.turn_gradients(make(n, lanes, 3 * width), factor, angles, angles, grad, grad, grad)


if __name__ == "__main__":
    main()
