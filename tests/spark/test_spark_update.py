"""Batches and streams of a Spark on this machine end in a state folder: all of them, each once, or not at all."""

import doctest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import until
from sparks import HERE, UNIVERSE, counted, density, needs_spark, present, start

import panprivacy as pp
from panprivacy import spark as pps
from panprivacy.testing import CertainCoins, refused

pytestmark = needs_spark


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    local = tmp_path_factory.mktemp("local")
    session = start("local[2]", local)
    yield session
    session.stop()


def shuffle_files(session: Any) -> list[Path]:
    """What is left on disk of the sets that were shuffled."""
    return list(Path(session.conf.get("spark.local.dir")).rglob("shuffle*.data"))


def test_the_users_of_a_frame_are_in_the_folder_and_in_a_release(spark: Any, tmp_path: Path) -> None:
    folder = density(tmp_path / "folder", releases=2)
    frame = spark.range(0, 3000, 3).repartition(5)
    pps.update(frame, "id", folder)
    pps.update(spark.range(3).withColumnRenamed("id", "user"), "user", folder)
    until(lambda: not shuffle_files(spark), "the end of the shuffle files, which Spark deletes in the background")
    assert present(folder) == {*range(0, 3000, 3), 1, 2}
    assert pps.release(folder).number == 1
    assert pps.release(folder, level=0.9).number == 2


def test_a_bad_id_is_named_and_the_folder_is_as_it_was(spark: Any, tmp_path: Path) -> None:
    folder = density(tmp_path / "folder")
    pps.update(spark.range(10), "id", folder)
    before = {path: path.read_bytes() for path in (tmp_path / "folder").iterdir()}
    with refused("outside-universe", "users 4000, 4001, 4002 and 7 more"):
        pps.update(spark.range(UNIVERSE - 500, UNIVERSE + 10, 1, 3), "id", folder)
    with refused("missing-value", "skip_missing=True"):
        pps.update(spark.createDataFrame([(5,), (None,)], "id bigint"), "id", folder)
    with refused("ids-type", "text"):
        pps.update(spark.createDataFrame([("5",)], "id string"), "id", folder)
    assert {path: path.read_bytes() for path in (tmp_path / "folder").iterdir()} == before


@pytest.mark.parametrize("numbers", [False, True], ids=["text", "numbers"])
def test_a_long_list_of_users_is_sent_in_an_encrypted_session(spark: Any, tmp_path: Path, numbers: bool) -> None:
    listed: Any = range(0, 240_000, 4) if numbers else [f"user {number:06d}" for number in range(60_000)]
    folder = density(tmp_path / "folder", universe=pp.Users(list(listed)))
    came = [[each] for each in listed[::20]]
    pps.update(spark.createDataFrame(came, "id bigint" if numbers else "id string"), "id", folder)
    assert len(present(folder)) == 3000


def test_bad_ids_are_left_out_if_that_is_asked(spark: Any, tmp_path: Path) -> None:
    folder = density(tmp_path / "folder")
    frame = spark.createDataFrame([(5,), (None,), (UNIVERSE,), (-1,), (7,)], "id bigint")
    pps.update(frame, "id", folder, skip_missing=True, skip_outside=True)
    assert present(folder) == {5, 7}


def test_every_estimator_is_fed(spark: Any, tmp_path: Path) -> None:
    visitors = pp.StateFolder.create(tmp_path / "visitors", epsilon=2.0, shards=2, buckets=64, coins=CertainCoins())
    pps.update(spark.range(500).selectExpr("concat('visitor ', id) as user"), "user", visitors)
    touched = present(visitors)
    assert len(touched) > 100
    visitors.update_many([f"visitor {i}" for i in range(500)])  # the same slots again
    assert present(visitors) == touched

    visits = density(tmp_path / "visits", up_to=8)
    pps.update(spark.range(3000).selectExpr("id % 700 as user"), "user", visits, batch=("till", 1))
    pps.update(spark.range(3000).selectExpr("id % 700 as user"), "user", visits, batch=("till", 1))  # once more
    assert counted(visits) == {4: 500, 5: 200}
    with refused("batch-needed", "('writer', 1)"):
        pps.update(spark.range(3), "id", visits)


def test_lists_edges_groups_and_categories_are_fed(spark: Any, tmp_path: Path) -> None:
    names = [f"person {i}" for i in range(300)]
    groups = ["north" if i < 100 else "south" for i in range(300)]
    clinic = density(tmp_path / "clinic", universe=pp.Users(names, groups=groups))
    frame = spark.createDataFrame([(names[0],), (names[299],), ("a stranger",)], "who string")
    with refused("outside-universe", "a stranger"):
        pps.update(frame, "who", clinic)
    pps.update(frame, "who", clinic, skip_outside=True)
    assert len(present(clinic)) == 2
    assert {row.group for row in pps.release(clinic).groups} == {"north", "south"}

    calls = density(tmp_path / "calls", universe=pp.Edges(50))
    pps.update(spark.createDataFrame([(1, 2), (2, 1), (3, 4)], "a int, b int"), ["a", "b"], calls)
    assert len(present(calls)) == 2

    pages = density(tmp_path / "pages", universe=1000, categories=["home", "shop"], key=bytes(16))
    twin = density(tmp_path / "twin", universe=1000, categories=["home", "shop"], key=bytes(16))
    visits = spark.range(1000).selectExpr("id as user", "if(id % 2 = 0, 'home', 'shop') as page")
    pps.update(visits, visits.user, pages, category="page")
    twin.update_many(range(1000), ["home", "shop"] * 500)
    assert present(pages) == present(twin)
    with refused("outside-universe", "cellar"):
        pps.update(spark.createDataFrame([(1, "cellar")], "user int, page string"), "user", pages, category="page")
    rows = [(2, "cellar"), (3, None), (4, "home")]
    for folder, listed in ((pages, rows), (twin, rows[2:])):
        frame = spark.createDataFrame(listed, "user int, page string")
        pps.update(frame, "user", folder, category="page", unlisted="skip")
    assert present(pages) == present(twin), "rows in no listed category are left out, and nobody else's"


def test_a_stream_of_files_is_fed_once_and_goes_on_after_a_restart(spark: Any, tmp_path: Path) -> None:
    spark.range(0, 2000, 2, 2).write.parquet(str(tmp_path / "events"))
    visits = density(tmp_path / "visits", up_to=4)

    def run(folder: pp.StateFolder, checkpoint: str) -> None:
        frame = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "events"))
        query = pps.stream(frame, "id", folder, every=None, checkpoint=tmp_path / checkpoint)
        query.awaitTermination()

    run(visits, "checkpoint")
    assert counted(visits) == {1: 1000}
    spark.range(1, 2000, 4, 1).write.mode("append").parquet(str(tmp_path / "events"))
    run(visits, "checkpoint")
    assert counted(visits) == {1: 1500}


@pytest.mark.usefixtures("spark")
def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    page = (
        (HERE.parents[1] / "docs" / "how-to" / "spark.md").read_text(encoding="utf-8").replace("/shared", str(tmp_path))
    )
    (tmp_path / "page.md").write_text(page, encoding="utf-8")
    result = doctest.testfile(str(tmp_path / "page.md"), module_relative=False)
    assert (result.failed, result.attempted) == (0, 14)


def test_a_stream_ends_at_a_bad_id(spark: Any, tmp_path: Path) -> None:
    spark.range(UNIVERSE - 5, UNIVERSE + 5, 1, 1).write.parquet(str(tmp_path / "events"))
    folder = density(tmp_path / "folder")
    frame = spark.readStream.schema("id bigint").parquet(str(tmp_path / "events"))
    query = pps.stream(frame, "id", folder, every="1 second", checkpoint=tmp_path / "checkpoint")
    with pytest.raises(Exception, match="users 4000, 4001, 4002 and 2 more are outside"):
        query.awaitTermination()
    assert present(folder) == set()


def test_what_cannot_be_is_refused_before_anything_runs(spark: Any, tmp_path: Path) -> None:
    folder, visits = density(tmp_path / "folder"), density(tmp_path / "visits", up_to=4)
    flow = spark.readStream.format("rate").load()
    with refused("spark-stream"):
        pps.update(flow, "value", folder)
    with refused("spark-no-stream"):
        pps.stream(spark.range(3), "id", folder)
    with refused("checkpoint-needed", "checkpoint="):
        pps.stream(flow, "value", visits)
    cleanup = "spark.sql.classic.shuffleDependency.fileCleanup.enabled"
    spark.conf.set(cleanup, "false")
    try:
        with refused("plain-shuffle", "fileCleanup"):
            pps.update(spark.range(3), "id", folder)
        pps.update(spark.range(3), "id", folder, allow_plain_shuffle=True)
        assert shuffle_files(spark)  # which the other tests would have found
    finally:
        spark.conf.set(cleanup, "true")
    assert present(folder) == {0, 1, 2}
