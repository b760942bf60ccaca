"""One picture of the demo's run: throughput with the kill marked, fates per carrier, delivery latency."""

from pathlib import Path
from typing import Any

_INK = "#1f2933"
_SENT, _APPLIED, _DEAD, _KILL = "#3b82c4", "#2f9e6e", "#d1495b", "#e09f3e"


def draw(
    path: Path,
    timeline: list[tuple[float, int, int]],
    killed_at_s: float,
    back_at_s: float,
    by_carrier: list[Any],
    latencies_ms: list[int],
    verdict: str,
) -> None:
    """Write a PNG. `timeline`: (seconds, sent so far, applied so far); `by_carrier`: rows of `ledger_by_tag`."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update(
        {
            "font.size": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "text.color": _INK,
            "axes.labelcolor": _INK,
            "axes.edgecolor": "#9aa5b1",
            "xtick.color": _INK,
            "ytick.color": _INK,
        }
    )
    figure, (rates, fates, delays) = plt.subplots(1, 3, figsize=(15, 4.6), width_ratios=(1.15, 1, 1))
    figure.suptitle(verdict, fontsize=14, fontweight="bold")

    seconds = [point[0] for point in timeline]
    rates.plot(seconds, [point[1] / 1000 for point in timeline], color=_SENT, label="sent", linewidth=2)
    rates.plot(seconds, [point[2] / 1000 for point in timeline], color=_APPLIED, label="applied", linewidth=2)
    rates.axvspan(killed_at_s, back_at_s, color=_KILL, alpha=0.35, linewidth=0, label="broker killed, back")
    rates.set(xlabel="seconds", ylabel="thousand flights", title="One SIGKILL on the way")
    rates.legend(frameon=False, loc="upper left")

    carriers = [row["tags"] for row in by_carrier][::-1]
    applied = [row["applied"] / 1000 for row in by_carrier][::-1]
    dead = [row["dead_lettered"] / 1000 for row in by_carrier][::-1]
    fates.barh(carriers, applied, color=_APPLIED, label="applied")
    fates.barh(carriers, dead, left=applied, color=_DEAD, label="dead letters (cancelled flights)")
    fates.set(xlabel="thousand flights", title="Where each flight ended, by carrier")
    fates.legend(frameon=False, loc="lower right")

    ordered = sorted(latencies_ms)
    shares = [100 * (index + 1) / len(ordered) for index in range(len(ordered))]
    delays.plot([max(value, 1) for value in ordered], shares, color=_SENT, linewidth=2)
    delays.set(
        xscale="log", xlabel="ms from born to applied", ylabel="% of flights", title="Delivery latency", ylim=(0, 101)
    )
    delays.grid(axis="both", color="#e4e7eb", linewidth=0.6)

    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
