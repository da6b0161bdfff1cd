"""The programs that compute: one for each place a model can run. Loads none of them before it is asked for.

    cuda       NVIDIA GPUs: one resident program a segment
    native     CPUs, in C++: built with the package where there is a compiler
    torch      any machine torch runs on: incremental, FP16 weights
    reference  any machine: the equations in FP32, no cache; for tests and doubts

"cpu" is native where it was built, else torch; "auto" is cuda where it can run, else "cpu". "cuda:1" is
another GPU than the first, "cuda:0,1" spreads a model over two.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from kogagent.disk_cache import DiskCache
from kogagent.engine.backend import Backend
from kogagent.errors import InputError, MissingExtraError
from kogagent.kernels.cpu import library

if TYPE_CHECKING:
    from kogagent.engine.backends.native import Dtype
    from kogagent.engine.weights import Checkpoint

BACKENDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "cuda": ("cuda", "CudaBackend", ("auto", "float16", "bfloat16")),
    "native": (
        "native",
        "NativeBackend",
        ("auto", "float32", "float16", "bfloat16", "int8", "int8_row", "int4"),
    ),
    "torch": ("cpu", "CpuBackend", ("auto", "float32", "float16", "bfloat16")),
    "reference": ("reference", "ReferenceBackend", ("auto", "float32")),
}
"""Module, class and weight types of each, best first. The class is called as (spec, tensors, dtype=), the
reference without dtype."""


def unavailable(name: str) -> InputError | None:
    """Why a backend cannot run on this machine, None when it can. Loads neither torch nor cupy."""
    if name not in BACKENDS:
        return InputError(
            f"device={name!r}: must be 'auto', 'cpu' or one of {', '.join(map(repr, BACKENDS))}"
        )
    if importlib.util.find_spec(f"{__name__}.{BACKENDS[name][0]}") is None:
        return InputError(f"this build of kogagent carries no {name} backend")
    if name != "native" and importlib.util.find_spec("torch") is None:
        return InputError(f"the {name} backend needs the package 'torch': pip install torch")
    if name == "native":
        return library.missing()
    return _no_cuda() if name == "cuda" else None


def available() -> dict[str, str | None]:
    """Every backend, best first, with the reason why it cannot run here, or None."""
    reasons = {name: unavailable(name) for name in BACKENDS}
    return {name: None if error is None else str(error) for name, error in reasons.items()}


def resolve(device: str, dtype: str = "auto") -> str:
    """The backend that a device name stands for. Raises InputError, MissingExtraError with the reason: it
    cannot run here, or takes no weights of this type.

    A CPU program that was never built is not asked for; one that is older than its sources is an error, since
    whoever changed them means to run them.
    """
    device, _ = numbers_of(device)
    lacks = None
    if device == "auto":
        device = "cpu" if unavailable("cuda") is not None else "cuda"
    if device == "cpu":
        lacks = unavailable("native")
        if isinstance(lacks, library.StaleLibrary):
            raise lacks
        device = "native" if lacks is None else "torch"
    error = unavailable(device)
    if error is not None:
        raise error
    dtypes = BACKENDS[device][2]
    if dtype not in dtypes:
        if lacks is not None and dtype in BACKENDS["native"][2]:
            raise InputError(f"dtype={dtype!r} is of the native backend alone, which cannot run: {lacks}")
        raise InputError(f"dtype={dtype!r}: the {device} backend takes {', '.join(map(repr, dtypes))}")
    return device


def numbers_of(device: str) -> tuple[str, tuple[int, ...]]:
    """("cuda", (0, 1)) of "cuda:0,1"; no numbers where none are given. InputError for other text there."""
    if not isinstance(device, str):
        raise InputError(f"device={device!r}: must be the name of a backend, 'auto' or 'cpu'")
    name, colon, text = device.partition(":")
    if not colon:
        return device, ()
    parts = text.split(",")
    if name != "cuda" or not all(part.isdecimal() and part.isascii() for part in parts):
        raise InputError(f"device={device!r}: only 'cuda' takes numbers, of GPUs: 'cuda:1', 'cuda:0,1'")
    return name, tuple(map(int, parts))


def open_backend(device: str, checkpoint: Checkpoint, dtype: str = "auto") -> Backend:
    """Load a checkpoint into the backend of a device. Called on the thread that will own it."""
    name = resolve(device, dtype)
    module, cls, _ = BACKENDS[name]
    make = cast(Callable[..., Backend], getattr(importlib.import_module(f"{__name__}.{module}"), cls))
    options: dict[str, object] = {} if dtype == "auto" or name == "reference" else {"dtype": dtype}
    if numbers := numbers_of(device)[1]:
        options["devices"] = numbers
    return make(checkpoint.spec, checkpoint.weights if name == "native" else checkpoint.tensors, **options)


def load_backend(device: str, path: Path, dtype: str = "auto", disk: DiskCache | None = None) -> Backend:
    """Load the checkpoint at a path into the backend of a device. Called on the thread that will own it.

    disk: where the native backend finds its weights as it packed them, and keeps them; None for nowhere.
    """
    if disk is not None and disk.on and resolve(device, dtype) == "native":
        from kogagent.engine.backends.prepared import open_prepared

        return open_prepared(path, cast("Dtype", dtype), disk)
    from kogagent.engine.weights import load_checkpoint

    return open_backend(device, load_checkpoint(path), dtype)


def _no_cuda() -> InputError | None:
    for module, package in (("cupy", "cupy-cuda13x"), ("cuda", "cuda-bindings")):
        if importlib.util.find_spec(module) is None:
            return MissingExtraError("the cuda backend", package, "cuda")
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return InputError("the cuda backend needs an NVIDIA driver: libcuda.so.1 was not found")
    code = driver.cuInit(0)
    if code != 0:
        return InputError(f"the cuda backend cannot start: cuInit returned error {code} (see nvidia-smi)")
    count = ctypes.c_int(0)
    code = driver.cuDeviceGetCount(ctypes.byref(count))
    if code != 0 or count.value == 0:
        return InputError("the cuda backend needs an NVIDIA GPU: the driver reports none (see nvidia-smi)")
    return None
