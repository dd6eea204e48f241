"""The table of scenarios: each estimator, each container, each verb, followed by more batches that make bits old."""

from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

from panprivacy import registry
from panprivacy.audit.memory.brokers import KINDS

BATCHES = ("tiny", "short", "medium", "long", "huge", "singly")  # the steps that are batches
URLS, STORE, HTTP = "URLs", "store", "HTTP"
_MODULES = {
    "pandas": ("pandas",),
    "pandas categorical": ("pandas",),
    "Arrow": ("pyarrow",),
    "Arrow text": ("pyarrow",),
    "Polars": ("pyarrow",),
    "Polars frame": ("pyarrow",),
    URLS: ("aiohttp", "fsspec"),
    STORE: ("s3fs", "fsspec"),
    HTTP: ("uvicorn",),
    "kafka": ("uvicorn", "confluent_kafka"),
    "nats": ("uvicorn", "nats"),
    "redis": ("uvicorn", "redis"),
}
"""What a container, or a way to feed a process, needs that may not be installed."""
_FED = ("short", "long", "singly", "short", "medium", "short")


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
    fed_by: str = "calls"
    """How the process gets its events: by calls in a program, through a pipe, as files behind URLs or in a store as S3
    (which answers with parts of a file), by HTTP, or from a broker: kafka, nats or redis, with some bad messages."""
    command: tuple[str, ...] = ()
    """The command and its options, where the process is one of the command line."""
    form: str = "CSV"
    """What a command or a service reads: CSV, NDJSON, Parquet, Arrow, JSON or packed slots."""
    encrypted: bool = False
    """Whether a service is asked by TLS."""
    refused: bool = False
    """Whether the service refuses much; the step ``refused`` is all requests of `refusals.REQUESTS`, in
    every way, and ``refused quickly`` is each once."""
    adjacent: bool = False
    """Whether it runs twice, with and without one user's rows, and names, lengths and times of files are compared; the
    steps are then what follows each batch."""
    plants: tuple[str, ...] = ()
    """Functions, ``module:function``, that are called in the process before anything else: leaks to be found."""

    @property
    def missing(self) -> str | None:
        """What it needs that is not installed here; None if nothing is missing."""
        for module in (*_MODULES.get(self.container, ()), *_MODULES.get(self.fed_by, ())):
            if find_spec(module) is None:
                return f"{module} is not installed"
        return KINDS[self.fed_by].missing() if self.fed_by in KINDS else None


_THREADED = ("huge", "short", "huge", "medium", "short")
_SMALL = ("tiny", "short", "tiny", "medium", "short")
_RELEASED = ("short", "release", "long", "release", "medium", "release", "short")
_LOADED = ("medium", "save", "load", "medium", "save", "load", "short", "save")
_GROWN = ("medium", "grow", "medium", "grow", "short", "short")
_MERGED = ("short", "medium", "merge", "medium", "short")
_TIMED_DAYS = ("tiny", "medium", "next_window", "short", "medium", "tiny", "medium", "tiny")
_COUNTED = ("short", "release", "medium", "release", "medium", "release", "short", "release", "short")
_RETURNED = ("medium", "close", "medium", "release", "medium", "release", "short", "release", "short")
_DESCRIBED = ("short", "medium", "release", "medium", "save", "load", "short", "save")
_SLOTS = ("short", "long", "release", "medium", "short")
_PIPED = ("short", "medium", "release", "medium", "short")
_FETCHED = ("short", "medium", "tiny", "medium", "short")
_REFUSED = ("short", "refused", "reload", "medium", "short")
LIST = "list.csv"  # the file of the list of users that a pipe is given
STATE = "state.pp"  # the file that a pipe keeps its state in
SHARDS = "shards/"  # the folder that a pipe keeps its state in, if it does not keep it in a file
FIRST_DAY = "2026-01-05"  # when the first period of a pipe starts whose events have times
_DENSITY, _DISTINCT = ("density", "-", "-n", "USERS"), ("distinct", "-", "--ids", "text")
_COUNTS = ("counts", "-", "-n", "USERS")
_KEPT, _IN_FOLDER = ("--state", STATE), ("--state", SHARDS, "--shards", "3")
_TIMED = ("--time", "at", "--start", FIRST_DAY, "--release-every", "1d", "--ahead", "1")
_BY = ("--by", "clinic", "--categories", "north,south,west")
_NORMALIZED = ("density", "-", "--universe-file", LIST, "--normalize", "all", "--skip-outside")
_INTEGERS = ("NumPy int32", "NumPy big-endian", "NumPy strided", "Arrow", "Polars", "range", "Polars frame")
_OBJECTS = ("list", "iterator", "pandas")
_TEXTS = ("list of text", "NumPy text", "Polars text", "Arrow text", "iterator of text")
_TEXT = ("DistinctCount, text", "list of text")
_INDEXED = ("Parquet", "Arrow")  # files that are read from their end
_KINDS = ("sampled", "Users", "categories", "many categories", "DistinctCount", "FixedLevelPPDS")
_OF_COUNTS = ("Counts", "Counts, groups", "Counts, categories")
_RELEASING = ("DistinctCount", "delta", "DistinctCount, delta", "Counts", "Counts, groups", "categories")
_piped = partial(Scenario, steps=_PIPED, fed_by="pipe")
_served = partial(Scenario, steps=_PIPED, fed_by=HTTP)

SCENARIOS = (
    Scenario("constructor", steps=("singly",)),
    *(Scenario(f"constructor, {kind}", kind, steps=("singly",)) for kind in ("DistinctCount", "Continual", "Counts")),
    Scenario("batches"),
    Scenario("batches by threads", steps=_THREADED),
    Scenario("batches by threads, Users", "Users", steps=("long", "short", "long", "medium", "short")),
    Scenario("batches by threads, Counts", "Counts, categories", steps=_THREADED),
    *(Scenario(f"batches, {container}", container=container) for container in _INTEGERS),
    *(Scenario(f"batches, {container}", container=container, hardened=True) for container in _OBJECTS),
    Scenario("batches with strangers", "Density, strangers", steps=_SMALL),
    Scenario("batches with strangers, Users", "Users, strangers", "Polars text", steps=_SMALL, hardened=True),
    Scenario("batches, pandas categorical", container="pandas categorical", steps=_SMALL),
    Scenario("batches, one shard", "shard"),
    Scenario("batches, groups", "Users, groups"),
    Scenario("batches, Edges", "Edges", "NumPy pairs"),
    *(Scenario(f"batches, {kind}", kind) for kind in (*_KINDS, *_OF_COUNTS)),
    *(Scenario(f"batches, {kind}, list", kind, "list", hardened=True) for kind in ("DistinctCount", "Counts")),
    Scenario("batches, DistinctCount, categories", "DistinctCount, categories", hardened=True),
    *(
        Scenario(f"batches, {kind}, {texts}", f"{kind}, text", texts, hardened=True)
        for kind in ("DistinctCount", "Users")
        for texts in _TEXTS
    ),
    Scenario("release", steps=_RELEASED),
    *(Scenario(f"release, {kind}", kind, steps=_RELEASED) for kind in _RELEASING),
    Scenario("observe", "Continual", steps=("short", "observe", "long", "observe", "medium", "observe", "short")),
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
    Scenario("counts of releases, Windows", "Windows, large", steps=("medium", "next_window") * 4 + ("short",)),
    Scenario("counts of releases, Continual", "Continual, large", steps=("medium", "observe") * 4 + ("short",)),
    Scenario("rerandomize", steps=("medium", "rerandomize", "short", "short")),
    Scenario("grow", steps=_GROWN),
    Scenario("grow, Counts", "Counts", steps=_GROWN),
    Scenario("save", steps=("medium", "save", "long", "save", "short", "save")),
    Scenario("move", steps=("medium", "move", "long", "move", "short", "move")),
    Scenario("move, Continual", "Continual", steps=("medium", "observe", "move", "long", "move", "short", "move")),
    Scenario("bound to a file", steps=("medium", "save", "load", "long", "release", "medium", "rerandomize", "short")),
    Scenario("save and load", steps=_LOADED),
    Scenario("save and load, delta", "delta", steps=("release", *_LOADED, "release", "short", "save")),
    *(
        Scenario(f"save and load, {kind}", kind, steps=_LOADED)
        for kind in ("categories", "DistinctCount", "Counts", "Counts, categories")
    ),
    Scenario("merge", "shards", steps=_MERGED),
    Scenario("merge, Counts", "Counts, shards", steps=_MERGED),
    Scenario("merge, overlapping", "overlapping", steps=_MERGED),
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
    Scenario("folder, Counts", "folder, Counts", steps=_SLOTS),
    Scenario("folder, taken", "folder, taken, Density", steps=("short", "long", "medium", "short")),
    Scenario("folder, taken, Counts", "folder, taken, Counts", steps=("short", "long", "medium", "short")),
    *(
        Scenario(f"packed slots, {kind}", f"combined, {kind}", steps=_SLOTS)
        for kind in ("Density", "Counts", "DistinctCount")
    ),
    _piped("pipe", command=_DENSITY),
    _piped("pipe with state", command=_DENSITY + _KEPT),
    _piped("pipe with folder", command=_DENSITY + _IN_FOLDER),
    _piped("pipe with folder, Counts", "Counts", command=_COUNTS + _IN_FOLDER),
    _piped("pipe, categories", "categories", command=_DENSITY + _BY),
    _piped("pipe with state, Counts", "Counts", command=_COUNTS + _KEPT),
    _piped("pipe, DistinctCount", *_TEXT, command=_DISTINCT),
    _piped("pipe with state, DistinctCount", *_TEXT, command=_DISTINCT + _KEPT),
    _piped("pipe with strangers", command=(*_DENSITY, "--skip-outside"), steps=_SMALL),
    _piped("pipe with a list", "Users, text", "list of text", command=_NORMALIZED, steps=_SMALL),
    _piped("pipe with times", command=_DENSITY + _KEPT + _TIMED),
    _piped("pipe with times, DistinctCount", *_TEXT, command=_DISTINCT + _TIMED),
    _piped("pipe, DistinctCount, Arrow", *_TEXT, command=_DISTINCT, form="Arrow"),
    *(
        _piped(f"files behind URLs, {form}", command=_DENSITY, fed_by=URLS, form=form, steps=_FETCHED)
        for form in ("CSV", "Parquet")
    ),
    *(
        _piped(f"files {where}, DistinctCount, {form}", *_TEXT, command=_DISTINCT, fed_by=by, form=form, steps=_FETCHED)
        for by, where, forms in ((URLS, "behind URLs", ("CSV", "Parquet", "Arrow")), (STORE, "in a store", _INDEXED))
        for form in forms
    ),
    *(_served(f"service, {form}", form=form) for form in ("CSV", "NDJSON", "Arrow", "slots")),
    *(_served(f"service, DistinctCount, {form}", *_TEXT, form=form) for form in ("CSV", "NDJSON", "Arrow", "JSON")),
    _served("service, DistinctCount, TLS", *_TEXT, encrypted=True),
    _served("service, DistinctCount, integers", "DistinctCount", form="NDJSON"),
    *(
        Scenario(f"files, {kind}", kind, steps=("save",), adjacent=True)
        for kind in ("Density", "Counts", "DistinctCount")
    ),
    Scenario("files, moved", steps=("move",), adjacent=True),
    *(Scenario(f"files, {kind}", kind, steps=(), adjacent=True) for kind in ("folder, Density", "folder, Counts")),
    _piped("files, pipe", command=_DENSITY + _KEPT, adjacent=True),
    _piped("files, pipe with folder", command=_DENSITY + _IN_FOLDER, adjacent=True),
    _served("files, service", "Counts", form="JSON", adjacent=True),
    *(
        _served(name, *_TEXT, form="NDJSON", steps=_REFUSED, refused=True, encrypted=name.endswith("TLS"))
        for name in ("service, refused", "service, refused, TLS")
    ),
    *(
        _served(f"bad messages, {broker}", *_TEXT, fed_by=broker.lower(), steps=("short", "medium", "short"))
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
    found = {scenario.name: scenario for scenario in scenarios()}
    if name not in found:
        raise ValueError(f"there is no scenario {name!r}; there are: {'; '.join(found)}")
    return found[name]
