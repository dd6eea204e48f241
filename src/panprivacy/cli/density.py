"""`panprivacy density`: which share of a known universe is in these files?"""

from dataclasses import replace

from panprivacy.cli import options as opt
from panprivacy.cli.groups import ByCategory
from panprivacy.cli.plainly import Speaker, plain_errors
from panprivacy.cli.regularly import Regularly
from panprivacy.cli.rows import TimeOptions
from panprivacy.cli.run import Run, continued_or_new, kept_anywhere, prepare
from panprivacy.cli.series import feed_series
from panprivacy.cli.sizing import DensitySize, Memory, Sample, Shard
from panprivacy.cli.source import source_of
from panprivacy.cli.universe import Asked, Directed, Ends, Nodes, which_column
from panprivacy.events import Layout


def density(
    files: opt.Files,
    column: opt.Column = None,
    edges: Ends = None,
    action: opt.Action = None,
    by: opt.By = None,
    categories: opt.CategoryList = None,
    other: opt.Other = False,
    skip_missing: opt.SkipMissing = False,
    skip_outside: opt.SkipOutside = False,
    unlisted: opt.Unlisted = None,
    format_: opt.FileFormat = None,
    separator: opt.Separator = ",",
    no_header: opt.NoHeader = False,
    missing: opt.Missing = None,
    universe: opt.Universe = None,
    universe_file: opt.UniverseFile = None,
    group: opt.Group = None,
    nodes: Nodes = None,
    directed: Directed = False,
    epsilon: opt.Epsilon = None,
    sample: Sample = None,
    memory: Memory = None,
    releases: opt.Releases = None,
    intrusions: opt.Intrusions = None,
    delta: opt.Delta = None,
    shard: Shard = None,
    state: opt.State = None,
    shards: opt.Shards = None,
    release: opt.MakeRelease = None,
    release_every: opt.ReleaseEvery = None,
    time: opt.Time = None,
    late: opt.Late = None,
    early: opt.Early = None,
    ahead: opt.Ahead = None,
    plot: opt.Plot = None,
    level: opt.Level = 0.95,
    as_json: opt.Json = False,
    threads: opt.Threads = None,
    quiet: opt.Quiet = False,
) -> None:
    """Estimate which share of the users that there could be appears in events.

    Example: [bold]panprivacy density visits.csv --column patient --universe 1000000 --epsilon 1[/bold]

    Groups: [bold]--by clinic --categories north,south[/bold], or [bold]--universe-file FILE:ID --group region[/bold].
    For a series, add: [bold]--releases 52 --release-every 7d --time visited --plot series.png[/bold]

    FILE is one file or more, a glob in quotes, such as 'visits/*.parquet', or - for standard input.
    """
    asked = Asked(column, edges, universe, universe_file, nodes, directed, group)
    prepare(files, quiet=quiet, threads=threads)
    with plain_errors(), kept_anywhere(state, shards) as kept:
        users, kind = asked.universe()
        plan = {"epsilon": epsilon, "releases": releases, "intrusions": intrusions, "delta": delta}
        wanted = {"estimator": "Density", "universe": users and users.describe(), **plan}
        size = DensitySize(sample, memory, shard)
        kinds = ByCategory(by, categories, other)
        layout = Layout(separator, not no_header, tuple(missing or ()))
        series = Regularly(release_every, time, files, format_, layout)
        est = continued_or_new(kept, users, wanted, lambda: size.new(users, series.planned(plan), kinds.arguments()))
        kinds.check(est)
        if kept is not None:
            size.check(est)
        picture = kinds.picture(plot, release_every)
        run = Run(est, kept, level, Speaker(as_json=as_json, quiet=quiet), picture, by or group, delta)
        named = asked.columns(est.universe, kind, action, lambda: which_column(files, format_, layout))
        columns = replace(named, category=by)
        source = source_of(files, columns, format_, layout, skip_missing, skip_outside, unlisted)
        feed_series(
            run,
            source,
            release,
            time=time,
            every=release_every,
            picture=plot if release_every else None,
            rows=TimeOptions(late, early, ahead),
        )
