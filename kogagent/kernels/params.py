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
GRAMMAR_POINTERS = (
    "lone",
    "moves",
    "byte_class",
    "special_ids",
    "states",
    "sites",
    "bounds",
    "tokens",
    "bytes",
    "known",
    "runs",
    "run_ids",
)
GRAMMAR = np.dtype(
    [
        *[(name, "<u8") for name in GRAMMAR_POINTERS],
        *[(name, "<i4") for name in ("lone_states", "classes", "end_class", "n_special")],
        *[(name, "<i4") for name in ("vocab", "reach", "margin", "slots_mask")],
    ],
    align=True,
)
RUN = np.dtype([("first", "<i4"), ("count", "<i4"), ("then", "<i4"), ("pad", "<i4")], align=True)
ANSWER_IDS = 1 << 17
ANSWER = np.dtype(
    [
        ("word", "<u8"),
        ("count", "<i4"),
        ("then", "<i4"),
        ("ids", "<i4", (ANSWER_IDS,)),
        ("mask", "<u8"),
    ],
    align=True,
)
FRAMES = 14
RELAY = np.dtype(
    [
        *[(name, "<i4") for name in ("ended", "launches", "passes", "position", "emitted", "pending")],
        *[(name, "<i4") for name in ("token", "run", "state", "top")],
        ("count", "<u4", (FRAMES,)),
        ("site", "<u2", (FRAMES,)),
    ],
    align=True,
)

MAX_DEVICES = 8
PEER_BUFFERS = ("obuf", "f1", "cand", "hist", "times", "started", "beats", "dead")
"""What devices store into each other's memory, in the order of csrc/params.cuh's Peer."""
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
    "answer",
    "logits_out",
    "profile",
    "relay",
    "deadline_ns",
]
_SIZES = ["capacity", "stages", "n_stop", "max_tokens", "want_head", "legal_ids", "guided", "hand_over"]

PARAMS = np.dtype(
    [
        *[(name, "<u8") for name in _POINTERS],
        *[(name, "<i4") for name in _SIZES],
        *[(name, "<u4") for name in ("tag_base", "epoch")],
        *[(name, "<f4") for name in ("temperature", "top_p", "min_p", "penalty")],
        ("top_k", "<i4"),
        ("shape", SHAPE, (5,)),
        ("grammar", GRAMMAR),
        ("peers", "<u8", (len(PEER_BUFFERS), MAX_DEVICES)),
        *[(name, "<u8") for name in ("times", "started", "beats", "slack")],
        *[(name, "<i4") for name in ("rank", "link_ns")],
    ],
    align=True,
)

STRUCTS = {
    "Step": STEP,
    "Shape": SHAPE,
    "Grammar": GRAMMAR,
    "Run": RUN,
    "Answer": ANSWER,
    "Relay": RELAY,
    "Params": PARAMS,
}


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
