"""A tool that runs Python in a child process. Knows limits; no models. The child's side is run_code."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from kogagent.toolkit import run_code
from kogagent.toolkit.process import TOOL_PATIENCE_S, Confinement, ProcessLimits, run_process
from kogagent.toolkit.shell import told
from kogagent.tools.tool import Tool


def python_tools(
    *,
    limits: ProcessLimits | None = None,
    packages: bool = False,
    network: bool = False,
    confine: bool = True,
    readable: Sequence[str | Path] = (),
    needs_approval: bool = True,
) -> tuple[Tool[..., Any], ...]:
    """`run_python`: a program in a fresh interpreter and an empty folder that is gone afterwards. Each call
    needs approval.

    The interpreter is isolated: no environment, no user's settings, and without `packages` nothing but the
    standard library. Its last expression is shown as in an interactive session. network and confine as in
    `shell_tools`. Raises InputError.
    """
    limits = ProcessLimits(processes=4) if limits is None else limits
    interpreter = {sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable))}
    files = (*sorted(interpreter), run_code.__file__, *map(str, readable))
    confinement = Confinement(network, files if confine else None)
    argv = (sys.executable, "-I", *(() if packages else ("-S",)), "-B", "-X", "utf8", run_code.__file__)

    async def run_python(code: Annotated[str, Field(min_length=1, max_length=50_000)]) -> str:
        """Run a Python program and show what it prints, and the value of its last expression.

        Args:
            code: the program
        """
        with tempfile.TemporaryDirectory(prefix="kogagent-", ignore_cleanup_errors=True) as folder:
            cwd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                ended = await run_process(
                    argv,
                    cwd=cwd,
                    stdin=code.encode(),
                    limits=limits,
                    confinement=confinement,
                    merge_errors=True,
                )
            finally:
                os.close(cwd)
        return told(ended, limits)

    return (Tool(run_python, needs_approval=needs_approval, timeout=limits.seconds + TOOL_PATIENCE_S),)
