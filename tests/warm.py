"""A `panprivacy` for shells that starts at once: a process that has loaded the library forks for every command.

A command of a page is otherwise a second of loading, and pages have hundreds of them. That the program starts from
nothing, and what it loads, is tested elsewhere.
"""

import atexit
import marshal
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

_SOURCE = Path(__file__).parents[1] / "src"
_CLIENT = """#!{python} -IS
import marshal, os, signal, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    for number in {passed}:
        signal.signal(number, lambda number, _frame: server.send(bytes([number])))
    server.connect({address!r})
    socket.send_fds(server, [b"+"], [0, 1, 2])
    said = marshal.dumps((sys.argv, os.getcwd(), dict(os.environ)))
    server.sendall(len(said).to_bytes(4) + said)
    status = int.from_bytes(server.recv(2) or b"\\0\\1", signed=True)
if status < 0:
    if -status in {passed}:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
sys.exit(status)
"""
_PASSED = [int(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)]
"""Signals that reach the command, the last one as the one that kills it; a client's death kills it as well."""


@cache
def warm_commands() -> Path:
    """A folder with a program `panprivacy`, and one called `app` that never starts itself anew.

    They work until this process ends.
    """
    if sys.platform != "linux":
        return Path(sys.executable).parent
    folder = tempfile.TemporaryDirectory(prefix="panprivacy-warm-")
    address = str(Path(folder.name, "socket"))
    for name in ("panprivacy", "app"):
        client = Path(folder.name, name)
        client.write_text(_CLIENT.format(python=sys.executable, address=address, passed=_PASSED))
        client.chmod(0o755)
    command, single = [sys.executable, __file__, address], {"OPENBLAS_NUM_THREADS": "1"}
    server = subprocess.Popen(command, env=os.environ | single | {"PYTHONPATH": str(_SOURCE)}, stdout=subprocess.PIPE)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"

    def end() -> None:
        server.kill()
        server.communicate()
        folder.cleanup()

    atexit.register(end)
    return Path(folder.name)


class WarmCommand(subprocess.Popen[bytes]):
    """A client that runs: when it has ended, its command has."""

    def kill(self) -> None:
        """Kill the command, and then the client."""
        self.send_signal(signal.SIGUSR2)


def _serve(address: str) -> NoReturn:
    from panprivacy import cli, kernels

    kernels.load_kernels((*kernels.ALWAYS, *kernels.SOME, *kernels.READERS))
    for name in ("panprivacy.cli.run", "scipy.optimize", "scipy.special"):  # not Polars: it has threads
        import_module(name)
    assert threading.active_count() == len(list(Path("/proc/self/task").iterdir())) == 1, "a fork needs one thread"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who answer
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(64)
    print("ready", flush=True)
    while True:
        connection, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _answer(connection, {"panprivacy": cli.main, "app": cli.app})
        connection.close()


def _answer(connection: socket.socket, mains: dict[str, Any]) -> NoReturn:
    """Run a command in a process of its own, hand signals on to it, and tell its exit status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, handles, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile("rb") as said:
        (program, *words), folder, environment = marshal.loads(said.read(int.from_bytes(said.read(4))))
    command = os.fork()
    if command == 0:
        connection.close()
        for number, handle in enumerate(handles):
            os.dup2(handle, number)
            os.close(handle)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
        sys.argv = ["panprivacy", *words]
        sys.orig_argv = [sys.executable, "-m", "panprivacy", *words]  # some start themselves anew
        _run(mains[Path(program).name])
    for handle in handles:
        os.close(handle)
    ended = os.pidfd_open(command)
    while ended not in select.select([connection.fileno(), ended], [], [])[0]:
        for number in connection.recv(64) or [signal.SIGKILL]:
            os.kill(command, signal.SIGKILL if number == signal.SIGUSR2 else number)
    _, status = os.waitpid(command, 0)
    with suppress(OSError):
        connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(2, signed=True))
    os._exit(0)


def _run(main: Any) -> NoReturn:
    status = 0
    try:
        main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


if __name__ == "__main__":
    _serve(sys.argv[1])
