"""Reloading the file on SIGHUP: tokens, certificates, titles and new counters, all of them or none."""

import asyncio
import ssl
from collections.abc import Callable, Iterator

from panprivacy.errors import PanPrivacyError
from panprivacy.serve.config import CounterSettings, Settings
from panprivacy.serve.counter import Counter
from panprivacy.serve.http import AppContext
from panprivacy.serve.logs import log
from panprivacy.settings import InvalidSettings


class Reloader:
    """Takes over what a file says now, where a running service can; otherwise it goes on as before.

    `read` reads and checks the file. `certificates` is what encrypts new connections; None without TLS.
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
            except InvalidSettings as error:
                self._refuse("; ".join(error.problems))
            except (PanPrivacyError, OSError, ValueError) as error:
                self._refuse(str(error))
            else:
                self._take_over(settings, opened)
                log("reloaded", counters=[counter.name for counter in opened])
                return True
            return False

    @staticmethod
    def _refuse(cause: str) -> None:
        log("the file is not reloaded: all goes on as before", level="error", cause=cause)

    def _prepare(self) -> tuple[Settings, list[Counter]]:
        """What the file says, and its new counters: opened, and not served yet."""
        service, settings = self._context.service, self._read()
        problems = list(_unreloadable(service.settings, settings))
        if problems:
            raise InvalidSettings(problems)
        opened = service.open_new(settings.counters)
        try:
            if self._certificates is not None and settings.service.tls is not None:
                self._certificates.load_cert_chain(settings.service.tls.certificate, settings.service.tls.key)
        except OSError:
            for counter in opened:
                counter.discard()
            raise
        return settings, opened

    def _take_over(self, settings: Settings, opened: list[Counter]) -> None:
        service = self._context.service
        self._context.tokens = settings.tokens
        for each in settings.counters:
            if each.name in service.counters:
                service.counters[each.name].settings = each
        for counter in opened:
            self._context.adopt(counter)
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


def _untitled(settings: CounterSettings) -> tuple[object, ...]:
    table = settings.table.model_copy(update={"title": ""})
    return table, settings.universe, settings.columns, settings.plan, settings.source
