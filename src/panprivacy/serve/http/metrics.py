"""Metrics for Prometheus: versions, budgets, releases, readers, what is ready, and how large the process is.

No body changes them. Memory and open files are looked at once a minute, and rounded up to as much as a body may have;
refusals of senders in the last hour, and messages that wait at a broker, are told in powers of ten.

Differential privacy does not hide how many events come, and when. But where one person's day is one event, a graph of
them is a diary, and durations and queues tell of single bodies, too. `count_events = true` adds all of these; without
it, none of them is even measured.
"""

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

from panprivacy import __version__
from panprivacy.serve.counter import Counter
from panprivacy.serve.http.context import AppContext
from panprivacy.serve.memory import resident

TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SHARES = (0.5, 0.99)
_MINUTE = 60.0
_MEMORY = 64 * 2**20  # bytes to which memory is rounded up: as many as a body has by default
_FILES = 64
_LAG = "Messages that wait at the broker of a counter, looked at once a minute: 0, or 1000, 10000 and so on."
_NEXT = "When the clock ends the open period."
_REFUSED = "Refusals of senders in the last full hour: 0, or 100, 1000 and so on."


class Metrics:
    """Collects the metrics of a request for them."""

    def __init__(self, context: AppContext) -> None:
        self._context = context
        self._rows: Tally[str] = Tally()
        self._batches: Tally[str] = Tally()
        self._looked_at: float | None = None
        self._size: dict[str, tuple[str, float]] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)
        if context.settings.count_events:
            context.measure = self._measure
            for counter in context.service.counters.values():
                self._measure(counter)

    def text(self) -> bytes:
        """All metrics, as Prometheus reads them."""
        return generate_latest(self._registry)

    def _measure(self, counter: Counter) -> None:
        def counted(rows: int) -> None:
            self._rows[counter.name] += rows
            self._batches[counter.name] += 1

        counter.counted = counted

    def describe(self) -> list[Any]:
        """No names in advance, as Prometheus allows."""
        return []

    def collect(self) -> Iterator[Any]:
        """All metrics, as Prometheus asks a collector."""
        yield InfoMetricFamily("panprivacy_build", "Version of the service.", value={"version": __version__})
        yield self._gauge("start_time_seconds", "When the service was started.", self._context.started)
        yield self._gauge("stream_readers", "Readers of event streams.", self._context.notifier.readers)
        yield from self._by_counter()
        yield from self._ready()
        yield self._labelled("source_lag_messages", _LAG, "counter", self._lags())
        yield self._labelled("next_release_time_seconds", _NEXT, "counter", self._next_releases())
        yield self._labelled("refused_last_hour", _REFUSED, "status", self._context.answers.last_hour().items())
        for name, (meaning, value) in self._process().items():
            yield self._gauge(name, meaning, value)
        if self._context.settings.count_events:
            yield self._gauge("waiting_bytes", "Bytes of bodies that are not counted yet.", self._context.quota.taken)
            waiting = [(each.name, each.queue) for each in self._context.service.counters.values()]
            yield self._labelled("queue", "Requests that wait to be counted.", "counter", waiting)
            yield self._lately()
            yield self._answers()
            yield from self._events()

    @staticmethod
    def _gauge(name: str, meaning: str, value: float) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"panprivacy_{name}", meaning, value=value)

    @staticmethod
    def _labelled(
        name: str, meaning: str, label: str, values: Iterable[tuple[object, float | None]]
    ) -> GaugeMetricFamily:
        """A gauge with one value for each label; None is left out."""
        family = GaugeMetricFamily(f"panprivacy_{name}", meaning, labels=[label])
        for one, value in values:
            if value is not None:
                family.add_metric([str(one)], value)
        return family

    def _by_counter(self) -> Iterator[GaugeMetricFamily]:
        standings = {name: counter.status for name, counter in self._context.service.counters.items()}
        described: dict[str, tuple[str, Callable[[dict[str, Any]], float | None]]] = {
            "epsilon": ("Promised epsilon.", lambda one: one["budget"]["epsilon"]),
            "epsilon_spent": ("Epsilon that is spent.", lambda one: one["budget"]["spent"]),
            "releases_left": ("Planned releases that are left.", lambda one: one["budget"]["releases_left"]),
            "releases": ("Releases that are published.", lambda one: one["last"]["id"] if one["last"] else 0),
        }
        for name, (meaning, value) in described.items():
            values = [(counter, value(status)) for counter, status in standings.items()]
            yield self._labelled(name, meaning, "counter", values)

    def _ready(self) -> Iterator[GaugeMetricFamily]:
        for kind, states in self._context.service.states.items():
            one = kind.removesuffix("s")
            meaning = f"Whether the {one} does what it should; /ready says why not."
            values = [(name, float(state.is_ready)) for name, state in states.items()]
            yield self._labelled(f"{one}_ready", meaning, "counter", values)

    def _lags(self) -> Iterator[tuple[str, float | None]]:
        for name, source in self._context.service.sources.items():
            yield name, source.lag

    def _next_releases(self) -> Iterator[tuple[str, float]]:
        for name, counter in self._context.service.counters.items():
            status = counter.status
            if status["next"] is not None and status["schedule"]["by"] == "clock":
                yield name, datetime.fromisoformat(status["next"]).timestamp()

    def _answers(self) -> CounterMetricFamily:
        family = CounterMetricFamily("panprivacy_responses", "Answers by status.", labels=["status"])
        for status, many in sorted(self._context.answers.totals.items()):
            family.add_metric([str(status)], many)
        return family

    def _process(self) -> dict[str, tuple[str, float]]:
        """The size of the process, looked at once a minute."""
        import resource

        now = time.monotonic()
        if self._looked_at is None or now - self._looked_at > _MINUTE:
            self._looked_at, files = now, Path("/proc/self/fd")
            opened = sum(1 for _ in files.iterdir()) if files.is_dir() else 0
            memory = -(-resident() // _MEMORY) * _MEMORY
            self._size = {
                "memory_bytes": (f"Memory of the process, rounded up to {_MEMORY >> 20} MiB.", memory),
                "open_files": (f"Open files and connections, rounded up to {_FILES}.", -(-opened // _FILES) * _FILES),
                "open_files_limit": ("How many files may be open.", resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
            }
        most = self._context.memory.most
        limit = {} if most is None else {"memory_limit_bytes": ("limits.memory.", float(most))}
        return self._size | limit

    def _lately(self) -> GaugeMetricFamily:
        lately = GaugeMetricFamily(
            "panprivacy_duration_seconds", "Quantiles of the last requests of a route.", labels=["route", "quantile"]
        )
        for (route, share), seconds in self._context.durations.quantiles(*_SHARES).items():
            lately.add_metric([route, str(share)], seconds)
        return lately

    def _events(self) -> Iterator[CounterMetricFamily]:
        for name, tally in (("rows", self._rows), ("batches", self._batches)):
            family = CounterMetricFamily(
                f"panprivacy_{name}", f"Number of {name} that were counted.", labels=["counter"]
            )
            for counter, number in tally.items():
                family.add_metric([counter], number)
            yield family
