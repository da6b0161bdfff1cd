"""The commands as a person or a script meets them: output, exit codes, one-line errors."""

from __future__ import annotations

import itertools
import json
import os
import re
import select
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import IO, Any

import pytest
from typer.testing import CliRunner, Result

from kogagent.cli import commands, live, loading
from kogagent.cli.app import app
from kogagent.errors import ConfigError, ContextError, DeviceError, InputError, ModelError
from kogagent.loop.protocols import Model
from kogagent.testing.models import ScriptedModel, ScriptedTurn, call
from kogagent.testing.tiny import write_tiny_model
from kogagent.types import Timings, Usage


class _Loaded:
    """What the commands need of an engine, around a scripted model."""

    def __init__(self, model: ScriptedModel) -> None:
        self.played = model
        self.backend_name, self.dtype = "scripted", "none"
        self.chat = SimpleNamespace(native_tools=True)
        self.spec = SimpleNamespace(parameters=135_000_000)
        self.closed = False

    def as_model(self) -> Model:
        return self.played

    def __enter__(self) -> _Loaded:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closed = True


def _load(monkeypatch: pytest.MonkeyPatch, *turns: Any, delta: int = 3) -> _Loaded:
    engine = _Loaded(ScriptedModel(*turns, delta=delta))
    monkeypatch.setattr(loading, "load_engine", lambda model, device, dtype, **_: engine)
    return engine


def _run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=stdin)


def _events(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


_TURNS = (
    ScriptedTurn(
        plan="Count the fossils.",
        calls=(call("query", sql="SELECT COUNT(*) FROM fossils"),),
        usage=Usage(prefilled_tokens=100, sampled_tokens=6, forced_tokens=20, steps=7),
        timings=Timings(prefill_s=0.5, sampled_s=0.1, forced_s=0.02),
    ),
    ScriptedTurn(
        text="There are 22 fossils.",
        usage=Usage(reused_tokens=126, prefilled_tokens=9, sampled_tokens=8, steps=8),
        timings=Timings(prefill_s=0.05, sampled_s=0.1),
    ),
)


def test_a_demo_run_shows_plan_call_result_answer_and_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = _load(monkeypatch, *_TURNS)
    result = _run("demo", "--ask", "How many fossils are there?")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    shown = [
        "? How many fossils are there?",
        "Count the fossils.",
        '→ query {"sql": "SELECT COUNT(*) FROM fossils"}',
        "← count: 22",
        "There are 22 fossils.",
    ]
    places = [lines.index(text) for text in shown]
    assert places == sorted(places)
    rows = {line.split("  ")[0]: line.split() for line in lines[places[-1] :] if line}
    assert rows["pre-fill"][1:5] == ["550.0", "ms", "109", "198"]
    assert rows["sampled"][1:5] == ["200.0", "ms", "14", "70"]
    assert {"forced", "tool", "loop", "whole run"} <= set(rows)
    assert "126 reused" in result.stdout and "2 turns, 1 calls" in result.stdout
    assert "\x1b" not in result.stdout, "a pipe gets plain text"
    assert engine.closed


def test_the_demo_without_a_question_asks_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from kogagent.demo import DEFAULT_QUESTION

    engine = _load(monkeypatch, *_TURNS)
    assert _run("demo").exit_code == 0
    asked = engine.played.requests[0]
    assert getattr(asked.messages[-1], "text", "") == DEFAULT_QUESTION
    assert asked.tool_choice == "required"


def test_json_output_is_one_object_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    _load(monkeypatch, *_TURNS)
    result = _run("demo", "--json", "--ask", "How many?")
    events = _events(result)
    kinds = [event["event"] for event in events]
    assert kinds[0] == "run_started" and kinds[-1] == "run_finished"
    assert {"plan_delta", "call_delta", "call_ready", "tool_finished", "text_delta", "turn_end"} <= set(kinds)
    finished = next(event for event in events if event["event"] == "tool_finished")
    assert (finished["name"], finished["status"], finished["text"]) == ("query", "ok", "count: 22")
    text = "".join(event["text"] for event in events if event["event"] == "text_delta")
    assert text == events[-1]["output"] == "There are 22 fossils."
    assert events[-1]["usage"]["sampled_tokens"] == 14
    phases = {row["phase"]: row["seconds"] for row in events[-1]["phases"]}
    whole = phases.pop("whole run")
    assert sum(phases.values()) == pytest.approx(whole)
    assert all(a["t"] <= b["t"] for a, b in itertools.pairwise(events))


def test_run_uses_the_tools_that_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "named_tools.py").write_text(
        "def add(a: int, b: int) -> int:\n    '''Add.'''\n    return a + b\n"
    )
    monkeypatch.chdir(tmp_path)
    engine = _load(monkeypatch, call("add", a=19, b=23), "It is 42.")
    options = ("--tools", "named_tools:add", "--temperature", "0.5", "--seed", "7", "--system", "Be brief.")
    result = _run("run", "some-model", "What is 19 + 23?", *options)
    assert result.exit_code == 0, result.output
    assert "← 42" in result.stdout and "It is 42." in result.stdout
    sampling = engine.played.requests[0].sampling
    assert sampling is not None and (sampling.temperature, sampling.seed) == (0.5, 7)
    first = engine.played.requests[0]
    assert [spec.name for spec in first.tools] == ["add"]
    assert getattr(first.messages[0], "text", "") == "Be brief."


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_module_here:add", "no_such_module_here"),
        ("json:no_such_function", "no 'no_such_function'. There is "),
        ("json:dump_s", "no 'dump_s'. Did you mean 'dumps'? There is "),
        (":add", "module:function"),
        ("keyword", "no @tool"),
    ],
)
def test_a_tool_that_cannot_be_loaded_is_bad_input_before_the_model_is(
    monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("the model was loaded first")

    monkeypatch.setattr(loading, "load_engine", never)
    result = _run("run", "some-model", "task", "--tools", name)
    assert result.exit_code == 2
    assert said in result.stderr and len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("no model 'x':\n it is no file"), 2),
        (ConfigError("config.json: unknown field 'y'"), 2),
        (ModelError("the logits are NaN"), 1),
    ],
)
def test_errors_are_one_line_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(loading, "load_engine", fail)
    result = _run("demo")
    assert result.exit_code == code
    assert result.stderr == f"kogagent: {' '.join(str(error).split())}\n"
    machine = _run("demo", "--json")
    assert machine.exit_code == code
    assert _events(machine)[-1]["event"] == "error"
    assert _events(machine)[-1]["type"] == type(error).__name__


def test_a_run_that_stops_at_a_limit_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    again = ScriptedTurn(calls=(call("list_files"),))
    _load(monkeypatch, *[again] * 8)
    result = _run("demo", "--ask", "Which files?")
    assert result.exit_code == 1
    assert "! stopped: repeated_call" in result.stdout


def test_an_empty_task_is_bad_input() -> None:
    result = _run("run", "some-model", "  ")
    assert result.exit_code == 2 and "task is empty" in result.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
@pytest.mark.parametrize("as_json", [False, True])
def test_run_asks_at_a_terminal_about_each_call_that_needs_approval(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str], as_json: bool
) -> None:
    import pty

    _write_deleter(monkeypatch, tmp_path)
    paths = ["/0", "/1", "/2  x", "/3"]  # what runs is what is shown, space for space
    _load(monkeypatch, [call("delete", path=path) for path in paths], "Done.")
    ours, theirs = pty.openpty()
    os.write(ours, b"y\n")  # before anything is asked: it approves nothing
    select.select([theirs], [], [])
    ask, answers = live.ask, iter([b"y\n", b"n\n", b"\n", b"Yes\n"])

    def answered(question: str) -> None:
        ask(question)
        os.write(ours, next(answers))

    monkeypatch.setattr(live, "ask", answered)
    with open(theirs, encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        code = commands.run(
            "some-model", "Clean up.", ["deleting:delete"], "", plan_tokens=0, max_turns=4, sampling={},
            max_tokens=64, device="auto", dtype="auto", json=as_json, keep_prompts=False,
        )  # fmt: skip
    os.close(ours)
    said = capfd.readouterr()
    assert code == 0 and said.err == "".join(f'may delete {{"path": "{path}"}} run? [y/N] ' for path in paths)
    assert [f"{path} is gone" in said.out for path in paths] == [True, False, False, True]
    assert said.out.count("permission was denied") == 2


def test_run_refuses_a_tool_that_needs_approval_where_nobody_can_be_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _write_deleter(monkeypatch, tmp_path)
    engine = _load(monkeypatch, call("delete", path="/a"), "Done.")
    words = "'delete' needs approval, and standard input is no terminal"
    result = _run("run", "some-model", "Clean up.", "--tools", "deleting:delete", stdin="y\n")
    assert result.exit_code == 2 and words in result.stderr
    monkeypatch.setattr(sys, "stdin", None)
    code = commands.run(
        "some-model", "Clean up.", ["deleting:delete"], "", plan_tokens=0, max_turns=4, sampling={},
        max_tokens=64, device="auto", dtype="auto", json=False, keep_prompts=False,
    )  # fmt: skip
    assert code == 2 and words in capfd.readouterr().err and not engine.played.requests


def _write_deleter(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "deleting.py").write_text(
        "from kogagent import tool\n\n@tool(needs_approval=True)\ndef delete(path: str) -> str:\n"
        "    '''Delete a file.'''\n    return f'{path} is gone'\n"
    )
    monkeypatch.chdir(folder)


def test_chat_keeps_the_conversation_until_an_empty_line(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = _load(monkeypatch, "Hello Ada.", "You are Ada.")
    result = _run("chat", "some-model", stdin="I am Ada\nWho am I?\n\nnot read\n")
    assert result.exit_code == 0, result.output
    assert "Hello Ada." in result.stdout and "You are Ada." in result.stdout
    texts = [getattr(message, "text", "") for message in engine.played.requests[1].messages]
    assert texts == ["I am Ada", "Hello Ada.", "Who am I?"]


def test_chat_tells_where_the_time_went_only_where_it_is_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    _load(monkeypatch, "Hello Ada.", "You are Ada.")
    answers = ["Hello Ada.", "You are Ada."]
    told = _run("chat", "some-model", "--timings", stdin="I am Ada\nWho am I?\n").stdout
    assert told.count("turn 1:") == told.count("1 turns, 0 calls") == 2
    _load(monkeypatch, *answers)
    lines = _run("chat", "some-model", stdin="I am Ada\nWho am I?\n").stdout.splitlines()
    assert [line for line in lines if line and line[0] not in "? "] == answers
    assert len(lines) == 6, "a question, the model and the answer, twice"


def test_a_line_that_cannot_be_read_is_left_out_and_the_chat_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = _load(monkeypatch, "Hello Ada.", "You are Ada.")
    lines = [b"I am Ada", b"\xff\xfe no text", b"x" * (3 << 20), b"Who am I?", b""]
    result = CliRunner().invoke(app, ["chat", "some-model"], input=b"\n".join(lines))
    assert result.exit_code == 2, "a script must be able to see that something was left out"
    complaints = result.stderr.splitlines()
    assert len(complaints) == 2 and "not UTF-8" in complaints[0] and "longer than 1048576" in complaints[1]
    texts = [getattr(message, "text", "") for message in engine.played.requests[1].messages]
    assert texts == ["I am Ada", "Hello Ada.", "Who am I?"]


@pytest.mark.parametrize(
    ("error", "code"), [(ContextError("2,000 tokens do not fit"), 2), (ModelError("the logits are NaN"), 1)]
)
def test_a_line_that_cannot_be_answered_is_forgotten_and_the_chat_goes_on(
    monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    engine = _load(monkeypatch, "Hello Ada.", ScriptedTurn(text="It", error=error), "You are Ada.")
    result = _run("chat", "some-model", stdin="I am Ada\nA long story\nWho am I?\n\n")
    assert result.exit_code == code and result.stderr == f"kogagent: {error}\n"
    texts = [getattr(message, "text", "") for message in engine.played.requests[2].messages]
    assert texts == ["I am Ada", "Hello Ada.", "Who am I?"]


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_an_interrupt_ends_a_chat_that_waits_for_a_line(tmp_path: Path) -> None:
    import pty

    model = write_tiny_model(tmp_path / "tiny")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "kogagent", "chat", str(model), "--device", "cpu", "--max-tokens", "5"]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as chat:
        try:
            assert chat.stderr is not None
            _read_until(chat.stderr, b"\n> ")
            os.write(ours, b"Hello\n")
            _read_until(chat.stderr, b"> ")  # it is answered, and the next is waited for
            chat.send_signal(signal.SIGINT)
            chat.wait()
        finally:
            chat.kill()
            os.close(ours)
            os.close(theirs)
    assert chat.returncode == 130


def _read_until(stream: IO[bytes], end: bytes) -> None:
    said = b""
    while not said.endswith(end):
        more = stream.read(1)
        assert more, said
        said += more


def test_a_dead_device_ends_the_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    _load(monkeypatch, ScriptedTurn(error=DeviceError("the kernel is dead")), "never said")
    result = _run("chat", "some-model", stdin="hello\nagain\n\n")
    assert result.exit_code == 1 and "never said" not in result.stdout


def test_the_help_names_every_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    from kogagent.engine.backends import BACKENDS

    for command in ("demo", "chat", "run", "serve"):
        text = " ".join(_run(command, "--help").stdout.replace("│", " ").split())
        assert all(name in text for name in ("auto", "cpu", *BACKENDS)), command


def test_control_codes_of_a_model_do_not_reach_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    _load(monkeypatch, "red \x1b[31m [bold]text[/bold]", delta=0)
    result = _run("chat", "some-model", stdin="hi\n\n")
    assert "red �[31m [bold]text[/bold]" in result.stdout


def test_doctor_says_which_backend_runs_and_why_not_another() -> None:
    from kogagent.engine.backends import available

    plain = _run("doctor")
    machine = _run("doctor", "--json")
    assert plain.exit_code == machine.exit_code == 0
    found = json.loads(machine.stdout)
    reasons = {part["name"]: part["reason"] for part in found["backends"]}
    assert reasons == available()
    assert found["backend"] == next(name for name, reason in reasons.items() if reason is None)
    assert f'device="auto" runs: {found["backend"]}' in plain.stdout
    for reason in reasons.values():
        assert reason is None or reason in plain.stdout
    assert {part["name"] for part in found["packages"]} >= {"torch", "cupy", "triton"}


def test_doctor_names_the_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata

    from kogagent.cli.doctor import examine

    real = importlib.metadata.version

    def version(name: str) -> str:
        if name.startswith("cupy"):
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    cupy = next(part for part in examine().packages if part.name == "cupy")
    assert cupy.detail == "missing" and "kogagent[cuda]" in (cupy.reason or "")


def test_doctor_knows_the_packages_of_every_extra_for_users() -> None:
    from kogagent.cli.doctor import _DISTRIBUTIONS, _EXTRAS

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    names = {known: package for package, many in _DISTRIBUTIONS.items() for known in many}
    wanted = {
        (names.get(package, package), extra)
        for extra, requirements in project["project"]["optional-dependencies"].items()
        if extra not in ("bench", "dev", "docs")
        for package in (re.split(r"[^\w-]", requirement)[0] for requirement in requirements)
    }
    assert {(package, extra) for package, (extra, _) in _EXTRAS.items()} <= wanted
    assert set(_EXTRAS) == {package for package, _ in wanted}


def test_the_demo_runs_on_the_packages_own_model_unless_another_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = list[str]()

    def load(model: str, *_: Any, **__: Any) -> _Loaded:
        asked.append(model)
        return _Loaded(ScriptedModel(*_TURNS))

    monkeypatch.setattr(loading, "load_engine", load)
    for arguments in ((), ("--model", "another")):
        result = _run("demo", *arguments)
        assert (result.exit_code, result.stderr) == (0, ""), result.output
    assert asked == ["laneformer-nano", "another"]


@pytest.mark.parametrize("question", ["", " "])
def test_the_demo_refuses_an_empty_question_before_any_model_is_loaded(
    question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "load_engine", lambda *_, **__: pytest.fail("a model was loaded"))
    result = _run("demo", "--ask", question)
    assert result.exit_code == 2 and "the question is empty" in result.stderr


def test_the_demo_can_be_prepared_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    _load(monkeypatch, *_TURNS)
    result = _run("demo", "--prepare")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(("arguments", "kept"), [((), False), (("--keep-prompts",), True)])
def test_prompts_are_kept_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], kept: bool
) -> None:
    asked: list[bool] = []
    engine = _load(monkeypatch, *_TURNS, "Hello.", "Done.")

    def load(model: str, device: str, dtype: str, *, keep_prompts: bool) -> Any:
        asked.append(keep_prompts)
        return engine

    monkeypatch.setattr(loading, "load_engine", load)
    assert _run("demo").exit_code == 0
    assert _run("chat", "some-model", *arguments, stdin="hi\n\n").exit_code == 0
    assert _run("run", "some-model", "task", *arguments).exit_code == 0
    assert asked == [True, kept, kept]  # the demo's prompts are its own


def test_the_cache_on_disk_is_told_and_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOGAGENT_CACHE", str(tmp_path / "kept"))
    assert "off: KOGAGENT_CACHE_BYTES is 0" in _run("cache").stdout  # the suite's own environment
    monkeypatch.setenv("KOGAGENT_CACHE_BYTES", "50000000")
    model = write_tiny_model(tmp_path / "model")
    prepared = _run("prepare", str(model), "--device", "cpu")
    assert prepared.exit_code == 0, prepared.output
    told = dict(line.split(maxsplit=1) for line in _run("cache").stdout.splitlines())
    assert prepared.stdout == _run("cache").stdout
    assert told["folder"] == str(tmp_path / "kept") and told["limit"] == "50 MB"
    assert told["words"].startswith("1 file, 0.")
    parts = {part["name"]: part["detail"] for part in json.loads(_run("doctor", "--json").stdout)["cache"]}
    assert parts == told
    assert str(tmp_path / "kept") in _run("doctor").stdout
    assert "MB removed from" in _run("cache", "--clear").stdout
    assert list((tmp_path / "kept").iterdir()) == []
    monkeypatch.setenv("KOGAGENT_CACHE_BYTES", "lots")
    wrong = _run("cache")
    assert wrong.exit_code == 2 and "must be a number of bytes" in wrong.stderr
    assert "must be a number of bytes" in _run("doctor").stdout
    assert _run("prepare", "no-such-model").exit_code == 2
    monkeypatch.setenv("KOGAGENT_CACHE_BYTES", "0")
    monkeypatch.setenv("KOGAGENT_CACHE", str(tmp_path / "empty"))
    nothing = _run("prepare", str(model), "--device", "cpu")
    assert nothing.exit_code == 2 and "its limit is 0 bytes" in nothing.stderr


def test_the_version_is_told() -> None:
    result = _run("--version")
    parts = {part["name"]: part["detail"] for part in json.loads(_run("doctor", "--json").stdout)["system"]}
    assert (result.exit_code, result.stdout) == (0, f"kogagent {parts['kogagent']}\n")


def test_the_command_works_as_a_process_of_its_own() -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kogagent", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    wrong = run("demo", "--model", "no-such-model")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("kogagent: no model 'no-such-model'") and "Traceback" not in wrong.stderr
    assert wrong.stdout == ""
    usage = run("run")
    assert usage.returncode == 2 and "Traceback" not in usage.stderr
    assert run("--help").returncode == 0
