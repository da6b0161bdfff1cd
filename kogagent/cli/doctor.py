"""What is installed, which devices there are, which backend will run and why not another. Loads no model."""

from __future__ import annotations

import importlib.metadata
import json as jsonlib
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass

from rich.console import Console

from kogagent.errors import InputError

_PACKAGES = {
    "torch": "the torch and reference backends, and reading checkpoints",
    "numpy": "arrays",
    "safetensors": "reading checkpoints",
    "tokenizers": "text to tokens",
    "jinja2": "chat templates",
    "pydantic": "tool schemas",
}
_EXTRAS = {
    "gguf": ("gguf", "reading .gguf files"),
    "llguidance": ("fallback", "schemas the own grammar refuses"),
    "cupy": ("cuda", "the cuda backend"),
    "triton": ("cuda", "the cuda backend"),
    "cuda-bindings": ("cuda", "the cuda backend"),
    "nvidia-cuda-nvrtc": ("cuda", "the cuda backend"),
    "starlette": ("server", "kogagent serve"),
    "uvicorn": ("server", "kogagent serve"),
    "openai": ("openai", "kogagent.serve.client"),
    "openai-agents": ("openai-agents", "kogagent.adapters.openai_agents_model"),
    "pydantic-ai-slim": ("pydantic-ai", "kogagent.adapters.pydantic_ai_model"),
    "mcp": ("mcp", "kogagent.mcp and kogagent mcp-serve"),
    "httpcore2": ("fetch", "kogagent.toolkit.fetch_tools"),
    "opentelemetry-sdk": ("otel", "kogagent.observe.OpenTelemetry"),
}
"""Package: the extra that brings it, and what it is needed for."""
_DISTRIBUTIONS = {"cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy")}


@dataclass(frozen=True, slots=True)
class Part:
    """One line of the report. reason: why it cannot be used, None when it can."""

    name: str
    detail: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Examination:
    """The whole report. backend is the one that device="auto" stands for, None when none can run."""

    system: tuple[Part, ...]
    packages: tuple[Part, ...]
    devices: tuple[Part, ...]
    backends: tuple[Part, ...]
    models: tuple[Part, ...]
    cache: tuple[Part, ...]
    backend: str | None


def examine() -> Examination:
    """Look; raises nothing for what is missing."""
    from kogagent.engine.backends import available
    from kogagent.local.names import known_models

    backends = tuple(
        Part(name, "can run" if reason is None else "cannot run", reason)
        for name, reason in available().items()
    )
    return Examination(
        system=_system(),
        packages=tuple(
            _package(name, use)
            for name, use in (
                *_PACKAGES.items(),
                *(
                    (name, f"{use}: pip install 'kogagent[{extra}]'")
                    for name, (extra, use) in _EXTRAS.items()
                ),
            )
        ),
        devices=(_cpu(), *_gpus()),
        backends=backends,
        models=tuple(
            Part(name, "can be loaded" if reason is None else "not here", reason)
            for name, reason in known_models().items()
        ),
        cache=_cache(),
        backend=_auto(),
    )


def _auto() -> str | None:
    from kogagent.engine.backends import resolve

    try:
        return resolve("auto")
    except InputError:
        return None  # why not stands beside the backends


def show(*, json: bool) -> int:
    """Print the report; exit code 0 when a backend can run, else 1."""
    found = examine()
    if json:
        print(jsonlib.dumps(asdict(found), ensure_ascii=False))  # noqa: T201 - this is the output
        return 0 if found.backend else 1
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for title, parts in (
        ("system", found.system),
        ("packages", found.packages),
        ("devices", found.devices),
        ("backends", found.backends),
        ("models", found.models),
        ("cache", found.cache),
    ):
        console.print(title, style="bold")
        name, detail = (max(len(getattr(part, field)) for part in parts) for field in ("name", "detail"))
        for part in parts:
            line = f"  {part.name:{name}}  {part.detail:{detail}}  {part.reason or ''}"
            console.print(line.rstrip(), style="green" if part.reason is None else "yellow")
    if found.backend is None:
        console.print('device="auto" runs nothing here', style="red")
        return 1
    others = "; ".join(f"not {p.name}: {p.reason}" for p in found.backends if p.reason is not None)
    console.print(f'device="auto" runs: {found.backend}' + (f" ({others})" if others else ""), style="bold")
    return 0


def own_version() -> str:
    """Of this package."""
    return _version("kogagent") or "from source"


def _system() -> tuple[Part, ...]:
    return (
        Part("kogagent", own_version()),
        Part("python", f"{platform.python_version()} at {sys.executable}"),
        Part("platform", platform.platform()),
    )


def _cache() -> tuple[Part, ...]:
    from kogagent.cli.cache import told
    from kogagent.errors import InputError

    try:
        return tuple(Part(name, detail) for name, detail in told())
    except InputError as error:
        return (Part("limit", "cannot be used", str(error)),)


def _package(name: str, use: str) -> Part:
    for distribution in _DISTRIBUTIONS.get(name, (name,)):
        version = _version(distribution)
        if version:
            return Part(name, version)
    return Part(name, "missing", f"needed for {use}")


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _cpu() -> Part:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Part("cpu", f"{platform.processor() or platform.machine()}, {usable} usable cores")


def _gpus() -> tuple[Part, ...]:
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return (Part("nvidia", "none", "nvidia-smi was not found: no NVIDIA driver here"),)
    query = [smi, "--query-gpu=name,memory.total,driver_version,compute_cap", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return (Part("nvidia", "unknown", f"nvidia-smi could not be run: {error}"),)
    if answer.returncode != 0:
        words = (answer.stdout + answer.stderr).split()
        return (Part("nvidia", "none", f"nvidia-smi failed: {' '.join(words)}"),)
    return tuple(
        Part(f"cuda:{number}", line.strip()) for number, line in enumerate(answer.stdout.splitlines())
    )
