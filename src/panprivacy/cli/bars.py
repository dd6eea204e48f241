"""How often users appeared, as bars with their intervals."""

from panprivacy.drawing import COLOURS, GREY, look, save
from panprivacy.release import FrequencyRelease


def draw(release: FrequencyRelease, path: str) -> None:
    """Draw the shares that a release of `Counts` has, with the line under them that says what it cost."""
    from matplotlib.figure import Figure

    with look():
        figure = Figure(figsize=(8, 4.2), layout="constrained")
        panel = figure.subplots()
        times = range(1, release.up_to + 1)
        arms = [
            (share - low, high - share)
            for share, (low, high) in zip(release.at_least, release.at_least_interval, strict=True)
        ]
        panel.bar(times, release.at_least, color=COLOURS["Counts"], width=0.75)
        panel.errorbar(
            times,
            release.at_least,
            yerr=list(zip(*arms, strict=True)),
            fmt="none",
            ecolor="black",
            capsize=3,
            label=f"{100 * release.level:g} % interval",
        )
        if release.up_to <= 32:
            panel.set_xticks(list(times))
        panel.grid(visible=False, axis="x")
        panel.set_title(f"How often {release.universe:,} users appeared")
        panel.set_xlabel("at least so many times")
        panel.set_ylabel("share of the users")
        panel.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        panel.set_ylim(bottom=0)
        panel.legend()
        low, high = release.mean_interval
        spent = f"epsilon {release.epsilon_spent:.3g} spent, {release.epsilon_remaining:.3g} left"
        mean = (
            f"mean {release.mean:.3f} ({low:.3f} to {high:.3f}), more than {release.up_to} counting as {release.up_to}"
        )
        figure.supxlabel(f"{mean}; {spent}", fontsize=8, color=GREY)
        save(figure, path)
