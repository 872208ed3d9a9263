"""Every policy's outcomes on the same held-out episodes: the router's, its comparators, chance, and the best there is."""

from collections import Counter
from collections.abc import Sequence
from math import fsum

from pipeline.evaluation.lookup import KINDS, HeldOut, HeldOutSet, Outcome, play
from pipeline.router.joint import CHOICE, VIEWS
from pipeline.router.model import Router

RANDOM, ORACLE = "random", "oracle"


def outcomes_by_policy(router: Router, found: HeldOutSet) -> dict[str, list[Outcome]]:
    """Outcomes of each policy, in the order of the table.

    never, always at each recorded delay, random at the router's rate (expectations), the anomaly comparators, the router
    as `cir`, the policies of pipeline.router.joint that the router holds and the pairs can tell, oracle.
    """
    episodes, operator = found.episodes, router.operator
    rules = {name: play(episodes, choice, operator) for name, choice in router.policies().items()}
    for name, view in VIEWS.items():
        if name in router.extensions and not (name == CHOICE and found.not_measured):
            rules[name] = play(episodes, router.extensions[name], operator, view)
    return {
        "never": play(episodes, None),
        **{f"always-{delay}": play(episodes, delay, operator) for delay in found.delays},
        RANDOM: at_random(episodes, rules["cir"], operator),
        **rules,
        ORACLE: [_best(episode, operator) for episode in episodes],
    }


def at_random(episodes: Sequence[HeldOut], like: Sequence[Outcome], operator: str) -> list[Outcome]:
    """Expected outcomes of intervening as often as a policy does at each delay, whatever the episode.

    At delay d every episode that is still going is intervened on with the same probability: the policy's interventions at
    d over the episodes still going at d. An episode gets one intervention at most; should the probabilities of the delays
    add up to more than 1 they are divided by their sum, and the rate falls short of the policy's.
    """
    acted = Counter(outcome.delay for outcome in like if outcome.delay is not None)
    live = {delay: sum(episode.branches[delay][1] for episode in episodes) for delay in acted}
    share = {delay: count / live[delay] for delay, count in sorted(acted.items())}
    over = max(1.0, sum(share.values()))
    outcomes = []
    for episode in episodes:
        y, intervened = float(episode.y0), 0.0
        spent = []
        for delay, probability in share.items():
            ym, going = episode.branches[delay]
            y += probability / over * (ym - episode.y0)
            intervened += probability / over * going
            if going:
                spent.append((probability / over, episode.extra.get(operator, {}).get(delay, {})))
        extra = {
            kind: fsum(chance * units[kind] for chance, units in spent)
            for kind in KINDS
            if all(kind in units for _, units in spent)
        }
        outcomes.append(
            Outcome(episode.task, episode.condition, episode.folder, episode.y0, y, intervened, None, operator, extra)
        )
    return outcomes


def _best(episode: HeldOut, operator: str) -> Outcome:
    """The earliest branch that succeeds where the trunk fails, of any operator measured; else the trunk."""
    known = [(operator, episode.branches), *episode.further.items()]
    rescues = [
        (delay, place, name)
        for place, (name, branches) in enumerate(known)
        for delay, (ym, going) in branches.items()
        if going and ym > episode.y0
    ]
    delay, _, name = min(rescues, default=(None, None, None))
    y = episode.y0 if delay is None else 1
    extra = episode.extra.get(name, {}).get(delay, {})
    return Outcome(
        episode.task, episode.condition, episode.folder, episode.y0, y, delay is not None, delay, name, extra
    )
