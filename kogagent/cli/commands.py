"""What the commands do: load, run, show. The exit code says how it went."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kogagent.cli import loading
from kogagent.cli.live import View, open_view
from kogagent.errors import DeviceError, InputError, KogagentError

if TYPE_CHECKING:
    from kogagent.local import Engine
    from kogagent.loop.agent import Agent
    from kogagent.loop.stream import AgentStream
    from kogagent.tools.toolbox import Approve
    from kogagent.types import RunContext, ToolCall

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
_LINE_BYTES = 1 << 20


def demo(ask: str | None, model: str, *, device: str, dtype: str, json: bool, quiet: bool = False) -> int:
    """Answer one question about the museum, None the demo's own. quiet: for what it leaves on disk alone."""
    from kogagent.demo import DEFAULT_MODEL, DEFAULT_QUESTION, demo_history, demo_model, museum_agent

    question = DEFAULT_QUESTION if ask is None else ask.strip()
    name = model or DEFAULT_MODEL

    async def work(view: View) -> int:
        if not question:
            raise InputError("the question is empty. Ask something, or leave --ask out for the demo's own.")
        with loading.load_engine(name, device, dtype, keep_prompts=True) as engine:
            view.question(question, _described(name, engine))
            agent = museum_agent(demo_model(engine))
            return await _watch(agent.stream(question, history=demo_history(engine, question)), view)

    return _guarded(work, json=json, quiet=quiet)


def run(
    model: str,
    task: str,
    tools: Sequence[str],
    system: str,
    *,
    plan_tokens: int,
    max_turns: int,
    sampling: Mapping[str, Any],
    max_tokens: int,
    device: str,
    dtype: str,
    json: bool,
    keep_prompts: bool,
) -> int:
    """Give a model a task and tools."""

    async def work(view: View) -> int:
        from kogagent.loop.agent import Agent
        from kogagent.loop.limits import Limits
        from kogagent.sampling import SamplingParams
        from kogagent.tools.tool import collect

        if not task.strip():
            raise InputError("the task is empty. Say what to do.")
        limits = Limits(max_turns=max_turns, turn_tokens=max_tokens)
        drawn = SamplingParams(**sampling)
        found = collect(loading.load_tools(tools))
        waiting = next((one.name for one in found if one.needs_approval), None)
        if waiting is not None and not (sys.stdin and sys.stdin.isatty()):  # None: it was closed
            raise InputError(
                f"tool {waiting!r} needs approval, and standard input is no terminal. "
                "Start the run at one to be asked."
            )
        with loading.load_engine(model, device, dtype, keep_prompts=keep_prompts) as engine:
            agent = Agent(
                engine,
                found,
                instructions=system,
                plan=plan_tokens,
                limits=limits,
                sampling=drawn,
                approve=_approver(view),
            )
            view.question(task, _described(model, engine))
            return await _watch(agent.stream(task), view)

    return _guarded(work, json=json)


def chat(
    model: str,
    system: str,
    *,
    sampling: Mapping[str, Any],
    max_tokens: int,
    device: str,
    dtype: str,
    json: bool,
    keep_prompts: bool,
    timings: bool = False,
) -> int:
    """Talk until an empty line or the end of input. timings: each answer ends with what it took."""

    async def work(view: View) -> int:
        from kogagent.loop.agent import Agent
        from kogagent.loop.limits import Limits
        from kogagent.sampling import SamplingParams

        limits = Limits(turn_tokens=max_tokens)
        with loading.load_engine(model, device, dtype, keep_prompts=keep_prompts) as engine:
            agent = Agent(engine, instructions=system, limits=limits, sampling=SamplingParams(**sampling))
            return await _talk(agent, view, _described(model, engine))

    return _guarded(work, json=json, timings=timings)


def report(file: Path, output: Path | None, title: str) -> int:
    """Write the page of a run."""
    from kogagent.cli import live
    from kogagent.observe.report import html_report, read_run

    target = file.with_suffix(".html") if output is None else output
    try:
        page = html_report(read_run(file.read_text(encoding="utf-8")), title=title)
        target.write_text(page, encoding="utf-8")
    except UnicodeDecodeError as error:
        live.report(InputError(f"{file} is not UTF-8 text: {error}. Pass JSON lines or a JSON array."))
        return BAD_INPUT
    except OSError as error:
        live.report(InputError(f"{error.filename}: {error.strerror}"))
        return BAD_INPUT
    except InputError as error:
        live.report(InputError(f"{file}: {error}"))
        return BAD_INPUT
    print(target)  # noqa: T201
    return DONE


async def _talk(agent: Agent, view: View, name: str) -> int:
    """Answer line after line. A line that cannot be answered is told and forgotten: the conversation goes on
    without it. From a pipe, the exit code is that of the first such line."""
    from kogagent.loop.transcript import Transcript

    asked = sys.stdin.isatty()
    if asked:
        print(f"{name}; an empty line ends it", file=sys.stderr)  # noqa: T201
    transcript, code = Transcript(), DONE
    while True:
        if asked:
            print("> ", end="", file=sys.stderr, flush=True)  # noqa: T201
        before = transcript.fork()
        try:
            line = await (_typed() if asked else asyncio.to_thread(_line))
            if not line:
                return DONE if asked else code
            if not asked:
                view.question(line, name)
            ended = await _watch(agent.stream(line, history=transcript), view)
            code = code or ended
        except DeviceError:
            raise  # the engine is closed: nothing can be answered any more
        except KogagentError as error:
            view.error(error)
            transcript, code = before, code or _code(error)


def _approver(view: View) -> Approve[None]:
    """Asks at the terminal whether a call may run, about one call at a time."""
    turn = asyncio.Lock()

    async def approve(call: ToolCall, context: RunContext[None]) -> bool:
        async with turn:
            _forget_typed()
            view.ask(f"may {call.name} {call.arguments} run? [y/N]")
            return (await _typed()).lower() in ("y", "yes")

    return approve


async def _typed() -> str:
    """The next line of a terminal. Awaited on the loop: a thread that reads could not be interrupted, and the
    command would not end before somebody pressed Enter."""
    if sys.platform == "win32":  # whose loops wait for sockets alone
        return await asyncio.to_thread(_line)
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sys.stdin)
    return _line()  # a terminal hands over whole lines, one at a time


def _forget_typed() -> None:
    """Drop lines that were typed before a question: they answer none."""
    if sys.platform == "win32":
        import msvcrt

        while msvcrt.kbhit():
            msvcrt.getwch()
    else:
        import termios

        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def _line() -> str:
    """The next line of standard input without white space around it, "" at its end. InputError for what is
    no text, or too much of it; the next call reads the line after it."""
    raw = sys.stdin.buffer.readline(_LINE_BYTES + 1)
    if len(raw) > _LINE_BYTES:
        while raw and not raw.endswith(b"\n"):
            raw = sys.stdin.buffer.readline(_LINE_BYTES)
        raise InputError(f"the line is longer than {_LINE_BYTES} bytes and was left out. Send less at once.")
    try:
        return raw.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise InputError(f"the line is not UTF-8 and was left out ({error}). Send UTF-8 text.") from None


async def _watch(stream: AgentStream, view: View) -> int:
    async with stream as events:
        async for event in events:
            view.show(event)
    return DONE if stream.result.reason == "finished" else FAILED


def _described(name: str, engine: Engine) -> str:
    size = f"{engine.spec.parameters / 1e6:,.0f}M parameters"
    return f"{name}, {engine.backend_name} backend, {size}, {engine.dtype}"


def _guarded(
    work: Callable[[View], Coroutine[Any, Any, int]],
    *,
    json: bool,
    quiet: bool = False,
    timings: bool = True,
) -> int:
    """Run a command; the caller's mistakes are 2, everything else that this package raises is 1. quiet: it
    shows errors alone. timings: and, in text, what turns and runs took."""
    view = open_view(as_json=json, out=io.StringIO() if quiet else None, timings=timings)
    try:
        return asyncio.run(work(view))
    except KogagentError as error:
        view.error(error)
        return _code(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        view.close()


def _code(error: KogagentError) -> int:
    return BAD_INPUT if isinstance(error, InputError) else FAILED
