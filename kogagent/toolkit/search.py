"""Tools that find files and lines below a root. Knows their limits; the searching is grep's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from kogagent.errors import Retry, ToolFailed
from kogagent.toolkit import grep
from kogagent.toolkit.files import PathText, as_root
from kogagent.toolkit.process import TOOL_PATIENCE_S, ProcessLimits, child_command, run_process
from kogagent.toolkit.root import Root
from kogagent.tools.tool import Tool

_BEST = 300  # files named by find_files


def search_tools(
    root: str | Path | Root,
    *,
    max_matches: int = 100,
    max_files: int = 20_000,
    max_file_bytes: int = 4 << 20,
    seconds: float = 10.0,
    memory_bytes: int = 1 << 30,
) -> tuple[Tool[..., Any], ...]:
    """`search`, lines that hold a text or match a regular expression, and `find_files`, paths by a glob.

    The search is a child process, ended after so many seconds: some patterns take for ever. Links are not
    followed. Raises InputError.
    """
    limits = ProcessLimits(seconds=seconds, memory_bytes=memory_bytes, processes=2, output_bytes=4 << 20)
    found = _Search(as_root(root), max_matches, max_files, max_file_bytes, limits)
    return (Tool(found.search, timeout=seconds + TOOL_PATIENCE_S), Tool(found.find_files))


class _Search:
    """The tools, bound to their root and limits."""

    def __init__(self, root: Root, matches: int, files: int, file_bytes: int, limits: ProcessLimits) -> None:
        self._root = root
        self._matches, self._files, self._file_bytes = matches, files, file_bytes
        self._limits = limits

    async def search(
        self,
        pattern: Annotated[str, Field(min_length=1, max_length=1000)],
        path: PathText = ".",
        files: Annotated[str, Field(max_length=200)] = "",
        regex: bool = False,
        ignore_case: bool = False,
        around: Annotated[int, Field(ge=0, le=10)] = 0,
    ) -> str:
        """Find lines in text files, as `path:line: text`.

        Args:
            pattern: the text to find, or a Python regular expression
            path: the folder or file to search
            files: only files that match this glob, such as *.py or src/**/*.md; all by default
            regex: whether the pattern is a regular expression
            ignore_case: whether upper and lower case are the same
            around: lines to show before and after each match
        """
        self._root.parts(path)  # refused before anything starts
        wanted = grep.Search(
            pattern,
            path,
            files,
            regex,
            ignore_case,
            around,
            around,
            self._matches,
            self._files,
            self._file_bytes,
        )
        ended = await run_process(
            child_command("kogagent.toolkit.grep"),
            cwd=self._root.fd,
            stdin=grep.request(self._root, wanted),
            limits=self._limits,
        )
        if ended.why == "time":
            raise Retry(f"the search took longer than {self._limits.seconds:g} s. Make the pattern simpler")
        try:
            answer = json.loads(ended.output)
        except ValueError as error:
            raise ToolFailed(
                f"the search ended by {ended.why} ({ended.code}): {ended.errors[-300:]}"
            ) from error
        if "retry" in answer:
            raise Retry(answer["retry"])
        return str(answer["text"])

    def find_files(
        self, glob: Annotated[str, Field(min_length=1, max_length=200)], path: PathText = "."
    ) -> str:
        """Find files by the name: * and ? match within a name, ** any folders.

        Args:
            glob: a pattern such as *.py, or src/**/test_*.py
            path: the folder to look in
        """
        prefix = len("".join(part + "/" for part in self._root.parts(path)))
        found: list[str] = []
        for number, entry in enumerate(self._root.walk(path)):
            if number > 10 * self._files:
                found.append(f"[… stopped after {number} entries: look in a folder inside]")
                break
            if entry.kind != "folder" and grep.glob_matches(glob, entry.path[prefix:]):
                found.append(entry.path)
                if len(found) == _BEST:
                    found.append(f"[… more than {_BEST}: look for something rarer]")
                    break
        return "\n".join(found) or "[no file matches]"
