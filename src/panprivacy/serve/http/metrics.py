"""Metrics for Prometheus: versions, budgets, releases and readers, which no body changes.

How many events come, and when, is nothing that the promise hides, but nothing to spread either: where one person's day
is one event, a graph of them is a diary. How long requests take and how many wait tells of single bodies, too.
`count_events = true` adds all of it; without it, none of it is even measured.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

from panprivacy import __version__
from panprivacy.serve.http.desk import Desk

TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SHARES = (0.5, 0.99)


class Metrics:
    """Collects what is measured when somebody asks."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._rows: Tally[str] = Tally()
        self._batches: Tally[str] = Tally()
        self._registry = CollectorRegistry()
        self._registry.register(self)
        if desk.settings.count_events:
            for counter in desk.service.counters.values():
                counter.counted = self._counting(counter.name)

    def text(self) -> bytes:
        """All of them as Prometheus reads them."""
        return generate_latest(self._registry)

    def _counting(self, name: str) -> Any:
        def counted(rows: int) -> None:
            self._rows[name] += rows
            self._batches[name] += 1

        return counted

    def describe(self) -> list[Any]:
        """Nothing, as long as nobody asks."""
        return []

    def collect(self) -> Iterator[Any]:
        """What Prometheus asks a collector for."""
        yield InfoMetricFamily("panprivacy_build", "Version of the service.", value={"version": __version__})
        yield self._gauge("start_time_seconds", "When the service was started.", self._desk.started)
        yield self._gauge("stream_readers", "Readers of event streams.", self._desk.board.readers)
        yield from self._by_counter()
        if self._desk.settings.count_events:
            yield self._gauge("waiting_bytes", "Bytes of bodies that are not counted yet.", self._desk.room.taken)
            yield self._queues()
            yield self._lately()
            yield from self._events()

    @staticmethod
    def _gauge(name: str, meaning: str, value: float) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"panprivacy_{name}", meaning, value=value)

    def _by_counter(self) -> Iterator[GaugeMetricFamily]:
        standings = {name: counter.standing for name, counter in self._desk.service.counters.items()}
        described: dict[str, tuple[str, Callable[[dict[str, Any]], float | None]]] = {
            "epsilon": ("Promised epsilon.", lambda one: one["budget"]["epsilon"]),
            "epsilon_spent": ("Epsilon that is spent.", lambda one: one["budget"]["spent"]),
            "releases_left": ("Planned releases that are left.", lambda one: one["budget"]["releases_left"]),
            "releases": ("Releases that are published.", lambda one: one["last"]["id"] if one["last"] else 0),
        }
        for name, (meaning, value) in described.items():
            family = GaugeMetricFamily(f"panprivacy_{name}", meaning, labels=["counter"])
            for counter, standing in standings.items():
                if (found := value(standing)) is not None:
                    family.add_metric([counter], found)
            yield family

    def _queues(self) -> GaugeMetricFamily:
        queue = GaugeMetricFamily("panprivacy_queue", "Requests that wait to be counted.", labels=["counter"])
        for each in self._desk.service.counters.values():
            queue.add_metric([each.name], each.queue)
        return queue

    def _lately(self) -> GaugeMetricFamily:
        lately = GaugeMetricFamily(
            "panprivacy_duration_seconds", "Quantiles of the last requests of a route.", labels=["route", "quantile"]
        )
        for (route, share), seconds in self._desk.durations.quantiles(*_SHARES).items():
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
