"""`kogagent cache` and `kogagent prepare`: what is kept on disk, told, removed, made beforehand."""

from __future__ import annotations

from typing import Annotated

import typer

from kogagent.cli.options import Device, Dtype, Model
from kogagent.errors import ConfigError, InputError, KogagentError


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("cache")(cache)
    app.command("prepare")(prepare)


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove every file of it.")] = False,
) -> None:
    """Say what the cache on disk holds, or remove it. Compiled kernels stay."""
    from kogagent.cli.commands import BAD_INPUT
    from kogagent.cli.live import report
    from kogagent.disk_cache import DiskCache

    try:
        disk = DiskCache()
    except InputError as error:
        report(error)
        raise typer.Exit(BAD_INPUT) from None
    if clear:
        print(f"{disk.clear() / 1e6:,.1f} MB removed from {disk.folder}")  # noqa: T201 - this is the output
        return
    for name, detail in told():
        print(f"{name:10}  {detail}")  # noqa: T201


def told() -> list[tuple[str, str]]:
    """(kind, files and bytes) of what the cache holds, its place and limit first. Raises InputError for an
    environment that names no number of bytes."""
    from kogagent.disk_cache import DiskCache

    disk = DiskCache()
    lines = [
        ("folder", str(disk.folder)),
        ("limit", f"{disk.limit / 1e6:,.0f} MB" if disk.on else "off: KOGAGENT_CACHE_BYTES is 0"),
    ]
    sizes: dict[str, list[int]] = {}
    for entry in disk.entries():
        sizes.setdefault(entry.kind, []).append(entry.size)
    for kind, found in sorted(sizes.items()):
        lines.append((kind, f"{len(found)} file{'s' * (len(found) > 1)}, {sum(found) / 1e6:,.1f} MB"))
    return lines


def prepare(model: Model, device: Device = "auto", dtype: Dtype = "auto") -> None:
    """Load a model once, so that what can be kept on disk is there before it is needed."""
    from kogagent.cli import loading
    from kogagent.cli.commands import BAD_INPUT, FAILED
    from kogagent.cli.live import report
    from kogagent.disk_cache import DiskCache

    try:
        with loading.load_engine(model, device, dtype) as engine:
            backend = engine.backend_name
        for name, detail in told():
            print(f"{name:10}  {detail}")  # noqa: T201
        disk = DiskCache()
        if not disk.entries():
            raise ConfigError(
                f"nothing is kept in {disk.folder}: its limit is {disk.limit:,} bytes, the {backend} backend "
                "keeps weights if it is the native one, and the folder must be this user's to write"
            )
    except KogagentError as error:
        report(error)
        raise typer.Exit(BAD_INPUT if isinstance(error, InputError) else FAILED) from None
