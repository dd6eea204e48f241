"""The memory of another process, as somebody who may read it finds it."""

import re
import subprocess
import time
from array import array
from fcntl import ioctl
from pathlib import Path
from termios import FIONREAD


def image_of(pid: int) -> list[bytes]:
    """All writable memory of a process, one mapping after the other."""
    found = []
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            place = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
            if place:
                first, end = (int(number, 16) for number in place.groups())
                memory.seek(first)
                try:
                    found.append(memory.read(end - first))
                except OSError:  # a device's
                    continue
    return found


def until_idle(process: subprocess.Popen[bytes]) -> None:
    """Wait until a process has read all of its pipe, and all of its threads have slept for a second."""
    assert process.stdin is not None
    idle = 0
    while idle < 20:
        unread = array("i", [0])
        ioctl(process.stdin, FIONREAD, unread)
        idle = 0 if unread[0] or not _sleeps(process.pid) else idle + 1
        assert process.poll() is None, "the process ended"
        time.sleep(0.05)


def _sleeps(pid: int) -> bool:
    """Whether no thread of a process runs, waits for a core, or waits for a disk."""
    states = [path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"S"}
