"""Every ready-made tool can be offered to a model under a grammar, and is described to it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from kogagent.engine.grammar import compile_schema
from kogagent.spec import Vocabulary
from kogagent.toolkit import (
    command_tools,
    fetch_tools,
    file_tools,
    python_tools,
    search_tools,
    shell_tools,
    sqlite_tools,
)
from kogagent.tools.tool import collect

BYTES = Vocabulary((*(bytes([i]) for i in range(256)), b"<end>"), frozenset({256}), (256,))


def test_all_tools_together_have_names_descriptions_and_grammars(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "base").close()
    (tmp_path / "base").touch()
    tools = collect(
        [
            *file_tools(tmp_path, write=True, delete=True),
            *search_tools(tmp_path),
            *shell_tools(tmp_path),
            *command_tools(tmp_path, ["ls"]),
            *python_tools(),
            *sqlite_tools(tmp_path / "base"),
            *fetch_tools(["example.com"]),
        ]
    )
    assert len(tools) == 14
    for tool in tools:
        assert tool.spec.description, tool
        for name, schema in tool.spec.parameters["properties"].items():
            assert schema.get("description"), f"{tool.name}.{name}"
        compile_schema(tool.spec.parameters, BYTES)
