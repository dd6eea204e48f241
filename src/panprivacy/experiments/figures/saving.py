"""A figure on disk: its data as Parquet and CSV, its picture as PNG and SVG."""

from pathlib import Path

import polars as pl

from panprivacy import drawing
from panprivacy.experiments.figures.study import Study

DATA, PICTURES = "data", "figures"
"""The folders."""


def save(study: Study, table: pl.DataFrame, out: Path) -> None:
    """Write all four files of a figure."""
    data, pictures = out / DATA / study.name, out / PICTURES / study.name
    for path in (data, pictures):
        path.parent.mkdir(parents=True, exist_ok=True)
    table.write_parquet(data.with_suffix(".parquet"))
    table.write_csv(data.with_suffix(".csv"))
    with drawing.look():
        figure = study.draw(table)
        drawing.save(figure, pictures.with_suffix(".png"))
        figure.set_layout_engine("none")  # everything has its place by now
        drawing.save(figure, pictures.with_suffix(".svg"))
