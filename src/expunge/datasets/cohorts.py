"""Loaders of whole clinical data sets, as the paper's clinical experiments (App. A) process them.

They read with polars (the ``clinical`` extra); `expunge.datasets.vitals` does the rest. No data is
downloaded: MIMIC-IV itself is credentialed, its demo (ODbL 1.0) and the 2019 challenge (PhysioNet) are open.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expunge.datasets.vitals import CHANNELS, Cohort, on_hours
from expunge.errors import InputError, MissingExtra

if TYPE_CHECKING:
    import polars as pl

__all__ = ["mimic_iv", "physionet2019"]

# MIMIC-IV's items: arterial and cuff pressures share a channel. 223761 is in °F, all else in the channel's unit.
ITEMS = {
    "220045": "hr",
    "220050": "sbp",
    "220179": "sbp",
    "220051": "dbp",
    "220180": "dbp",
    "220210": "rr",
    "220277": "spo2",
    "223761": "temp",
    "223762": "temp",
}
FAHRENHEIT = "223761"
TIME = "%Y-%m-%d %H:%M:%S"
# The challenge's names, in the order of CHANNELS.
CHALLENGE = ("HR", "SBP", "DBP", "Resp", "O2Sat", "Temp")


def mimic_iv(
    path: str | Path, *, limit: int | None = 1500, seed: int = 0, min_days: float = 2.0, min_hours: int = 48
) -> Cohort:
    """Hourly vitals from a folder in MIMIC-IV's layout: the full set or the open demo.

    Needs ``icu/icustays.csv[.gz]`` and ``icu/chartevents.csv[.gz]``; the second is streamed. Of the stays of
    at least `min_days`, in the file's order, the first `limit` of ``RandomState(seed).permutation`` are
    drawn (None: all of them, in order), and those that span `min_hours` are returned. Readings before
    ``intime`` or after ``outtime`` are ignored. Subjects are ``patient-<subject_id>``, ids ``stay-<stay_id>``.

    Raises InputError if a file is missing or malformed and MissingExtra without polars.
    """
    _require_polars()
    import polars as pl

    folder = Path(path)
    stays_file, events_file = _table(folder, "icustays"), _table(folder, "chartevents")
    with _input_errors(folder):
        everyone = (
            pl.read_csv(stays_file, infer_schema=False)
            .select("subject_id", "stay_id", "intime", "outtime", "los")
            .with_columns(
                pl.col("intime", "outtime").str.to_datetime(TIME),
                pl.col("los").cast(pl.Float64),
            )
        )
        long = everyone.filter(pl.col("los") >= min_days)
        drawn = long[_drawn(long.height, limit, seed)].with_row_index("place")
        readings = (
            pl.scan_csv(events_file, infer_schema=False)
            .select("stay_id", "charttime", "itemid", "valuenum")
            .filter(pl.col("itemid").is_in(list(ITEMS)))
            .join(drawn.lazy().select("stay_id", "place", "intime", "outtime"), on="stay_id", how="inner")
            .with_columns(
                pl.col("charttime").str.to_datetime(TIME),
                pl.col("valuenum").cast(pl.Float64),
            )
            .filter(pl.col("charttime").is_between("intime", "outtime") & pl.col("valuenum").is_not_null())
            .select(
                pl.col("place").cast(pl.Int64),
                (pl.col("charttime") - pl.col("intime")).dt.total_seconds().floordiv(3600).alias("hour"),
                pl.col("itemid").replace_strict({item: CHANNELS.index(name) for item, name in ITEMS.items()}),
                pl.when(pl.col("itemid") == FAHRENHEIT)
                .then((pl.col("valuenum") - 32.0) * 5.0 / 9.0)
                .otherwise(pl.col("valuenum")),
            )
            .collect(engine="streaming")
        )
    return on_hours(
        [f"stay-{name}" for name in drawn["stay_id"]],
        [f"patient-{name}" for name in drawn["subject_id"]],
        _columns(readings),
        flow={"stays": everyone.height, "long_enough": long.height, "drawn": drawn.height},
        min_hours=min_hours,
    )


def physionet2019(path: str | Path, *, limit: int | None = None, seed: int = 0, min_hours: int = 48) -> Cohort:
    """Hourly vitals of the PhysioNet/CinC Challenge 2019 (early sepsis prediction), in the same form.

    `path` is a folder with the challenge's ``.psv`` files, at any depth, or one Parquet file of their rows
    with ``patient`` and ``hour`` (ICULOS) beside the challenge's columns. Each file is a stay and a patient, id
    ``stay-<number>`` and subject ``patient-<number>``, in the order of the numbers; `limit` draws as in
    `mimic_iv`. Hours count from ICU admission: the first row of some stays is a later hour, and what comes
    before it is filled backward.

    Raises InputError if files are missing or malformed and MissingExtra without polars.
    """
    _require_polars()
    import polars as pl

    source = Path(path)
    with _input_errors(source):
        table = (
            _challenge_table(source)
            .select(
                pl.col("patient").cast(pl.Int64),
                pl.col("hour").cast(pl.Int64) - 1,
                *(pl.col(name).cast(pl.Float64).fill_nan(None).alias(ours) for name, ours in _challenge_channels()),
            )
            .collect(engine="streaming")
        )
        if table["hour"].min() is None or table["patient"].null_count() or table["hour"].null_count():
            raise InputError(f"{source} has rows without a patient or an hour, or no rows at all")
        if int(table["hour"].to_numpy().min()) < 0:
            raise InputError(f"{source} has hours before the first; ICULOS starts at 1")
        everyone = table["patient"].unique().sort()
        drawn = everyone.to_numpy()[_drawn(len(everyone), limit, seed)]
        places = pl.DataFrame({"patient": drawn, "place": np.arange(len(drawn))})
        readings = (
            table.join(places, on="patient", how="inner")
            .unpivot(on=list(CHANNELS), index=["place", "hour"], variable_name="channel", value_name="value")
            .drop_nulls("value")
            .with_columns(
                pl.col("channel").replace_strict({name: place for place, name in enumerate(CHANNELS)}),
            )
            .select("place", "hour", "channel", "value")
        )
    return on_hours(
        [f"stay-{name}" for name in drawn.tolist()],
        [f"patient-{name}" for name in drawn.tolist()],
        _columns(readings),
        flow={"stays": len(everyone), "drawn": len(drawn)},
        min_hours=min_hours,
    )


def _challenge_channels() -> Iterator[tuple[str, str]]:
    return zip(CHALLENGE, CHANNELS, strict=True)


def _challenge_table(source: Path) -> pl.LazyFrame:
    import polars as pl

    if source.is_file():
        return pl.scan_parquet(source)
    files = sorted(source.rglob("*.psv"))
    if not files:
        raise InputError(f"{source} is neither a Parquet file nor a folder with .psv files")
    number = pl.col("file").str.extract(r"(\d+)\.psv$").alias("patient")
    rows = pl.scan_csv(files, separator="|", infer_schema=False, include_file_paths="file")
    return rows.with_columns(number, pl.col("ICULOS").alias("hour"))


def _require_polars() -> None:
    try:
        import polars  # noqa: F401
    except ImportError as error:
        raise MissingExtra("clinical data sets need polars: pip install 'expunge[clinical]'") from error


@contextmanager
def _input_errors(source: Path) -> Iterator[None]:
    """Turn what polars and the file system say of a malformed file into InputError."""
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as problem:
        raise InputError(f"{source} cannot be read ({problem})") from problem


def _table(folder: Path, name: str) -> Path:
    for file in (folder / "icu" / f"{name}.csv.gz", folder / "icu" / f"{name}.csv"):
        if file.is_file():
            return file
    raise InputError(f"{folder} is not in MIMIC-IV's layout: icu/{name}.csv.gz is missing")


def _drawn(size: int, limit: int | None, seed: int) -> npt.NDArray[np.int64]:
    if limit is None:
        return np.arange(size)
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InputError(f"limit must be a positive number of stays, or None for all, not {limit!r}")
    try:
        # The paper's generator; its draws are frozen across NumPy versions.
        generator = np.random.RandomState(seed)
    except (TypeError, ValueError) as problem:
        raise InputError(f"seed {seed!r} is unusable ({problem})") from None
    return generator.permutation(size)[:limit]


def _columns(
    readings: pl.DataFrame,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    place, hour, channel, value = (column.to_numpy() for column in readings.get_columns())
    return place, hour, channel, value
