"""Shell, programs and Python in a child: whatever they do, it ends, and its limits hold."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from toolkit_calls import Asked

from kogagent import Agent, InputError, ToolStarted
from kogagent.testing import ScriptedModel, call
from kogagent.toolkit import ProcessLimits, command_tools, python_tools, shell_tools
from kogagent.toolkit.process import Confinement, child_command

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="confining and counting need Linux")
HOUR = 3600.0  # what is not about the time has all it may need, on a machine that stands still meanwhile too
QUICK = ProcessLimits(seconds=HOUR, processes=12, output_bytes=100_000, memory_bytes=512 << 20)


def shell(root: Path, limits: ProcessLimits = QUICK, **options: object) -> Asked:
    return Asked(shell_tools(root, limits=limits, **options))  # type: ignore[arg-type]


@pytest.fixture
def mark(rng: np.random.Generator) -> str:
    """Some seconds to sleep that no other process sleeps."""
    return str(10**9 + int(rng.integers(10**9)))


def running(mark: str) -> list[str]:
    """Processes whose command line has the mark."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in line and int(pid) != os.getpid():
            found.append(pid)
    return found


def kernel_without(monkeypatch: pytest.MonkeyPatch, *lacking: str) -> None:
    """The supervisors from now on find the kernel without these ways of `confine`."""
    code = (
        f"import sys; sys.path.append({str(Path(__file__).parents[2])!r})\n"
        "from kogagent.toolkit import confine, supervise\n"
        "def no(*_, **__): raise OSError(38, 'not here')\n"
        f"for name in {lacking!r}: setattr(confine, name, no)\n"
        "supervise.main()"
    )
    command = (*child_command("kogagent.toolkit.supervise")[:-1], code)
    monkeypatch.setattr("kogagent.toolkit.process.child_command", lambda module: command)


async def until_gone(mark: str) -> None:
    for _ in range(6000):  # looks, not seconds: a machine that stands still for a while takes none of them
        if not running(mark):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{running(mark)} still run")


async def until_there(path: Path) -> None:
    while not os.path.exists(path):  # noqa: ASYNC110, ASYNC240 - another process makes it
        await asyncio.sleep(0.01)


async def test_output_and_exit_code_are_told(tmp_path: Path) -> None:
    ask = shell(tmp_path)
    assert await ask("run_shell", command="echo one; echo two >&2; pwd") == f"one\ntwo\n{tmp_path}"
    assert await ask("run_shell", command="exit 3") == "[exit code 3]"
    assert await ask("run_shell", command="true") == "[no output]"
    (tmp_path / "inner").mkdir()
    assert (await ask("run_shell", command="pwd", folder="inner")).endswith("/inner")
    assert "leads out" in await ask.refused("run_shell", command="pwd", folder="..")


async def test_every_call_of_a_program_needs_approval(tmp_path: Path) -> None:
    for tools in (shell_tools(tmp_path), command_tools(tmp_path, ["ls"]), python_tools()):
        assert all(tool.needs_approval for tool in tools)
    assert not shell_tools(tmp_path, needs_approval=False)[0].needs_approval


async def test_no_environment_is_inherited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    told = await shell(tmp_path, env={"GIVEN": "yes"})("run_shell", command="env; cat /proc/$PPID/environ")
    assert "hunter2" not in told and "GIVEN=yes" in told


async def test_it_writes_below_its_root_alone_and_reads_nothing_of_the_users(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_text("SECRET")
    (root / "link").symlink_to(tmp_path / "secret")
    ask = shell(root)
    told = await ask("run_shell", command="cat ../secret link; echo x > ../planted; echo x > mine; cat mine")
    assert "SECRET" not in told and told.count("Permission denied") == 3 and told.endswith("\nx")
    assert not (tmp_path / "planted").exists() and (root / "mine").read_text() == "x\n"
    free = shell(root, confine=False)
    assert "SECRET" in await free("run_shell", command="cat ../secret")
    also = shell(root, readable=[tmp_path / "secret"])
    assert "SECRET" in await also("run_shell", command="cat ../secret")


async def test_there_is_no_network(tmp_path: Path) -> None:
    reached = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connect = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 5)\n'connected'"
    async with server:
        told = await Asked(python_tools(limits=QUICK))("run_python", code=connect)
        assert "Error" in told and not reached.is_set()
        assert "connected" in await Asked(python_tools(limits=QUICK, network=True))(
            "run_python", code=connect
        )


async def test_what_takes_too_long_is_stopped_with_all_it_started(tmp_path: Path, mark: str) -> None:
    limits = ProcessLimits(seconds=0.5, processes=12)
    command = f"sleep {mark} & (setsid nohup sleep {mark} &) ; sleep {mark}"
    assert await shell(tmp_path, limits)("run_shell", command=command) == "[stopped after 0.5 s]"
    await until_gone(mark)


async def test_what_it_leaves_behind_ends_with_it(tmp_path: Path, mark: str) -> None:
    told = await shell(tmp_path)(
        "run_shell", command=f"(setsid nohup sleep {mark} >/dev/null 2>&1 &) ; echo done"
    )
    assert told == "done"
    await until_gone(mark)


@pytest.mark.parametrize("lacking", [(), ("new_namespaces",)])
@pytest.mark.parametrize("network", [False, True])
async def test_a_fork_bomb_is_stopped(
    tmp_path: Path, mark: str, network: bool, lacking: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel_without(monkeypatch, *lacking)
    limits = ProcessLimits(seconds=HOUR, processes=12)
    bomb = f"marker={mark}; bomb() {{ bomb | bomb & }}; bomb; sleep 60"
    told = await shell(tmp_path, limits, network=network)("run_shell", command=bomb)
    assert "more than 12 processes" in told
    await until_gone(mark)


@pytest.mark.parametrize("lacking", [(), ("new_namespaces",), ("asks_before_forks",)])
async def test_no_more_processes_than_allowed_are_started(
    tmp_path: Path, mark: str, lacking: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel_without(monkeypatch, *lacking)
    limits = ProcessLimits(seconds=HOUR, processes=4)
    command = f"for n in 1 2 3 4 5; do sleep {mark} & echo $n; done; wait"
    told = await shell(tmp_path, limits)("run_shell", command=command)
    started, why = told.rsplit("\n", 1)
    assert why == "[stopped: more than 4 processes at once]"
    if "asks_before_forks" not in lacking:  # else it is seen some moments late
        assert started.split() == ["1", "2", "3"]
    await until_gone(mark)
    one_after_another = "for n in 1 2 3 4 5 6 7 8; do sleep 0; done; echo done"
    assert await shell(tmp_path, limits)("run_shell", command=one_after_another) == "done"


async def test_threads_are_no_processes() -> None:
    limits = ProcessLimits(seconds=HOUR, processes=1)
    code = (
        "import threading\nwait = threading.Event()\n"
        "many = [threading.Thread(target=wait.wait) for _ in range(9)]\n"
        "for one in many: one.start()\nwait.set()\n'ran'"
    )
    assert await Asked(python_tools(limits=limits))("run_python", code=code) == "'ran'"
    start = "import subprocess\nsubprocess.run(['/bin/true'])"  # by vfork or clone, as it likes
    assert "more than 1 processes" in await Asked(python_tools(limits=limits))("run_python", code=start)


async def test_a_flood_of_output_is_stopped(tmp_path: Path) -> None:
    told = await shell(tmp_path)("run_shell", command="yes")
    assert told.endswith("[stopped: more than 100000 bytes of output]") and len(told) < 101_000


async def test_memory_and_file_size_are_bounded(tmp_path: Path) -> None:
    limits = ProcessLimits(seconds=HOUR, processes=4, memory_bytes=256 << 20, file_bytes=1 << 20)
    told = await Asked(python_tools(limits=limits))("run_python", code="x = bytearray(1 << 30)")
    assert "MemoryError" in told
    told = await shell(tmp_path, limits)("run_shell", command="head -c 10000000 /dev/zero > big; ls -l big")
    assert (tmp_path / "big").stat().st_size <= 1 << 20, told


async def test_cancelling_ends_the_program(tmp_path: Path, mark: str) -> None:
    agent = Agent(
        ScriptedModel(call("run_shell", command=f"touch started; setsid sleep {mark} & sleep {mark}"), "x"),
        shell_tools(tmp_path, limits=QUICK, needs_approval=False),
    )
    async with agent.stream("go") as events:
        async for event in events:
            if isinstance(event, ToolStarted):
                break
        task = asyncio.ensure_future(anext(events))
        await until_there(tmp_path / "started")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await until_gone(mark)


async def test_programs_by_name_have_no_shell(tmp_path: Path) -> None:
    ask = Asked(command_tools(tmp_path, ["echo", "cat"], limits=QUICK))
    assert await ask("run_program", program="echo", arguments=["$HOME", "; ls", "a b"]) == "$HOME ; ls a b"
    assert "there are echo, cat" in await ask.refused("run_program", program="rm", arguments=["-rf", "/"])
    missing = Asked(command_tools(tmp_path, ["no-such-program"], limits=QUICK))
    assert "no program 'no-such-program'" in await missing.refused(
        "run_program", program="no-such-program", arguments=[]
    )
    with pytest.raises(InputError, match="list of names"):
        command_tools(tmp_path, "ls")


async def test_python_shows_prints_the_last_value_and_errors() -> None:
    ask = Asked(python_tools(limits=QUICK))
    assert await ask("run_python", code="print('a')\nx = 2\nx * 21") == "a\n42"
    told = await ask("run_python", code="def f():\n    return 1 / 0\nf()")
    assert "ZeroDivisionError" in told and "run_code" not in told and told.endswith("[exit code 1]")
    assert "SyntaxError" in await ask("run_python", code="1 +")
    assert await ask("run_python", code="import sys; sys.exit(4)") == "[exit code 4]"
    assert "ModuleNotFoundError" in await ask("run_python", code="import pydantic")
    assert await ask("run_python", code="import os; os.listdir('.')") == "[]"
    with_packages = Asked(python_tools(limits=QUICK, packages=True))
    assert await with_packages("run_python", code="import pydantic; 'found'") == "'found'"


async def test_python_that_never_ends_or_kills_is_ended() -> None:
    hasty = Asked(python_tools(limits=ProcessLimits(seconds=0.5, processes=4)))
    assert await hasty("run_python", code="while True: pass") == "[stopped after 0.5 s]"
    ignoring = "import signal\nfor s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\nwhile True: pass"
    assert await hasty("run_python", code=ignoring) == "[stopped after 0.5 s]"
    ask = Asked(python_tools(limits=QUICK))
    assert "signal" in await ask("run_python", code="import os; os.abort()")
    # Its supervisor is out of its sight; all it can kill are its own.
    await ask("run_python", code="import os\nos.kill(-1, 9)")
    assert await ask("run_python", code="'still here'") == "'still here'"


async def test_many_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    ask = shell(tmp_path)
    told = await asyncio.gather(*(ask("run_shell", command=f"echo {n}") for n in range(8)))
    assert told == [str(n) for n in range(8)]


def test_limits_that_are_none_are_refused() -> None:
    for bad in ({"seconds": 0}, {"processes": True}, {"memory_bytes": 1.5}, {"seconds": float("inf")}):
        with pytest.raises(InputError, match="ProcessLimits"):
            ProcessLimits(**bad)


def test_another_system_cannot_confine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(InputError, match="only Linux"):
        Confinement(network=False)
    assert Confinement(network=True).files is None


async def test_there_is_no_socket_of_another_program_either(tmp_path: Path) -> None:
    reached = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()
        writer.close()

    server = await asyncio.start_unix_server(serve, tmp_path / "door")
    connect = f"import socket\nsocket.socket(socket.AF_UNIX).connect({str(tmp_path / 'door')!r})"
    pair = "import asyncio, socket\nasyncio.run(asyncio.sleep(0))\na, b = socket.socketpair()\na.send(b'x')"
    async with server:
        ask = Asked(python_tools(limits=QUICK, confine=False))
        assert "PermissionError" in await ask("run_python", code=connect)
        assert not reached.is_set()
        assert await ask("run_python", code=pair) == "1"  # what a program says to itself it may say


async def test_its_signals_reach_nobody_else(tmp_path: Path, mark: str) -> None:
    sleeper = await asyncio.create_subprocess_exec("sleep", mark)
    try:
        ask = shell(tmp_path, network=True)
        assert (await ask("run_shell", command=f"kill -9 {sleeper.pid} 2>&1; echo done")).endswith("done")
        assert sleeper.returncode is None and running(mark)
    finally:
        sleeper.kill()
        await sleeper.wait()


@pytest.mark.parametrize("lacking", ["new_namespaces", "no_sockets", "only_these_files"])
async def test_what_the_kernel_lacks_is_made_up_for_or_refused(
    tmp_path: Path, mark: str, lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another way holds, or the call is refused by name."""
    kernel_without(monkeypatch, lacking)
    ask = shell(tmp_path)
    look = f"(setsid sleep {mark} > /dev/null &) ; echo > /dev/tcp/127.0.0.1/1; echo done"
    if lacking == "only_these_files":
        assert "files cannot be confined" in await ask.refused("run_shell", command=look)
        assert await shell(tmp_path, confine=False)("run_shell", command="echo free") == "free"
    else:
        told = await ask("run_shell", command=look)
        assert told.endswith("done") and ("Permission denied" in told or "unreachable" in told)
    await until_gone(mark)


async def test_secrets_of_other_processes_cannot_be_read(tmp_path: Path, mark: str) -> None:
    """The environment of a process of the same user, by its number outside."""
    secret = {"SECRET_TOKEN": "hunter2", "PATH": os.environ["PATH"]}
    sleeper = await asyncio.create_subprocess_exec("sleep", mark, env=secret)
    try:
        look = f"tr '\\0' '\\n' < /proc/{sleeper.pid}/environ; cat /proc/[0-9]*/environ; echo done"
        for network in (False, True):
            told = await shell(tmp_path, network=network)("run_shell", command=look)
            assert "hunter2" not in told and "done" in told
    finally:
        sleeper.kill()
        await sleeper.wait()
