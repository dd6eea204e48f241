"""All counters of a folder, opened together and closed together."""

from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict

from panprivacy.brokers.consumer import Source
from panprivacy.brokers.settings import consumer_of
from panprivacy.errors import CorruptState, PanPrivacyError
from panprivacy.ingest.batch import ProblemType, Refused
from panprivacy.periods import length_of
from panprivacy.serve.config import CounterSettings, Settings
from panprivacy.serve.counter import Counter
from panprivacy.serve.logs import log
from panprivacy.serve.memory import ReadingShare
from panprivacy.settings import InvalidSettings

_NO_HISTORY = (
    "service.folder: {folder} has no counters. If this is the first start, say --initialize, once. If not, the volume "
    "is lost or not mounted: new counters would have their whole budgets again, for the same people"
)


class ReadyState(BaseModel):
    """Whether a counter or a source does what it should, and why not."""

    model_config = ConfigDict(extra="forbid")

    state: Literal["ready", "failing", "damaged", "unreachable", "stopped"]
    reason: str | None

    @property
    def is_ready(self) -> bool:
        """Whether it does."""
        return self.state == "ready"


class SourceState(ReadyState):
    """Whether a source works, why not, and how many messages wait at its broker: 0, 1,000, 10,000 and so on."""

    lag: int | None


class Service:
    """The counters that a file describes; state files of others stay in the folder as they are.

    Use it in a `with` block: the end of it counts what waits, writes it, and gives the files back.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.counters: dict[str, Counter] = {}
        self.damaged: dict[str, str] = {}
        """Counters that are not served because a file of them is damaged, and why."""
        self.sources: dict[str, Source] = {}
        """By the names of their counters."""
        self._open = ExitStack()
        self._reading = ReadingShare(settings.limits.body)

    def __enter__(self) -> Self:
        folder = self.settings.folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_folder(folder)
        self.sources.update(self.settings.sources)
        try:
            for counter in self.open(self.settings.counters, initialize=self.settings.initialize):
                self.adopt(counter)
        except BaseException:
            self._open.close()
            raise
        for name in self.damaged:
            self.sources.pop(name, None)
            log("a file of it is damaged: the counter is not served", level="error", counter=name)
        for kept in sorted(folder.glob("*.pp")):
            if kept.stem not in self.counters:
                log("kept, and not served", counter=kept.stem)
        return self

    def open(self, counters: Iterable[CounterSettings], *, initialize: bool = False) -> list[Counter]:
        """Open these counters, except those already served: all, or none, and without damaged ones.

        While a service runs, a counter that is found damaged for the first time is refused, too.
        """
        service, broken, damaged = self.settings.service, list[str](), dict[str, str]()
        opened: list[Counter] = []
        with ExitStack() as undone:
            for settings in counters:
                if settings.name in self.counters:
                    continue
                try:
                    counter = Counter(
                        settings,
                        self.settings.folder,
                        self._reading,
                        initialize=initialize,
                        longest_stop=None if self.settings.accept_clock else length_of(service.longest_stop),
                        count_events=service.count_events,
                    )
                except InvalidSettings as error:
                    broken += error.problems
                except CorruptState as error:
                    damaged[settings.name] = str(error)
                except (PanPrivacyError, OSError, ValueError) as error:
                    broken.append(f"counters.{settings.name}: {error}")
                else:
                    undone.callback(counter.close)
                    opened.append(counter)
            if self.counters or not opened:
                broken += [f"counters.{name}: {why}" for name, why in damaged.items() if name not in self.damaged]
            if broken:
                raise InvalidSettings(broken)
            undone.pop_all()
        self.damaged |= damaged
        return opened

    def adopt(self, counter: Counter) -> None:
        """Serve a counter that `open` has opened."""
        name, settings = counter.name, counter.settings
        self.damaged.pop(name, None)
        self.counters[name] = counter
        self._open.callback(counter.close)
        counter.start()
        if settings.source is not None and not settings.table.retired:
            self.sources[name] = consumer_of(settings.source, name, settings.columns, partial(_log_source, name))
        if name in self.sources:
            self.sources[name].start(counter.take)
            self._open.callback(self.sources[name].close)  # before its counter, which is opened earlier

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def states(self) -> dict[str, dict[str, ReadyState]]:
        """Whether each counter and each source does what it should, by name, and why not."""
        counters = {name: ReadyState(state="damaged", reason=reason) for name, reason in self.damaged.items()}
        for name, counter in self.counters.items():
            trouble = counter.trouble
            counters[name] = ReadyState(state="ready" if trouble is None else "failing", reason=trouble)
        sources: dict[str, ReadyState] = {}
        for name, source in self.sources.items():
            trouble = source.trouble if source.stopped is None else source.stopped
            sources[name] = SourceState(
                state="ready" if trouble is None else "stopped" if source.stopped is not None else "unreachable",
                reason=trouble,
                lag=source.lag if trouble is None else None,
            )
        return {"counters": counters, "sources": sources}

    def is_alive(self) -> bool:
        """Whether the threads of all counters run."""
        return all(counter.worker.is_alive for counter in self.counters.values())

    def counter(self, name: str) -> Counter:
        """The counter of that name."""
        if name in self.damaged:
            raise Refused(ProblemType.damaged)
        if name not in self.counters:
            raise Refused(ProblemType.not_found)
        return self.counters[name]


def check_folder(folder: Path) -> None:
    """Refuse a folder that everybody may write to; warn if others may read it."""
    mode = folder.stat().st_mode if folder.is_dir() else 0
    if mode & 0o002:
        raise InvalidSettings([f"service.folder: everybody may write to {folder}: chmod 700 {folder}"])
    if mode & 0o077:
        log("others may look into the folder of states: chmod 700 it", level="warning")


def check_history(settings: Settings) -> None:
    """Refuse a folder without any counter, unless that is known: a volume that is lost, or not mounted, has none."""
    folder = settings.folder
    if not settings.initialize and not any(any(folder.glob(f"*.{kind}")) for kind in ("pp", "json", "releases.ndjson")):
        raise InvalidSettings([_NO_HISTORY.format(folder=folder)])


def _log_source(counter: str, word: str, cause: str) -> None:
    level = {"unreachable": "error", "stopped": "error", "skipped": "warning"}.get(word, "info")
    log(f"source {word}", level=level, counter=counter, cause=cause)
