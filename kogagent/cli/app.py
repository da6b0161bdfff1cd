"""The commands, but for those of serve.py. Knows arguments and exit codes; runs nothing itself."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from kogagent.cli import cache, roofline, serve
from kogagent.cli.options import Device, Dtype, KeepPrompts, Model

app = typer.Typer(
    name="kogagent",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="One JSON object an event, for machines.")]
MaxTokens = Annotated[int, typer.Option(help="Tokens a turn may take.")]
Temperature = Annotated[float, typer.Option(help="0 is greedy.")]
Seed = Annotated[int, typer.Option(help="Of the sampler: the same seed, the same text.")]


def _version(wanted: bool) -> None:
    if wanted:
        from kogagent.cli.doctor import own_version

        print(f"kogagent {own_version()}")  # noqa: T201 - this is the output
        raise typer.Exit


@app.callback()
def _all(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Agents on an engine in the same process."""


@app.command()
def demo(
    ask: Annotated[
        str | None, typer.Option(help="Any question about the museum's files and database.")
    ] = None,
    model: Annotated[str, typer.Option(help="A known name, a checkpoint directory or a .gguf file.")] = "",
    device: Device = "auto",
    dtype: Dtype = "auto",
    json: Json = False,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Show nothing: only keep on disk what a later run can use.")
    ] = False,
) -> None:
    """Let a model answer a question with tools over a folder of files and a database."""
    from kogagent.cli import commands

    raise typer.Exit(commands.demo(ask, model, device=device, dtype=dtype, json=json, quiet=prepare))


@app.command()
def chat(
    model: Model,
    system: Annotated[str, typer.Option(help="The system message.")] = "",
    device: Device = "auto",
    dtype: Dtype = "auto",
    temperature: Temperature = 0.0,
    seed: Seed = 0,
    max_tokens: MaxTokens = 512,
    keep_prompts: KeepPrompts = False,
    json: Json = False,
    timings: Annotated[
        bool, typer.Option("--timings", help="Show where the time of each answer went.")
    ] = False,
) -> None:
    """Talk to a model, a line a message; an empty line or the end of input ends it."""
    from kogagent.cli import commands

    options: dict[str, Any] = {"device": device, "dtype": dtype, "json": json, "keep_prompts": keep_prompts}
    sampling = {"temperature": temperature, "seed": seed}
    options |= {"sampling": sampling, "max_tokens": max_tokens, "timings": timings}
    raise typer.Exit(commands.chat(model, system, **options))


@app.command()
def run(
    model: Model,
    task: Annotated[str, typer.Argument(help="What to do.")],
    tools: Annotated[
        list[str] | None,
        typer.Option(
            help="module:function, module:object or module; may be repeated. You are asked about calls that "
            "need approval."
        ),
    ] = None,
    system: Annotated[str, typer.Option(help="The system message.")] = "",
    plan_tokens: Annotated[int, typer.Option(help="Budget of the plan before each call; 0 for none.")] = 0,
    max_turns: Annotated[int, typer.Option(help="Model turns at most.")] = 16,
    device: Device = "auto",
    dtype: Dtype = "auto",
    temperature: Temperature = 0.0,
    seed: Seed = 0,
    max_tokens: MaxTokens = 512,
    keep_prompts: KeepPrompts = False,
    json: Json = False,
) -> None:
    """Give a model a task and tools, and watch it work."""
    from kogagent.cli import commands

    raise typer.Exit(
        commands.run(
            model,
            task,
            tools or [],
            system,
            plan_tokens=plan_tokens,
            max_turns=max_turns,
            sampling={"temperature": temperature, "seed": seed},
            max_tokens=max_tokens,
            device=device,
            dtype=dtype,
            keep_prompts=keep_prompts,
            json=json,
        )
    )


@app.command("eval")
def evaluate(
    model: Model,
    cases: Annotated[str, typer.Argument(help="A file of JSON lines, or module:cases.")],
    score: Annotated[
        list[str] | None,
        typer.Option(help="exact, contains, matches, number, calls, no_failures, or module:function."),
    ] = None,
    tools: Annotated[
        list[str] | None, typer.Option(help="module:function, module:object or module; may be repeated.")
    ] = None,
    system: Annotated[str, typer.Option(help="The system message.")] = "",
    plan_tokens: Annotated[int, typer.Option(help="Budget of the plan before each call; 0 for none.")] = 0,
    max_turns: Annotated[int, typer.Option(help="Model turns at most.")] = 16,
    seeds: Annotated[int, typer.Option(help="Runs of each case, each with a seed of its own.", min=1)] = 1,
    parallel: Annotated[int, typer.Option(help="Runs at once.", min=1)] = 1,
    at_least: Annotated[float, typer.Option(help="Exit with 1 when a mean is below.", min=0, max=1)] = 0.0,
    output: Annotated[Path | None, typer.Option(help="Write every trial there, as JSON.")] = None,
    device: Device = "auto",
    dtype: Dtype = "auto",
    temperature: Temperature = 0.0,
    max_tokens: MaxTokens = 512,
    json: Annotated[bool, typer.Option("--json", help="Print JSON in place of a table.")] = False,
) -> None:
    """Run cases, score what comes of them, print a table."""
    from kogagent.cli import evaluation

    raise typer.Exit(
        evaluation.run(
            model,
            cases,
            score or [],
            tools or [],
            agent={"instructions": system, "plan": plan_tokens},
            limits={"max_turns": max_turns, "turn_tokens": max_tokens},
            temperature=temperature,
            seeds=seeds,
            parallel=parallel,
            at_least=at_least,
            output=output,
            device=device,
            dtype=dtype,
            json=json,
        )
    )


@app.command()
def report(
    file: Annotated[
        Path, typer.Argument(help="What `run --json` wrote, a RunTrace, or messages as JSON or JSON lines.")
    ],
    output: Annotated[Path | None, typer.Option(help="The page; beside the file by default.")] = None,
    title: Annotated[str, typer.Option(help="Its heading.")] = "",
) -> None:
    """Make an HTML page of a run: timeline, tokens, calls. It opens offline."""
    from kogagent.cli import commands

    raise typer.Exit(commands.report(file, output, title))


@app.command()
def doctor(json: Json = False) -> None:
    """Say what is installed, which devices there are, which backend will run and why not another."""
    from kogagent.cli import doctor as examination

    raise typer.Exit(examination.show(json=json))


serve.register(app)
roofline.register(app)
cache.register(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse and run one command; returns its exit code."""
    gc.set_threshold(
        100_000, 50, 100
    )  # most of what a command imports and loads stays: look at it more seldom
    try:
        app(args=None if arguments is None else list(arguments))
    except SystemExit as end:  # how typer hands over every exit code, its own usage errors' 2 included
        return end.code if isinstance(end.code, int) else 1
    return 0
