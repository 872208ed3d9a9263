"""The pilot rule: intervene only where the failure rate exceeds d / (r + d).

r is the chance that a recovery rescues an episode that would fail, d that it harms one that would succeed. Recovering
everywhere changes the success rate by f r - (1 - f) d, where f is the share that would fail; that is positive exactly
where f > d / (r + d).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Gate:
    """A pilot's rates with their joint interval, and the failure rate above which recovering everywhere gains.

    Rates are shares in [0, 1]; a rate without episodes is None, as is a threshold where nothing was turned.
    """

    rescues: int
    failed: int
    harms: int
    succeeded: int
    confidence: float
    rescue_rate: float | None
    rescue_interval: tuple[float, float]
    harm_rate: float | None
    harm_interval: tuple[float, float]
    threshold: float | None
    threshold_interval: tuple[float, float]

    def at(self, lowest: float, highest: float) -> str:
        """What the threshold's interval says of failure rates in [lowest, highest]: `gains`, `loses`, else `open`."""
        low, high = self.threshold_interval
        return "gains" if lowest > high else "loses" if highest < low else "open"

    def at_home(self) -> tuple[str, tuple[float, float]]:
        """The same at the pilot's own failure rate, which is estimated too: its verdict and the rate's interval.

        Here three intervals hold together with the gate's confidence (Bonferroni), so each is a little wider.
        """
        third = (1 - self.confidence) / 3
        share = clopper_pearson(self.failed, self.failed + self.succeeded, 1 - third)
        wider = gate(self.rescues, self.failed, self.harms, self.succeeded, 1 - 2 * third)
        return wider.at(*share), share


def gate(rescues: int, failed: int, harms: int, succeeded: int, confidence: float = 0.95) -> Gate:
    """The gate of a pilot: `rescues` of `failed` episodes that fail without recovery, `harms` of `succeeded` that don't.

    Both Clopper-Pearson intervals hold together with at least `confidence` (Bonferroni: each at 1 - (1 - confidence)/2);
    episodes are taken as independent. The threshold rises with d and falls with r, so its interval runs between the
    opposite corners of the two. Raises ValueError for impossible counts.
    """
    if not (0 <= rescues <= failed and 0 <= harms <= succeeded and 0 < confidence < 1):
        raise ValueError(f"{rescues} rescues of {failed} and {harms} harms of {succeeded}: no such counts")
    each = 1 - (1 - confidence) / 2
    rescue, harm = clopper_pearson(rescues, failed, each), clopper_pearson(harms, succeeded, each)
    r, d = (rescues / failed if failed else None), (harms / succeeded if succeeded else None)
    return Gate(
        rescues, failed, harms, succeeded, confidence, r, rescue, d, harm,
        threshold=None if r is None or d is None or r + d == 0 else d / (r + d),
        threshold_interval=(harm[0] / (rescue[1] + harm[0]), harm[1] / (rescue[0] + harm[1])),
    )  # fmt: skip


def clopper_pearson(events: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Two-sided exact interval of a rate; (0, 1) without trials."""
    from scipy.stats import beta

    tail = (1 - confidence) / 2
    low = float(beta.ppf(tail, events, trials - events + 1)) if events else 0.0
    high = float(beta.ppf(1 - tail, events + 1, trials - events)) if events < trials else 1.0
    return low, high
