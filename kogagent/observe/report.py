"""The report of a run as one HTML page that needs nothing else. Knows views and how to write them."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from kogagent.errors import InputError
from kogagent.loop.notation import message_from_json, parse
from kogagent.loop.transcript import Transcript
from kogagent.observe.phases import duration
from kogagent.observe.trace import RunTrace
from kogagent.observe.view import Report, of_events, of_messages, visible
from kogagent.types import Message, RunResult

# All that runs on the page; its policy allows it by the hash, and nothing else.
_SCRIPT = """
const root = document.documentElement, button = document.getElementById("theme");
const names = ["auto", "light", "dark"];
function set(name) {
  if (name === "auto") delete root.dataset.theme; else root.dataset.theme = name;
  button.textContent = "Theme: " + name;
  button.dataset.now = name;
}
button.hidden = false;
button.addEventListener("click", () => set(names[(names.indexOf(button.dataset.now) + 1) % names.length]));
set(names.includes(location.hash.slice(1)) ? location.hash.slice(1) : "auto");
"""
_SCRIPT_HASH = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()


def html_report(run: RunTrace | RunResult | Transcript | Iterable[Message], *, title: str = "") -> str:
    """A page about a run, to be opened offline: it loads nothing and runs nothing but a theme switch.

    A RunTrace gives all of it: the timeline, every token as sampled or forced, calls, phases. A RunResult
    has no times of single calls and no tokens, a history only what was said and done. Raises InputError.
    """
    if isinstance(run, RunTrace):
        report = of_events(run.events)
    elif isinstance(run, RunResult):
        report = of_messages(run.messages, run)
    elif isinstance(run, Transcript):
        report = of_messages(run.messages)
    else:
        report = of_messages(tuple(run))
    return render(report, title=title)


def read_run(text: str) -> RunTrace | tuple[Message, ...]:
    """What a file holds: the events of a run, or messages as JSON lines or as an array. Raises InputError."""
    start = text.lstrip()
    if start.startswith("["):
        values = parse(text, "the file")
    else:
        first = parse(start.split("\n", 1)[0] or "{}", "line 1")
        if isinstance(first, dict) and "event" in first:
            return RunTrace.from_lines(text)
        values = [parse(line, f"line {n}") for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not isinstance(values, list) or not values:
        raise InputError("it holds neither the events of a run nor messages")
    return tuple(message_from_json(value, f"message {n}") for n, value in enumerate(values))


def render(report: Report, *, title: str = "") -> str:
    """The page of a report."""
    template = _template()
    heading = title or (f"{report.agent}: a run" if report.agent else "A run")
    return template.render(report=report, title=heading, script=Markup(_SCRIPT), script_hash=_SCRIPT_HASH)


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "duration": duration,
        "visible": visible,
        "percent": lambda share: f"{100 * share:.4g}%",
        "slug": lambda name: re.sub(r"[^a-z]", "", name.lower()),
        "token": _token,
    }
    source = files("kogagent.observe").joinpath("report.html.jinja").read_text(encoding="utf-8")
    return environment.from_string(source)


def _token(text: Any) -> str:
    """A token as it is shown: a line's end can be seen, and ends the line."""
    return visible(str(text)).replace("\n", "↵\n").replace("\t", "⇥\t")
