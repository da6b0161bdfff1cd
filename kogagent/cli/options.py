"""Options that several commands take. Knows their help; reads nothing."""

from __future__ import annotations

from typing import Annotated

import typer

Model = Annotated[str, typer.Argument(help="A known name, a checkpoint directory or a .gguf file.")]
Device = Annotated[str, typer.Option(help="auto, cpu, or a backend: cuda, native, torch or reference.")]
Dtype = Annotated[
    str, typer.Option(help="Of the weights: auto, or one the backend takes; float16 say, int8 on native.")
]
KeepPrompts = Annotated[
    bool,
    typer.Option(
        "--keep-prompts",
        help="Keep what the prompt begins with on disk, for this user alone: a later start reads it there.",
    ),
]
