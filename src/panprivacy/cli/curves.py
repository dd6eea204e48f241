"""Pictures of answers about periods: who came back by each release, and who was active in the last days."""

from panprivacy.drawing import BLUE, GREY, look, save
from panprivacy.errors import PanPrivacyError
from panprivacy.release.retention import RetentionRelease


def draw_retention(released: object, path: str) -> None:
    """Draw the curve of a retention beside its cohort."""
    if not isinstance(released, RetentionRelease):
        raise PanPrivacyError("there is nothing to draw before a release of the second period")
    from matplotlib.figure import Figure

    with look():
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        panel = figure.subplots()
        numbers = range(1, len(released.curve) + 1)
        bars = [2 * error for error in released.curve_stderr]
        what = "came back" if released.asked == "returned" else "are new"
        low, high = released.cohort_interval
        panel.axhspan(
            low, high, color=GREY, alpha=0.25, linewidth=0, label=f"cohort, {100 * released.level:g} % interval"
        )
        panel.errorbar(
            numbers, released.raw_curve, bars, fmt="o", color=BLUE, capsize=3, label="released ± 2 standard errors"
        )
        panel.plot(numbers, released.curve, color=BLUE, label=f"{what} by then")
        panel.set_xlabel("release of the second period")
        panel.set_xticks(list(numbers))
        panel.set_ylabel(f"share of {released.universe:,} users")
        panel.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        panel.set_ylim(bottom=0)
        panel.set_title(f"Users of the first period, and who {what} in the second")
        panel.legend(loc="best")
        save(figure, path)
