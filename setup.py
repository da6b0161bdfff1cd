"""The compiled part of the package: the CPU program, one plain shared library called through ctypes.

Optional: where no C++17 compiler is found the install succeeds without it, and the engine says so. All else
is in pyproject.toml.
"""

from __future__ import annotations

import hashlib
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

SOURCE = Path("kogagent/kernels/cpu/src")
FILES = sorted(path for path in SOURCE.glob("*") if path.suffix in (".cpp", ".h", ".inc"))
# As library.digest(): a library that was built from other sources than those beside it is refused.
DIGEST = hashlib.sha256(b"".join(path.read_bytes() for path in FILES)).hexdigest()[:16]

QUIET = ["-Wno-uninitialized", "-Wno-maybe-uninitialized"]  # GCC 12's own AVX-512 headers warn


class BuildLibrary(build_ext):
    """The library's name says nothing of a Python version: it knows none."""

    def build_extensions(self) -> None:
        """The files of the library side by side: some take a quarter of a minute."""
        compile_some: Any = self.compiler.compile

        def compile_all(sources: list[str], **options: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                parts = list(pool.map(lambda source: compile_some([source], **options), sources))
            return [name for part in parts for name in part]

        self.compiler.compile = compile_all
        super().build_extensions()

    def get_ext_filename(self, fullname: str) -> str:
        return str(Path(*fullname.split("."))) + (".dylib" if sys.platform == "darwin" else ".so")


class PlatformWheel(bdist_wheel):
    """One wheel a platform serves every Python 3."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    ext_modules=[
        Extension(
            "kogagent.kernels.cpu._native",
            sources=[path.as_posix() for path in FILES if path.suffix == ".cpp"],
            depends=[path.as_posix() for path in FILES if path.suffix != ".cpp"],
            define_macros=[("KOG_SOURCES", f'"{DIGEST}"')],
            extra_compile_args=[
                "-std=c++17",
                "-O3",
                "-g0",
                "-fvisibility=hidden",
                "-ffp-contract=off",
                "-pthread",
                *QUIET,
            ],
            extra_link_args=["-pthread"],
            language="c++",
            optional=True,
        )
    ],
    cmdclass={"build_ext": BuildLibrary, "bdist_wheel": PlatformWheel},
)
