"""Calling tools as a run does: through a toolbox, with JSON arguments."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from kogagent import RunContext, Tool, Toolbox, ToolCall, ToolResult


class Asked:
    """Tools by name: `await asked("read_file", path="a.txt")`. Whatever needs approval is approved."""

    def __init__(self, tools: Iterable[Tool[..., Any]]) -> None:
        self.toolbox = Toolbox(tools, approve=lambda call, context: True, max_result_chars=1_000_000)

    async def result(self, name: str, /, **arguments: Any) -> ToolResult:
        call = ToolCall("1", name, json.dumps(arguments))
        return (await self.toolbox.call(call, RunContext(None, call))).result

    async def __call__(self, name: str, /, **arguments: Any) -> str:
        """The text of a call that went well."""
        result = await self.result(name, **arguments)
        assert result.status == "ok", result
        return result.text

    async def refused(self, name: str, /, **arguments: Any) -> str:
        """What a model is told of a call that did not."""
        result = await self.result(name, **arguments)
        assert result.status in ("retry", "failed", "invalid"), result
        return result.text
