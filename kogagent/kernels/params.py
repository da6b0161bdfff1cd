"""The structs that host and kernel share, as NumPy types, and the assertions that prove them equal.

Knows names, types and offsets; no meaning. csrc/params.cuh holds the same structs in C; `proof()` is compiled
with it, so that a field that moves on one side alone does not build.
"""

from __future__ import annotations

import numpy as np

STEP = np.dtype(
    [
        ("own", "<f4"),
        ("others", "<f4"),
        ("late_own", "<f4"),
        ("late_others", "<f4"),
        ("late", "<i4"),
        ("sends", "<i4"),
        ("window", "<i4"),
        ("pad", "<i4"),
    ],
    align=True,
)
SHAPE = np.dtype(
    [("tiles", "<i4"), ("part_tiles", "<i4"), ("parts", "<i4"), ("per_stage", "<i4"), ("warps", "<i4")],
    align=True,
)

_POINTERS = [
    "tape",
    "tape_stride",
    "schedule",
    "embed",
    "rope",
    "bias",
    "qk_norm",
    "steps",
    "kv",
    "xbuf",
    "qbuf",
    "pbuf",
    "sbuf",
    "abuf",
    "hbuf",
    "obuf",
    "f1",
    "f2",
    "cand",
    "hist",
    "seen",
    "mask",
    "stop_ids",
    "pending",
    "seed",
    "dead",
    "token_ring",
    "status",
    "abort_word",
    "logits_out",
    "profile",
    "deadline_ns",
]
_INTS = [
    "blocks",
    "group",
    "lanes",
    "layers",
    "dim",
    "heads",
    "kv_heads",
    "head_dim",
    "ffn",
    "vocab",
    "splits",
    "split_log2",
    "direct_combine",
    "head_mode",
    "head_rows",
    "head_grid",
    "qkv_rows",
    "capacity",
]
_SIZES = [
    "x_stride",
    "stage_bytes",
    "stages",
    "max_dim_rows",
    "max_head_rows",
    "stage_chunks",
    "step_chunks",
    "off_x",
    "off_red",
    "off_attn",
    "off_stream",
    "off_late",
    "off_logits",
    "off_z",
    "off_rope",
    "off_schedule",
    "off_misc",
    "n_stop",
    "n_pending",
    "position",
    "max_tokens",
    "want_head",
    "legal_ids",
]

PARAMS = np.dtype(
    [
        *[(name, "<u8") for name in _POINTERS],
        *[(name, "<i4") for name in _INTS],
        *[(name, "<f4") for name in ("eps", "head_eps", "attn_scale_log2")],
        *[(name, "<i4") for name in _SIZES],
        *[(name, "<u4") for name in ("tag_base", "epoch")],
        *[(name, "<f4") for name in ("temperature", "top_p", "min_p", "penalty")],
        *[(name, "<i4") for name in ("top_k", "width")],
        ("shape", SHAPE, (5,)),
    ],
    align=True,
)

STRUCTS = {"Step": STEP, "Shape": SHAPE, "Params": PARAMS}


def proof() -> str:
    """C++ that fails to compile unless every struct has the size and every field the offset written here."""
    lines = ["// Written by kernels/params.py."]
    for name, dtype in STRUCTS.items():
        lines.append(f'static_assert(sizeof({name}) == {dtype.itemsize}, "size of {name}");')
        fields = dtype.fields
        assert fields is not None
        lines += [
            f'static_assert(__INTADDR__(&((({name}*)0)->{field})) == {entry[1]}, "offset of {name}.{field}");'
            for field, entry in fields.items()
        ]
    return "\n".join(lines) + "\n"
