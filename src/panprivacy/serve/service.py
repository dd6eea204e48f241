"""All counters of a folder, opened together and closed together."""

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from panprivacy.errors import PanPrivacyError
from panprivacy.serve.config import BadConfig, Settings
from panprivacy.serve.counter import Counter
from panprivacy.serve.logs import log
from panprivacy.serve.promise import Broken
from panprivacy.serve.refusals import Refused, Why
from panprivacy.serve.sources import Source, source_of

_OWNER_ONLY = 0o700


class Service:
    """The counters that a file describes; state files of others stay in the folder as they are.

    Use it in a `with` block: the end of it counts what waits, writes it, and gives the files back.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.counters: dict[str, Counter] = {}
        self.sources: dict[str, Source] = {}
        """By the names of their counters."""
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._make_sources()
        folder = self.settings.service.folder
        folder.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
        try:
            self._open_counters(folder)
        except BaseException:
            self._start()  # what is open is closed by its own thread
            self._open.close()
            raise
        self._start()
        for name, source in self.sources.items():
            source.start(self.counters[name].take)
            self._open.callback(source.close)  # before its counter, which is opened earlier
        for kept in sorted(folder.glob("*.pp")):
            if kept.stem not in self.counters:
                log("kept, and not served", counter=kept.stem)
        return self

    def _make_sources(self) -> None:
        for settings in self.settings.counters:
            source = None if settings.retired else source_of(settings)
            if source is not None:
                self.sources[settings.name] = source

    def _open_counters(self, folder: Path) -> None:
        broken: list[str] = []
        for settings in self.settings.counters:
            try:
                counter = Counter(settings, folder)
            except Broken as error:
                broken += str(error).splitlines()
                continue
            except (PanPrivacyError, OSError, ValueError) as error:
                broken.append(f"counters.{settings.name}: {error}")
                continue
            self._open.callback(counter.close)
            self.counters[settings.name] = counter
        if broken:
            raise BadConfig(broken)

    def _start(self) -> None:
        for counter in self.counters.values():
            counter.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.close()

    def counter(self, name: str) -> Counter:
        """The counter of that name."""
        if name not in self.counters:
            raise Refused(Why.not_found)
        return self.counters[name]
