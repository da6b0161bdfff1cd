"""Tools that run programs below a root: a shell, or programs by name. Knows limits; no models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from kogagent.errors import InputError, Retry
from kogagent.toolkit.files import PathText, as_root
from kogagent.toolkit.process import TOOL_PATIENCE_S, Confinement, Ended, ProcessLimits, run_process
from kogagent.toolkit.root import Root
from kogagent.tools.tool import Tool


def shell_tools(
    root: str | Path | Root,
    *,
    limits: ProcessLimits | None = None,
    env: Mapping[str, str] | None = None,
    network: bool = False,
    confine: bool = True,
    readable: Sequence[str | Path] = (),
    needs_approval: bool = True,
    shell: str = "/bin/bash",
) -> tuple[Tool[..., Any], ...]:
    """`run_shell`: a command line for a shell, in a folder below the root. Each call needs approval.

    confine: writes below the root and a temporary folder alone, reads there, in the system's program folders
    and in `readable`. network: whether there is one. Both need Linux (Landlock, namespaces), and a call is
    refused where the kernel has not what was asked for. env: variables besides PATH, HOME, TMPDIR and the
    language; none is inherited. Raises InputError.
    """
    runner = _Runner(root, limits, env, network, confine, readable)

    async def run_shell(
        command: Annotated[str, Field(min_length=1, max_length=8000)], folder: PathText = "."
    ) -> str:
        """Run a command line in a shell and show what it writes.

        Args:
            command: the command line
            folder: where to run it
        """
        return await runner.run([shell, "-c", command], folder)

    return (Tool(run_shell, needs_approval=needs_approval, timeout=runner.limits.seconds + TOOL_PATIENCE_S),)


def command_tools(
    root: str | Path | Root,
    programs: Sequence[str],
    *,
    limits: ProcessLimits | None = None,
    env: Mapping[str, str] | None = None,
    network: bool = False,
    confine: bool = True,
    readable: Sequence[str | Path] = (),
    needs_approval: bool = True,
) -> tuple[Tool[..., Any], ...]:
    """`run_program`: one of these programs with arguments, without a shell. Otherwise like `shell_tools`.

    A program that runs others (git, make, python) is as free as a shell: confine it.
    """
    if isinstance(programs, str) or not programs or not all(isinstance(p, str) and p for p in programs):
        raise InputError(f"programs={programs!r} must be a list of names")
    runner = _Runner(root, limits, env, network, confine, readable)
    known = tuple(programs)

    async def run_program(
        program: str,
        arguments: Annotated[list[Annotated[str, Field(max_length=4000)]], Field(max_length=64)],
        folder: PathText = ".",
    ) -> str:
        """Run a program and show what it writes.

        Args:
            program: its name
            arguments: one text for each
            folder: where to run it
        """
        if program not in known:
            raise Retry(f"there is no program {program!r}; there are {', '.join(known)}")
        return await runner.run([program, *arguments], folder)

    tool = Tool(
        run_program,
        description=f"Run a program and show what it writes. The programs: {', '.join(known)}.",
        needs_approval=needs_approval,
        timeout=runner.limits.seconds + TOOL_PATIENCE_S,
    )
    return (tool,)


class _Runner:
    """A root, and how programs run in it."""

    def __init__(
        self,
        root: str | Path | Root,
        limits: ProcessLimits | None,
        env: Mapping[str, str] | None,
        network: bool,
        confine: bool,
        readable: Sequence[str | Path],
    ) -> None:
        self._root = as_root(root)
        self.limits = ProcessLimits() if limits is None else limits
        self._env = dict(env or {})
        self._confinement = Confinement(network, tuple(map(str, readable)) if confine else None)

    async def run(self, argv: Sequence[str], folder: str) -> str:
        with self._root.folder(folder) as cwd:
            ended = await run_process(
                argv,
                cwd=cwd,
                limits=self.limits,
                env=self._env,
                confinement=self._confinement,
                writable=(self._root.fd,),
                merge_errors=True,
            )
        return told(ended, self.limits)


def told(ended: Ended, limits: ProcessLimits) -> str:
    """The output and, where it did not end well, how it ended."""
    what = {
        "time": f"stopped after {limits.seconds:g} s",
        "output": f"stopped: more than {limits.output_bytes} bytes of output",
        "processes": f"stopped: more than {limits.processes} processes at once",
        "exit": f"exit code {ended.code}" if ended.code else "",
    }[ended.why]
    if ended.why == "exit" and ended.code is not None and (ended.code < 0 or ended.code > 128):
        number = -ended.code if ended.code < 0 else ended.code - 128
        what = f"ended by signal {number}; a program that takes too much memory, time or space is"
    text = "\n".join(part.rstrip("\n") for part in (ended.output, ended.errors) if part.strip())
    return "\n".join(filter(None, (text, f"[{what}]" if what else ""))) or "[no output]"
