"""The import rule: who may know whom. Read from the source, so that a lazy import counts too."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "kogagent"

# A module (or everything below a package) -> what of ours it may import, itself aside.
ALLOWED: dict[str, set[str]] = {
    "types": set(),
    "errors": set(),
    "spec": {"errors"},
    "sampling": {"errors"},
    "forks": set(),  # whoever has a thread must say no in a forked child
    "disk_cache": {"errors"},  # files by name: what is in them is its users' matter
    "gguf_header": {"errors"},  # both the tokenizer and the weights of such a file are found by it
    "tokenizer": {"types", "errors", "spec", "gguf_header"},
    "chat": {"types", "errors", "spec", "tokenizer"},
    "tools": {"types", "errors", "forks"},
    "loop": {"types", "errors", "sampling", "forks"},
    # Ready-made tools are made as a user would make them.
    "toolkit": {"tools", "types", "errors"},
    # What watches runs knows what they tell, not how they go.
    "observe": {"loop.observers", "loop.notation", "loop.transcript", "types", "errors"},
    "kernels": {"spec", "errors", "disk_cache"},
    "engine": {
        "spec",
        "errors",
        "sampling",
        "types.FinishReason",
        "types.quick",  # how values are made, not which
        "gguf_header",
        "disk_cache",
        "forks",
    },
    "local": {
        "disk_cache",
        "engine",
        "chat",
        "tokenizer",
        "loop.protocols",
        "types",
        "errors",
        "spec",
        "sampling",
    },
    # What MCP brings in is a tool like any other; the grammar itself says which schemas it can enforce.
    "mcp": {"tools", "types", "errors", "spec", "engine.grammar"},
    # An endpoint uses the engine as anybody does; of what is below it names sampling parameters alone.
    "adapters": {"serve", "local", "errors"},
    "serve": {"local", "chat", "loop.protocols", "engine.sampling", "sampling", "types", "errors"},
}
# One file that may know more than its package, each with the reason.
EXTRA: dict[str, set[str]] = {
    # The engine meets the device program in its backend: its segments, its layouts, its grammars
    "engine.backends.cuda": {"kernels"},
    "engine.backends.cuda_segment": {"kernels.segment"},
    "engine.backends.arrangement": {"kernels.layout", "kernels.params"},
    "engine.backends.grammar_memory": {"kernels.segment"},
    "engine.backends.device_grammar": {"kernels.params"},  # packs a grammar into the kernel's structs
    "engine.backends.native": {"kernels.cpu"},  # likewise for the CPU program
    "engine.backends.native_weights": {"kernels.cpu"},  # what it packs
    "engine.backends.native_grammar": {"kernels.cpu"},  # its walks
    "engine.backends.native_segment": {"kernels.cpu"},  # its segments
    "engine.backends.prepared": {"kernels.cpu"},  # what its packed weights depend on
    "engine.backends": {"kernels.cpu.library", "kernels.cpu"},  # asks whether it was built; loads no torch
    "engine.grammar.compiled": {"kernels.cpu"},  # what a vocabulary's walk does in a tenth of the time
    "engine.formats.blocks": {"kernels.cpu"},  # the CPU program unpacks blocks ten times as fast as numpy
    "tools.validate": {"engine.grammar.regex"},  # a pattern is read as the grammar holds it
    "loop.handoff": {"tools"},  # a hand-off is a tool to the model
    "loop.agent": {"tools"},  # an Agent is built from functions; the loop itself sees the Tools protocol
}
HEAVY = ("torch", "triton", "cupy", "transformers", "tokenizers", "pydantic", "numpy", "jinja2")


def _modules() -> list[tuple[str, Path]]:
    out = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        out.append((".".join(p for p in parts if p != "__init__"), path))
    return out


def _imports(name: str, path: Path) -> list[tuple[int, str]]:
    """(line, dotted name below kogagent) of every import of ours, names of `from x import y` included."""
    found = []
    is_package = path.name == "__init__.py"
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = ["kogagent", *filter(None, name.split("."))]
                keep = len(parts) - node.level + (1 if is_package else 0)
                base = ".".join([*parts[:keep], *filter(None, [node.module])])
            found += [(node.lineno, f"{base}.{alias.name}") for alias in node.names]
    return [(line, full.removeprefix("kogagent.")) for line, full in found if full.startswith("kogagent.")]


def _inside(target: str, allowed: str) -> bool:
    return target == allowed or target.startswith(allowed + ".")


@pytest.mark.parametrize("layer", sorted(ALLOWED))
def test_a_layer_imports_only_what_the_rule_allows(layer: str) -> None:
    files = [(name, path) for name, path in _modules() if _inside(name, layer)]
    assert files, f"no module of the layer {layer!r} was found: the rule would check nothing"
    broken = []
    for name, path in files:
        allowed = ALLOWED[layer] | EXTRA.get(name, set()) | {layer}
        for line, target in _imports(name, path):
            if not any(_inside(target, a) for a in allowed):
                broken.append(f"{path.relative_to(PACKAGE.parent)}:{line} imports kogagent.{target}")
    assert not broken, "\n".join(broken)


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, kogagent\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
        "print(all(hasattr(kogagent, name) for name in kogagent.__all__))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines() == ["[]", "True"]


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    import kogagent

    with pytest.raises(AttributeError, match="no_such_name"):
        _ = kogagent.no_such_name
