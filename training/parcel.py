"""What a training run needs, small enough to travel: weights at eight bits, data with less prose.

    python -m training.parcel --weights kogagent/models/laneformer-nano --data build/nano --out build/parcel
    python -m training.train --data build/parcel --weights build/parcel …

A run that begins with weights warms up to its full rate: the rounding, below one percent of a weight's
spread, is nothing beside its first steps.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from training.data import Ids

WEIGHTS = "start.safetensors"
SCALE = ".scale"
PROSE = "prose.npy"


def pack(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Matrices [.., out, in] as int8 with a scale a row; vectors as they are, in FP32."""
    out: dict[str, Tensor] = {}
    for name, value in tensors.items():
        wide = value.float()
        if value.ndim < 2:
            out[name] = wide.contiguous()
            continue
        scale = wide.abs().amax(-1, keepdim=True).clamp(min=1e-12) / 127
        out[name] = (wide / scale).round().to(torch.int8).contiguous()
        out[name + SCALE] = scale.contiguous()
    return out


def unpack(packed: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors in FP32."""
    return {
        name: value.float() * packed[name + SCALE] if name + SCALE in packed else value.float()
        for name, value in packed.items()
        if not name.endswith(SCALE)
    }


def read(folder: Path) -> dict[str, Tensor] | None:
    """The weights of a parcel; None where the folder is none."""
    if not (folder / WEIGHTS).exists():
        return None
    from safetensors.torch import load_file

    return unpack(load_file(folder / WEIGHTS))


def less_prose(prose: Ids, tokens: int, piece: int = 1 << 15) -> Ids:
    """About so many of the tokens: pieces from all over, in order, its end among them."""
    count = max(1, min(tokens, len(prose)) // piece)
    starts = np.linspace(0, max(len(prose) - piece, 0), count).astype(np.int64)
    return np.concatenate([prose[s : s + piece] for s in starts])


def main() -> None:
    from safetensors.torch import save_file

    from kogagent.engine.weights import load_checkpoint

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--prose-tokens", type=int, default=8_000_000)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    save_file(pack(dict(load_checkpoint(args.weights).tensors)), args.out / WEIGHTS)
    for name in ("pools.json.gz", "tokenizer.json"):
        shutil.copy(args.data / name, args.out / name)
    np.save(args.out / PROSE, less_prose(np.load(args.data / PROSE, mmap_mode="r"), args.prose_tokens))
    print(f"{sum(p.stat().st_size for p in args.out.iterdir()) / 1e6:.1f} MB in {args.out}")


if __name__ == "__main__":
    main()
