"""`kogagent serve` as a process of its own: ready, answering, interrupted; its errors."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import openai
import pytest
from typer.testing import CliRunner

from kogagent.cli import loading
from kogagent.cli.app import app
from kogagent.testing.tiny import write_tiny_model


def test_the_command_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "babbler")
    command = [sys.executable, "-m", "kogagent", "serve", str(folder), "--port", "0", "--device", "cpu"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            line = server.stderr.readline()
            found = re.fullmatch(r"babbler on \w+: (http://127\.0\.0\.1:\d+/v1)\n", line)
            assert found is not None, line
            with openai.OpenAI(base_url=found[1], api_key="unused", max_retries=0, timeout=None) as client:
                answer = client.chat.completions.create(
                    model="babbler", messages=[{"role": "user", "content": "Hi"}], max_tokens=5
                )
            assert answer.usage is not None and 1 <= answer.usage.completion_tokens <= 5
            server.send_signal(signal.SIGINT)
            assert server.wait() == 0 and server.stderr.read() == ""
        finally:
            server.kill()  # a test that failed must not wait for a server that goes on


def test_a_taken_port_is_found_out_before_the_model_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load(*arguments: object) -> None:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr(loading, "load_engine", load)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = CliRunner().invoke(app, ["serve", "any", "--port", str(taken.getsockname()[1])])
    assert result.exit_code == 2 and "cannot listen on 127.0.0.1" in result.output
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["serve", "any"])
    assert result.exit_code == 2 and "kogagent[server]" in result.output


def test_a_model_that_is_not_there_is_one_line() -> None:
    result = CliRunner().invoke(app, ["serve", "no-such-model", "--port", "0"])
    assert result.exit_code == 2 and result.output.count("\n") == 1 and "no-such-model" in result.output
