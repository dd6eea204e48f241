"""The table of scenarios: each estimator, each container, each verb, followed by more batches that make bits old."""

from dataclasses import dataclass
from importlib.util import find_spec

from panprivacy import registry
from panprivacy.audit.memory.brokers import missing

BATCHES = ("tiny", "short", "medium", "long", "huge", "singly")
"""The steps that are batches."""

_LOADED = ("medium", "save", "load", "medium", "save", "load", "short", "save")
_FED = ("short", "long", "singly", "short", "medium", "short")
_THREADED = ("huge", "short", "huge", "medium", "short")


@dataclass(frozen=True)
class Scenario:
    """A kind of estimator, a container of ids, and steps that are done one after the other.

    ``tiny``, ``short``, ``medium``, ``long`` and ``huge`` are batches, ``singly`` is a few users one by one, each of
    users of its own; all else is a verb of `ImagedEstimator`. The allocators of a hardened process overwrite freed
    memory: only there can nothing be left of ids that are Python objects.
    """

    name: str
    kind: str = "Density"
    container: str = "NumPy int64"
    steps: tuple[str, ...] = _FED
    hardened: bool = False
    pipe: tuple[str, ...] = ()
    """The command and its options, where the scenario is one of the command line: events come through a pipe."""
    form: str = "CSV"
    """What the command reads: CSV, Parquet or Arrow."""
    remote: bool = False
    """Whether the command reads files from a web server. Every batch is a file."""
    ranged: bool = False
    """Whether that server is a store as S3, which answers with parts of a file."""
    service: str = ""
    """What bodies are, where the scenario is one of the service: CSV, NDJSON, Arrow or JSON."""
    encrypted: bool = False
    """Whether they come by TLS."""
    adjacent: bool = False
    """Whether it runs twice, with and without one user's rows, and names, lengths and times of files are compared; the
    steps are then what follows each batch."""
    refused: bool = False
    """Whether the service refuses much; the step ``refused`` is all requests of `refusals.REQUESTS`, in
    every way, and ``refused quickly`` is each once."""
    broker: str = ""
    """What the service reads, where it reads a broker: kafka, nats or redis. Some messages of a batch are bad."""

    @property
    def possible(self) -> bool:
        """Whether it can be run here."""
        return self.missing is None

    @property
    def missing(self) -> str | None:
        """What it needs that is not installed here; None if nothing is missing."""
        needed = {
            "pandas": "pandas",
            "pandas categorical": "pandas",
            "Arrow": "pyarrow",
            "Polars": "pyarrow",
            "Polars frame": "pyarrow",
            "Arrow text": "pyarrow",
        }
        modules = [needed[self.container]] if self.container in needed else []
        modules += ["uvicorn"] if self.service or self.broker else []
        modules += ["s3fs" if self.ranged else "aiohttp", "fsspec"] if self.remote else []
        modules += [_CLIENTS[self.broker]] if self.broker else []
        for module in modules:
            if find_spec(module) is None:
                return f"{module} is not installed"
        return missing(self.broker) if self.broker else None


_CLIENTS = {"kafka": "confluent_kafka", "nats": "nats", "redis": "redis"}
_SMALL = ("tiny", "short", "tiny", "medium", "short")
_TIMED_DAYS = ("tiny", "medium", "next_window", "short", "medium", "tiny", "medium", "tiny")
_COUNTED = ("short", "release", "medium", "release", "medium", "release", "short", "release", "short")
_LOOKED_AT = ("medium", "observe", "medium", "observe", "medium", "observe", "medium", "observe", "short")
_ENDED = ("medium", "next_window", "medium", "next_window", "medium", "next_window", "medium", "next_window", "short")
_RETURNED = ("medium", "close", "medium", "release", "medium", "release", "short", "release", "short")
_DESCRIBED = ("short", "medium", "release", "medium", "save", "load", "short", "save")
_PIPED = ("short", "medium", "release", "medium", "short")
_MESSAGES = ("short", "medium", "short")
_REFUSED = ("short", "refused", "reload", "medium", "short")
_DENSITY, _DISTINCT = ("density", "-", "-n", "USERS"), ("distinct", "-", "--ids", "text")
_FETCHED = ("short", "medium", "tiny", "medium", "short")
_BY = ("--by", "clinic", "--categories", "north,south,west")
_COUNTS = ("counts", "-", "-n", "USERS")
LIST = "list.csv"
"""The file of the list of users that a pipe is given."""
_NORMALIZED = ("density", "-", "--universe-file", LIST, "--normalize", "all", "--skip-outside")
STATE = "state.pp"
"""The file that a pipe keeps its state in."""
_KEPT = ("--state", STATE)
SHARDS = "shards/"
"""The folder that a pipe keeps its state in, if it does not keep it in a file."""
_IN_FOLDER = ("--state", SHARDS, "--shards", "3")
FIRST_DAY = "2026-01-05"
"""When the first period of a pipe starts whose events have times."""
_TIMED = ("--time", "at", "--start", FIRST_DAY, "--release-every", "1d", "--ahead", "1")
_INTEGERS = ("NumPy int32", "NumPy big-endian", "NumPy strided", "Arrow", "Polars", "range")
_OBJECTS = ("list", "iterator", "pandas")
_TEXTS = ("list of text", "NumPy text", "Polars text", "Arrow text", "iterator of text")

SCENARIOS = (
    Scenario("constructor", steps=("singly",)),
    Scenario("constructor, DistinctCount", "DistinctCount", steps=("singly",)),
    Scenario("constructor, Continual", "Continual", steps=("singly",)),
    Scenario("constructor, Counts", "Counts", steps=("singly",)),
    Scenario("batches"),
    Scenario("batches by threads", steps=_THREADED),
    Scenario("batches by threads, Users", "Users", steps=("long", "short", "long", "medium", "short")),
    Scenario("batches by threads, Counts", "Counts, categories", steps=_THREADED),
    *(Scenario(f"batches, {container}", container=container) for container in _INTEGERS),
    *(Scenario(f"batches, {container}", container=container, hardened=True) for container in _OBJECTS),
    Scenario("batches, Polars frame", container="Polars frame"),
    Scenario("batches with strangers", "Density, strangers", steps=_SMALL),
    Scenario("batches with strangers, Users", "Users, strangers", "Polars text", steps=_SMALL, hardened=True),
    Scenario("batches, pandas categorical", container="pandas categorical", steps=_SMALL),
    Scenario("batches, sampled", "sampled"),
    Scenario("batches, one shard", "shard"),
    Scenario("batches, Users", "Users"),
    Scenario("batches, groups", "Users, groups"),
    Scenario("batches, categories", "categories"),
    Scenario("batches, many categories", "many categories"),
    Scenario("batches, DistinctCount, categories", "DistinctCount, categories", hardened=True),
    Scenario("batches, Edges", "Edges", "NumPy pairs"),
    Scenario("batches, DistinctCount", "DistinctCount"),
    Scenario("batches, DistinctCount, list", "DistinctCount", "list", hardened=True),
    *(Scenario(f"batches, DistinctCount, {texts}", "DistinctCount, text", texts, hardened=True) for texts in _TEXTS),
    *(Scenario(f"batches, Users, {texts}", "Users, text", texts, hardened=True) for texts in _TEXTS),
    Scenario("batches, FixedLevelPPDS", "FixedLevelPPDS"),
    Scenario("batches, Counts", "Counts"),
    Scenario("batches, Counts, groups", "Counts, groups"),
    Scenario("batches, Counts, categories", "Counts, categories"),
    Scenario("batches, Counts, list", "Counts", "list", hardened=True),
    Scenario("release", steps=("short", "release", "long", "release", "medium", "release", "short")),
    Scenario(
        "release, DistinctCount", "DistinctCount", steps=("short", "release", "long", "release", "medium", "short")
    ),
    Scenario("release, delta", "delta", steps=("short", "release", "long", "release", "medium", "release", "short")),
    Scenario(
        "release, DistinctCount, delta",
        "DistinctCount, delta",
        steps=("short", "release", "long", "release", "medium", "short"),
    ),
    Scenario("release, Counts", "Counts", steps=("short", "release", "long", "release", "medium", "release", "short")),
    Scenario(
        "release, Counts, groups", "Counts, groups", steps=("short", "release", "long", "release", "medium", "short")
    ),
    Scenario("observe", "Continual", steps=("short", "observe", "long", "observe", "medium", "observe", "short")),
    Scenario("release, categories", "categories", steps=("short", "release", "long", "release", "medium", "short")),
    Scenario(
        "end of a day",
        "ActiveUsers",
        steps=("short", "medium", "release", "medium", "release", "short", "release", "short", "save"),
    ),
    Scenario("two periods", "Retention", steps=("short", "medium", "close", "medium", "release", "short", "save")),
    *(
        Scenario(f"counts of releases, {kind}", f"{kind}, large", steps=_COUNTED)
        for kind in ("Density", "delta", "Counts", "DistinctCount", "ActiveUsers", "folder, Density")
    ),
    Scenario("counts of releases, Retention", "Retention, large", steps=_RETURNED),
    Scenario("counts of releases, Windows", "Windows, large", steps=_ENDED),
    Scenario("counts of releases, Continual", "Continual, large", steps=_LOOKED_AT),
    Scenario("rerandomize", steps=("medium", "rerandomize", "short", "short")),
    Scenario("grow", steps=("medium", "grow", "medium", "grow", "short", "short")),
    Scenario("grow, Counts", "Counts", steps=("medium", "grow", "medium", "grow", "short", "short")),
    Scenario("save", steps=("medium", "save", "long", "save", "short", "save")),
    Scenario("move", steps=("medium", "move", "long", "move", "short", "move")),
    Scenario("move, Continual", "Continual", steps=("medium", "observe", "move", "long", "move", "short", "move")),
    Scenario("bound to a file", steps=("medium", "save", "load", "long", "release", "medium", "rerandomize", "short")),
    Scenario("save and load", steps=_LOADED),
    Scenario("save and load, delta", "delta", steps=("release", *_LOADED, "release", "short", "save")),
    Scenario("save and load, categories", "categories", steps=_LOADED),
    Scenario("save and load, DistinctCount", "DistinctCount", steps=_LOADED),
    Scenario("save and load, Counts", "Counts", steps=_LOADED),
    Scenario("save and load, Counts, categories", "Counts, categories", steps=_LOADED),
    Scenario("merge, Counts", "Counts, shards", steps=("short", "medium", "merge", "medium", "short")),
    Scenario("merge", "shards", steps=("short", "medium", "merge", "medium", "short")),
    Scenario("merge, overlapping", "overlapping", steps=("short", "medium", "merge", "medium", "short")),
    Scenario("window change", "Windows", steps=("short", "medium", "next_window", "medium", "next_window", "short")),
    *(
        Scenario(f"batches with times, {kind}", f"{kind}, times", steps=_TIMED_DAYS)
        for kind in ("Windows", "ActiveUsers")
    ),
    Scenario(
        "folder",
        "folder, Density",
        steps=("short", "long", "release", "medium", "rerandomize", "medium", "release", "short"),
    ),
    Scenario("folder, lost shard", "folder, Density", steps=("short", "medium", "lose_shard", "medium", "short")),
    Scenario("folder, Counts", "folder, Counts", steps=("short", "long", "release", "medium", "short")),
    Scenario("folder, taken", "folder, taken, Density", steps=("short", "long", "medium", "short")),
    Scenario("folder, taken, Counts", "folder, taken, Counts", steps=("short", "long", "medium", "short")),
    *(
        Scenario(f"packed slots, {kind}", f"combined, {kind}", steps=("short", "long", "release", "medium", "short"))
        for kind in ("Density", "Counts", "DistinctCount")
    ),
    Scenario("pipe", steps=_PIPED, pipe=_DENSITY),
    Scenario("pipe with state", steps=_PIPED, pipe=(*_DENSITY, *_KEPT)),
    Scenario("pipe with folder", steps=_PIPED, pipe=(*_DENSITY, *_IN_FOLDER)),
    Scenario("pipe with folder, Counts", "Counts", steps=_PIPED, pipe=(*_COUNTS, *_IN_FOLDER)),
    Scenario("pipe, categories", "categories", steps=_PIPED, pipe=(*_DENSITY, *_BY)),
    Scenario("pipe with state, Counts", "Counts", steps=_PIPED, pipe=(*_COUNTS, *_KEPT)),
    Scenario("pipe, DistinctCount", "DistinctCount, text", "list of text", steps=_PIPED, pipe=_DISTINCT),
    Scenario(
        "pipe with state, DistinctCount",
        "DistinctCount, text",
        "list of text",
        steps=_PIPED,
        pipe=(*_DISTINCT, *_KEPT),
    ),
    Scenario("pipe with strangers", steps=_SMALL, pipe=(*_DENSITY, "--skip-outside")),
    Scenario("pipe with a list", "Users, text", "list of text", steps=_SMALL, pipe=_NORMALIZED),
    Scenario("pipe with times", steps=_PIPED, pipe=(*_DENSITY, *_KEPT, *_TIMED)),
    Scenario(
        "pipe with times, DistinctCount",
        "DistinctCount, text",
        "list of text",
        steps=_PIPED,
        pipe=(*_DISTINCT, *_TIMED),
    ),
    Scenario(
        "pipe, DistinctCount, Arrow", "DistinctCount, text", "list of text", steps=_PIPED, pipe=_DISTINCT, form="Arrow"
    ),
    *(
        Scenario(f"files behind URLs, {form}", steps=_FETCHED, pipe=_DENSITY, form=form, remote=True)
        for form in ("CSV", "Parquet")
    ),
    *(
        Scenario(
            f"files {'in a store' if ranged else 'behind URLs'}, DistinctCount, {form}",
            "DistinctCount, text",
            "list of text",
            steps=_FETCHED,
            pipe=_DISTINCT,
            form=form,
            remote=True,
            ranged=ranged,
        )
        for ranged, form in ((False, "CSV"), (False, "Parquet"), (False, "Arrow"), (True, "Parquet"), (True, "Arrow"))
    ),
    *(Scenario(f"service, {form}", steps=_PIPED, service=form) for form in ("CSV", "NDJSON", "Arrow", "slots")),
    *(
        Scenario(f"service, DistinctCount, {form}", "DistinctCount, text", "list of text", steps=_PIPED, service=form)
        for form in ("CSV", "NDJSON", "Arrow")
    ),
    Scenario("service, DistinctCount, JSON", "DistinctCount, text", "list of text", steps=_PIPED, service="JSON"),
    Scenario(
        "service, DistinctCount, TLS", "DistinctCount, text", "list of text", _PIPED, service="CSV", encrypted=True
    ),
    Scenario("service, DistinctCount, integers", "DistinctCount", steps=_PIPED, service="NDJSON"),
    *(
        Scenario(f"files, {kind}", kind, steps=("save",), adjacent=True)
        for kind in ("Density", "Counts", "DistinctCount")
    ),
    Scenario("files, moved", steps=("move",), adjacent=True),
    *(Scenario(f"files, {kind}", kind, steps=(), adjacent=True) for kind in ("folder, Density", "folder, Counts")),
    Scenario("files, pipe", pipe=(*_DENSITY, *_KEPT), adjacent=True),
    Scenario("files, pipe with folder", pipe=(*_DENSITY, *_IN_FOLDER), adjacent=True),
    Scenario("files, service", "Counts", service="JSON", adjacent=True),
    Scenario("service, refused", "DistinctCount, text", "list of text", _REFUSED, service="NDJSON", refused=True),
    Scenario(
        "service, refused, TLS",
        "DistinctCount, text",
        "list of text",
        _REFUSED,
        service="NDJSON",
        encrypted=True,
        refused=True,
    ),
    *(
        Scenario(f"bad messages, {broker}", "DistinctCount, text", "list of text", _MESSAGES, broker=broker.lower())
        for broker in ("Kafka", "NATS", "Redis")
    ),
)


def scenarios() -> list[Scenario]:
    """All of these, and one for each registered estimator that none of them is about."""
    about = {scenario.kind.split(",")[0] for scenario in SCENARIOS}
    names = [kind.__name__ for kind in registry.estimators() if kind.__name__ not in about]
    return [*SCENARIOS, *(Scenario(f"releases and saves, {name}", name, steps=_DESCRIBED) for name in names)]


def named(name: str) -> Scenario:
    """The scenario of that name."""
    for scenario in scenarios():
        if scenario.name == name:
            return scenario
    names = "; ".join(scenario.name for scenario in scenarios())
    raise ValueError(f"there is no scenario {name!r}; there are: {names}")
