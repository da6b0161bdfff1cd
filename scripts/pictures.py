"""Pictures of a run for the docs: its HTML report and its terminal view, light and dark. Needs Chromium.

    python scripts/pictures.py                 the demo's default question, with the demo's model
    python scripts/pictures.py --ask "…"       another question

Writes docs/images/report-*.png and terminal-*.png. The times in them are this machine's at this moment.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from kogagent.cli.live import TextView
from kogagent.demo import DEFAULT_MODEL, DEFAULT_QUESTION, demo_history, demo_model, museum_agent
from kogagent.local import Engine
from kogagent.observe import Trace, html_report

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
_DIM = [
    (1, 1, 1),
    (205, 49, 49),
    (13, 138, 80),
    (150, 110, 0),
    (36, 114, 200),
    (150, 60, 160),
    (10, 120, 160),
]
LIGHT = TerminalTheme((255, 255, 255), (36, 41, 47), [*_DIM, (90, 96, 104)])
_PALE = [(60, 66, 74), (255, 123, 114), (126, 226, 160), (237, 180, 69), (90, 157, 245), (210, 150, 240)]
DARK = TerminalTheme((15, 19, 24), (220, 226, 232), [*_PALE, (86, 196, 222), (154, 165, 177)])


async def _watched(question: str) -> tuple[str, Console]:
    """(the page, the terminal) of one run."""
    trace = Trace()
    console = Console(
        record=True,
        force_terminal=True,
        width=96,
        file=io.StringIO(),
        highlight=False,
        emoji=False,
        markup=False,
    )
    view = TextView(console, waiting=False)
    with Engine.load(DEFAULT_MODEL) as engine:
        agent = museum_agent(demo_model(engine))
        agent.observers = (trace,)
        view.question(question, f"{engine.name}, {engine.backend_name} backend")
        async with agent.stream(question, history=demo_history(engine, question)) as events:
            async for event in events:
                view.show(event)
    return html_report(trace.runs[0], title="The museum: a run"), console


def _shoot(page: Path, target: Path, width: int, height: int, *, dark: bool) -> None:
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                *(
                    "chromium",
                    "--headless",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--disable-quic",
                    "--no-first-run",
                ),
                *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
                *("--hide-scrollbars", f"--user-data-dir={profile}", f"--window-size={width},{height}"),
                "--default-background-color=00000000",  # the corners of a window show the page it stands on
                f"--blink-settings=preferredColorScheme={0 if dark else 1}",
                *(f"--screenshot={target}", page.as_uri()),
            ],
            check=True,
            capture_output=True,
        )
    print(f"{target}: {target.stat().st_size >> 10} KiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ask", default=DEFAULT_QUESTION)
    parser.add_argument("--height", type=int, default=1700, help="of the report")
    args = parser.parse_args()
    if shutil.which("chromium") is None:
        raise SystemExit("this needs chromium. Install it: apt-get install chromium")
    page, console = asyncio.run(_watched(args.ask))
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.html")
        report.write_text(page, encoding="utf-8")
        for name, theme in (("light", LIGHT), ("dark", DARK)):
            _shoot(report, IMAGES / f"report-{name}.png", 900, args.height, dark=name == "dark")
            svg = console.export_svg(title="kogagent demo", theme=theme, clear=False)
            svg = re.sub(
                r"@font-face \{.*?\}", "", svg, flags=re.DOTALL
            )  # fonts of a network there is none of
            size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
            assert size is not None
            terminal = Path(folder, f"{name}.svg")
            terminal.write_text(svg, encoding="utf-8")
            width, height = (round(float(side)) for side in size.groups())
            _shoot(terminal, IMAGES / f"terminal-{name}.png", width, height, dark=name == "dark")


if __name__ == "__main__":
    main()
