"""Device source to machine code: NVRTC, a cache on disk, resource figures. Needs no GPU and no driver.

Knows compilers and files; nothing of what the source computes.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import re
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from kogagent.disk_cache import cache_folder
from kogagent.errors import DeviceError, InputError, MissingExtraError
from kogagent.kernels.params import proof

SOURCE = Path(__file__).parent / "csrc"
ARCHITECTURES = (80, 86, 89, 90, 100)
"""Compute capabilities that have been compiled for; 90 and 100 mean sm_90a and sm_100a."""

_RESOURCES = re.compile(
    r"Function properties for (\w+)\s+(?:ptxas\s+\.\s+)?"
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
    r".*?Used (\d+) registers(?:.*?(\d+) bytes smem)?",
    re.S,
)


@dataclass(frozen=True, slots=True)
class Resources:
    """What one kernel takes: registers a thread, bytes of stack, spills and static shared memory."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int


@dataclass(frozen=True, slots=True)
class Build:
    """Machine code of one entry file. path: the cubin; log: the compiler's own words."""

    path: Path
    log: str

    def resources(self) -> dict[str, Resources]:
        """Figures of each kernel, by name. DeviceError when the compiler's log holds none."""
        found = {
            name: Resources(int(registers), int(stack), int(stores), int(loads), int(shared or 0))
            for name, stack, stores, loads, registers, shared in _RESOURCES.findall(self.log)
        }
        if not found:
            raise DeviceError(f"the compiler's log names no kernel: {self.log!r}")
        return found


def build(
    entry: str, capability: int, defines: tuple[str, ...] = (), cache: Path | None = None, *, model: str = ""
) -> Build:
    """Compile csrc/<entry> for a compute capability (80, 90 ..), or find it compiled.

    model: what the source includes as model.cuh, the constants of one model on one card.

    The cache key covers every file of csrc, the model's constants, the struct proof, the flags and the
    compiler's version; a build appears by one rename, so that processes may race. cache: a directory;
    `cache_folder()` by default. Raises DeviceError with the compiler's log.
    """
    if capability < 80:
        raise InputError(
            f"compute capability {capability / 10:.1f} is too old: the kernel needs 8.0 or newer"
        )
    arch = f"sm_{capability}a" if capability >= 90 else f"sm_{capability}"
    flags = (
        f"-arch={arch}",
        "-std=c++17",
        "-default-device",
        # Programs of other widths, or for several devices, have to find the same bits, and a compiler joins
        # a product to whichever sum suits the program: only __fmaf_rn joins them.
        "-fmad=false",
        "-lineinfo",  # changes no instruction; a checker of the device names lines by it
        "--ptxas-options=-v",
        *(f"-D{d}" for d in defines),
    )
    nvrtc = _nvrtc()
    headers = {path.name: path.read_text(encoding="utf-8") for path in sorted(SOURCE.glob("*.cuh"))}
    headers["proof.cuh"], headers["model.cuh"] = proof(), model
    source = (SOURCE / entry).read_text(encoding="utf-8")
    version = _check(nvrtc, nvrtc.nvrtcVersion())
    digest = hashlib.sha256(
        repr((entry, source, sorted(headers.items()), flags, version)).encode()
    ).hexdigest()
    folder = cache_folder() if cache is None else cache
    target = folder / f"{Path(entry).stem}-{arch}-{digest[:24]}"
    if (target / "cubin").is_file():
        return Build(target / "cubin", (target / "log").read_text(encoding="utf-8"))
    cubin, log = _compile(nvrtc, entry, source, headers, flags)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as temporary:
        made = Path(temporary) / "made"
        made.mkdir()
        (made / "log").write_text(log, encoding="utf-8")
        (made / "cubin").write_bytes(cubin)
        try:
            made.rename(target)
        except OSError:
            if not (target / "cubin").is_file():  # else another process was faster with the same bytes
                raise
    return Build(target / "cubin", log)


Job: TypeAlias = tuple[int, tuple[str, ...], str]
"""Capability, defines and constants of one decode kernel."""


def build_all(wanted: Sequence[Job]) -> None:
    """Compile decode kernels into the cache, a process for each processor: one takes some ten seconds."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        list(pool.map(_build_one, wanted))


def _build_one(job: Job) -> None:
    capability, defines, model = job
    build("monokernel.cu", capability, defines, model=model)


def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise MissingExtraError("compiling the kernel", "cuda-bindings", "cuda") from error
    return nvrtc


def _check(nvrtc: Any, result: Any) -> Any:
    code, *values = result
    if code != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise DeviceError(f"NVRTC failed with {code}")
    return values[0] if len(values) == 1 else tuple(values)


def _compile(
    nvrtc: Any, entry: str, source: str, headers: dict[str, str], flags: tuple[str, ...]
) -> tuple[bytes, str]:
    names = [name.encode() for name in headers]
    texts = [text.encode() for text in headers.values()]
    program = _check(
        nvrtc, nvrtc.nvrtcCreateProgram(source.encode(), entry.encode(), len(texts), texts, names)
    )
    try:
        (code,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
        log = b" " * _check(nvrtc, nvrtc.nvrtcGetProgramLogSize(program))
        _check(nvrtc, (*nvrtc.nvrtcGetProgramLog(program, log), None))
        text = log.decode(errors="replace").rstrip("\0 ")
        if code != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise DeviceError(f"{entry} does not compile with {' '.join(flags)}:\n{text}")
        cubin = b" " * _check(nvrtc, nvrtc.nvrtcGetCUBINSize(program))
        _check(nvrtc, (*nvrtc.nvrtcGetCUBIN(program, cubin), None))
        return cubin, text
    finally:
        nvrtc.nvrtcDestroyProgram(program)
