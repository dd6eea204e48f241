"""The process: listens, serves, reloads its file on SIGHUP, and on SIGTERM finishes requests that are under way."""

import asyncio
import gc
import logging
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from types import FrameType
from typing import Any

import uvicorn

from panprivacy.brokers.settings import broker_of
from panprivacy.errors import CorruptState, PanPrivacyError
from panprivacy.memory.hardening import Hardening
from panprivacy.periods import length_of
from panprivacy.serve.config import CounterSettings, ServiceSettings, Settings
from panprivacy.serve.counter import Counter, check_files
from panprivacy.serve.http import AppContext, make_app
from panprivacy.serve.http.connections import Listener, protocol_for
from panprivacy.serve.logs import libraries_unquoted, log
from panprivacy.serve.memory import chosen_limit
from panprivacy.serve.records import PinnedSettings
from panprivacy.serve.service import Service, check_folder, check_history
from panprivacy.settings import InvalidSettings
from panprivacy.state import StateFile
from panprivacy.state.disk import StateInUse

_TURN = 0.0005  # seconds for which a counter may keep the event loop waiting, which gives its turn up at every write
_BACKLOG = 2048  # connections that may wait to be taken
_UNSENT = 2**17  # bytes of an answer that the system holds for a reader that takes none; of itself it holds megabytes
_OTHER_FILES = 100  # files that are open besides connections
_FILES_OF_COUNTER = 8
_CROWD = 16  # connections that are open where `limits.readers` is small
_GOODBYE = 0.5  # seconds between looks at open connections
_ORDERLY = ("SIGHUP", "SIGTERM", "SIGINT", "SIGQUIT", "SIGPWR")
_FAULTS = ("SIGABRT", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL")  # and what a watchdog sends
_OTHERS_HANDLE = ("SIGKILL", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGCONT", "SIGCHLD", "SIGWINCH", "SIGURG")
_PATIENCE = 30  # seconds for requests that are under way when the service is told to stop


def run(
    settings: Settings,
    hardening: Hardening | None,
    ready: Callable[[str], None],
    reread: Callable[[], Settings] | None = None,
) -> None:
    """Serve until a signal ends it; `ready` is called with the address of the page.

    With `reread`, which reads the file again, SIGHUP reloads it.
    """
    check_history(settings)
    check(settings)
    with libraries_unquoted():
        os.environ["RUST_BACKTRACE"] = "0"  # a backtrace takes Polars long
        sys.setswitchinterval(_TURN)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)  # uvicorn handles them first, and raises them again when it is done
        for number in _signals("SIGQUIT", "SIGPWR"):
            signal.signal(number, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        for meaningless in signal.valid_signals() - _signals(*_ORDERLY, *_FAULTS, *_OTHERS_HANDLE):
            signal.signal(meaningless, signal.SIG_IGN)  # they mean nothing here, and would end the process at once
        if reread is not None:
            signal.signal(signal.SIGHUP, lambda *_: None)  # until the event loop handles it
        log("starting", counters=[counter.name for counter in settings.counters])
        for measure in hardening.missing if hardening is not None else ():
            log("a measure is not in force", level="warning", measure=measure.name, note=measure.note)
        load_readers()
        most = _connections_for(settings)
        with Listener(_listening(settings.service), most) as opened, Service(settings) as service:
            context = AppContext(service, hardening, chosen_limit(settings.limits))
            _Server(context, ready, reread).run([opened])
            log("stopping")
        log("stopped")


def _signals(*names: str) -> set[signal.Signals]:
    """Those that this system has."""
    return {each for each in signal.Signals if each.name in names}


def load_readers() -> None:
    """Load what readers of bodies import late, and compile it on a first start: before the service listens."""
    for name in ("polars", "panprivacy.ingest.csv_kernels"):
        import_module(name)


def check_all(settings: Settings) -> None:
    """Refuse what would keep the service from starting, states and sources that cannot be read included."""
    check_history(settings)
    check_folder(settings.folder)
    chosen_limit(settings.limits)
    problems = _unwritable(settings)
    if not _is_running(settings):
        try:
            _listening(settings.service).close()
        except InvalidSettings as error:
            problems += error.problems
    for counter in settings.counters:
        try:
            check_files(counter, settings.folder, length_of(settings.service.longest_stop))
        except InvalidSettings as error:
            problems += error.problems
        except (PanPrivacyError, OSError, ValueError) as error:
            problems.append(f"counters.{counter.name}: {error}")
    problems += _unreadable(settings)
    if problems:
        raise InvalidSettings(problems)


def _unreadable(settings: Settings) -> list[str]:
    """Problems with brokers: each source is asked whether it is there, and nothing is read of it."""

    def problems_of(counter: CounterSettings) -> list[str]:
        if counter.source is not None and not counter.table.retired:
            try:
                broker_of(counter.source, counter.name).check()
            except PanPrivacyError as error:
                return [f"counters.{counter.name}.source: {error}"]
        return []

    with ThreadPoolExecutor(max(len(settings.counters), 1)) as threads:
        return [each for found in threads.map(problems_of, settings.counters) for each in found]


def _unwritable(settings: Settings) -> list[str]:
    """Problems with the rights to the folder and to files in it."""
    folder = settings.folder
    place = next(each for each in (folder, *folder.resolve().parents) if each.exists())
    if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        return [f"service.folder: this user may not write to {place}"]
    names = [f"{each.name}.{kind}" for each in settings.counters for kind in ("pp", "json", "releases.ndjson")]
    files = [folder / name for name in names if (folder / name).exists()]
    wrong = [path for path in files if not os.access(path, os.R_OK | os.W_OK)]
    return [f"counters.{path.name.partition('.')[0]}: this user may not read and write {path}" for path in wrong]


def _is_running(settings: Settings) -> bool:
    """Whether a process has locked a state of these: then the port may be its own."""
    for state in (StateFile(settings.folder / f"{each.name}.pp") for each in settings.counters):
        try:
            if state.exists:
                with state.locked():
                    pass
        except StateInUse:
            return True
        except PanPrivacyError:
            pass  # which `check_files` tells
    return False


def check(settings: Settings) -> None:
    """Refuse settings that would change what running counters promise, start nothing."""
    problems: list[str] = []
    for counter in settings.counters:
        state = settings.folder / f"{counter.name}.pp"
        if settings.initialize and not state.exists():
            continue
        try:
            PinnedSettings.of(state.with_suffix(".json")).check(state, counter.pinned)
        except CorruptState:
            pass  # the others are served without this counter
        except InvalidSettings as error:
            problems += error.problems
    if problems:
        raise InvalidSettings(problems)


def _listening(settings: ServiceSettings) -> socket.socket:
    """The listening socket, opened before the counters are."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        opened = socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        where = f"service.host and service.port: {settings.host}, port {settings.port}"
        raise InvalidSettings([f"{where}: {(error.strerror or str(error)).lower()}"]) from None
    with suppress(OSError, AttributeError):  # of Linux and macOS; connections have it from here
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)
    return opened


def _connections_for(settings: Settings) -> int:
    """How many connections may be open; the system is asked for as many files as they need."""
    import resource

    wanted = 2 * settings.limits.readers + _CROWD  # those beyond the limit are told why they are refused
    reserve = _OTHER_FILES + _FILES_OF_COUNTER * len(settings.counters)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted + reserve:
        most = wanted + reserve if hard == resource.RLIM_INFINITY else min(wanted + reserve, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        if most < wanted + reserve:
            fit = max(most - reserve, 1)
            log("fewer connections fit than limits.readers: raise the limit of open files", level="warning", fit=fit)
            return fit
    return wanted


def _configured(context: AppContext) -> uvicorn.Config:
    tls = context.settings.tls
    return uvicorn.Config(
        make_app(context),
        loop="asyncio",  # frees each piece that it has read; uvloop keeps a buffer that cannot be wiped
        http=protocol_for(context.limits, context.memory),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_PATIENCE,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
    )


class _Server(uvicorn.Server):
    def __init__(
        self, context: AppContext, ready: Callable[[str], None], reread: Callable[[], Settings] | None
    ) -> None:
        super().__init__(_configured(context))
        self._context, self._ready, self._reread = context, ready, reread
        self._reloading: set[asyncio.Task[bool]] = set()
        self._watching: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop: Any = asyncio.get_running_loop()
        if self.config.is_ssl:  # otherwise asyncio gives peers a minute to agree on TLS
            loop.create_server = partial(loop.create_server, ssl_handshake_timeout=self._context.limits.seconds)
        try:
            await super().startup(sockets)
        finally:
            vars(loop).pop("create_server", None)
        if self.started and sockets:
            port = sockets[0].getsockname()[1]
            log("started")
            gc.freeze()  # what is loaded by now stays: looking through it for cycles stops all threads for 0.2 s
            notify_systemd("READY=1")
            self._watching = asyncio.create_task(keep_alive(self._context.service.is_alive))
            if self._reread is not None:
                reloader = Reloader(self._context, self._reread, self.config.ssl)
                loop.add_signal_handler(signal.SIGHUP, self._reload, reloader)
            self._ready(self._context.settings.address.replace(":0/", f":{port}/"))

    def _reload(self, reloader: "Reloader") -> None:
        task = asyncio.get_running_loop().create_task(reloader.reload())
        self._reloading.add(task)
        task.add_done_callback(self._reloading.discard)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self.force_exit:  # a second Ctrl-C asks to cut answers off: that is no error
            logging.getLogger("uvicorn.error").disabled = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        notify_systemd("STOPPING=1")
        self._context.notifier.close()
        if self._reread is not None:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            await asyncio.gather(*self._reloading, return_exceptions=True)
        dropping = asyncio.ensure_future(self._drop_connections())
        await super().shutdown(sockets)
        dropping.cancel()

    async def _drop_connections(self) -> None:
        """Forget connections when no request is under way: TLS would wait for its peers to close them."""
        await asyncio.sleep(_GOODBYE)
        while self.server_state.tasks:
            await asyncio.sleep(_GOODBYE)
        self.server_state.connections.clear()


def notify_systemd(said: str) -> None:
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
        notify_systemd("WATCHDOG=1")
        await asyncio.sleep(int(interval) / 2e6)


class Reloader:
    """Takes over what a file says now, where a running service can; otherwise it goes on as before.

    `read` reads the file. `certificates` is what encrypts new connections; None without TLS.
    """

    def __init__(
        self, context: AppContext, read: Callable[[], Settings], certificates: ssl.SSLContext | None = None
    ) -> None:
        self._context, self._read, self._certificates = context, read, certificates
        self._one_at_a_time = asyncio.Lock()

    async def reload(self) -> bool:
        """Take the file over, or log in one line why not; returns whether it was taken over."""
        async with self._one_at_a_time:
            try:
                settings, opened = await asyncio.to_thread(self._prepare)
            except (PanPrivacyError, OSError, ValueError) as error:
                cause = "; ".join(str(error).splitlines())
                log("the file is not reloaded: all goes on as before", level="error", cause=cause)
                return False
            self._take_over(settings, opened)
            log("reloaded", counters=[counter.name for counter in opened])
            return True

    def _prepare(self) -> tuple[Settings, list[Counter]]:
        """What the file says, and its new counters: opened, and not served yet."""
        service, settings = self._context.service, self._read()
        check(settings)
        problems = list(_unreloadable(service.settings, settings))
        if problems:
            raise InvalidSettings(problems)
        opened = service.open(settings.counters)
        try:
            if self._certificates is not None and settings.service.tls is not None:
                self._certificates.load_cert_chain(settings.service.tls.certificate, settings.service.tls.key)
        except OSError:
            for counter in opened:
                counter.close()
            raise
        return settings, opened

    def _take_over(self, settings: Settings, opened: list[Counter]) -> None:
        service = self._context.service
        if self._context.tokens != settings.tokens:
            self._context.tokens = settings.tokens
            self._context.notifier.dismiss()
        for each in settings.counters:
            if each.name in service.counters:
                service.counters[each.name].settings = each
        for counter in opened:
            self._context.notifier.add(counter)
            service.adopt(counter)
        service.settings = settings


def _unreloadable(old: Settings, new: Settings) -> Iterator[str]:
    """Changes that need a restart."""
    restart = "changes of it need a restart"
    tables = [each.service.model_copy(update={"tls": each.service.tls is not None}) for each in (old, new)]
    if tables[0] != tables[1]:
        yield f"service: {restart}, except for the files of tls"
    if old.limits != new.limits:
        yield f"limits: {restart}"
    known = {each.name: each for each in new.counters}
    for each in old.counters:
        if each.name not in known:
            yield f"counters.{each.name}: leaving a counter out needs a restart"
        elif _untitled(each) != _untitled(known[each.name]):
            yield f"counters.{each.name}: {restart}, except for its title"


def _untitled(settings: CounterSettings) -> CounterSettings:
    """Without what may change, and without its users, whom the table names."""
    return replace(settings, table=settings.table.model_copy(update={"title": ""}), universe=None)
