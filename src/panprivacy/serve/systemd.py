"""What systemd is told (`sd_notify`): the service listens, is alive, or stops. Elsewhere nothing is told."""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress


def notify(said: str) -> None:
    """Tell systemd something, such as `READY=1`."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.connect("\0" + address[1:] if address.startswith("@") else address)
            told.sendall(said.encode())


async def keep_alive(is_alive: Callable[[], bool]) -> None:
    """Tell the watchdog twice in each of its intervals that the service is alive, as long as it is."""
    interval = os.environ.get("WATCHDOG_USEC", "")
    if not interval.isdecimal() or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return
    while is_alive():
        notify("WATCHDOG=1")
        await asyncio.sleep(int(interval) / 2e6)
