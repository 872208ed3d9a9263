"""How much faster the environment is than ALFWorld's stock one, measured in the same run on the same game.

    python benchmarks/environment.py [GAME] [--repeats N] [--json FILE]

GAME is a game.tw-pddl, best a kitchen (the largest rooms). Without it, the first heat-and-place game under
$ALFWORLD_DATA is taken, else one is generated. Prints a table (median and quartiles of both, ratio of medians) and the
same as JSON. Exits 1 where a ratio stays below what the project promises.
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from pipeline.environment import AlfworldEnvironment, Translation, translate

REQUIRED = {
    "step": 100,
    "step, first time in a state": 100,
    "step with admissible commands": 100,
    "later reset": 1000,
    "load": 30,
    "fork at action 25": 1000,
}
FORK_AT = 25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("game", nargs="?", type=Path, help="a game.tw-pddl (default: found or generated)")
    parser.add_argument("--repeats", type=int, default=3, help="loads, resets and forks of the stock environment")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.game or found_game() or made_game(Path(folder))
        figures = measure(path, arguments.repeats)
    show(figures)
    text = json.dumps(figures, indent=2)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n")
    if slow := [row["what"] for row in figures["rows"] if row["ratio"] < row["required"]]:
        sys.exit(f"below what is required: {', '.join(slow)}")


def found_game() -> Path | None:
    root = os.environ.get("ALFWORLD_DATA")
    return next(iter(sorted(Path(root).rglob("pick_heat*/*/game.tw-pddl"))), None) if root else None


def made_game(root: Path) -> Path:
    from pipeline.games.generate import make, orders

    make(orders({"train": 1}, ["pick_heat_then_place_in_recep"], seed=1, verb="move")[0], root)
    return next(root.rglob("game.tw-pddl"))


def stock_environment():
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredInfos
    from textworld.envs.pddl import PddlEnv

    wanted = textworld.EnvInfos(won=True, admissible_commands=True, facts=True, extras=["gamefile"])
    return AlfredInfos(AlfredDemangler(PddlEnv(wanted), shuffle=False))


def timed(action: Callable[[], object]) -> float:
    """Seconds that one call takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def chosen_actions(translation: Translation) -> list[str]:
    """A seeded random walk of admissible commands, the same for both environments."""
    rng = random.Random(25)
    with AlfworldEnvironment(translation) as environment:
        actions = []
        for _ in range(FORK_AT):
            actions.append(rng.choice(environment.admissible()))
            environment.step(actions[-1])
    return actions


def measure(path: Path, repeats: int) -> dict:
    """Times in seconds of both environments for each thing, on one game."""
    translation = translate(path)
    stored = translation.to_bytes()
    actions = chosen_actions(translation)
    stock = measure_stock(path, actions, repeats)
    fast = measure_fast(stored, actions, max(20, repeats))
    rows = [row(what, stock[what], fast[what]) for what in stock]
    return {
        "game": str(path),
        "translation_bytes": len(stored),
        "translate_s": timed(lambda: translate(path)),
        "rows": rows,
    }


def measure_stock(path: Path, actions: list[str], repeats: int) -> dict[str, list[float]]:
    environment = stock_environment()
    times: dict[str, list[float]] = {"load": [timed(lambda: environment.load(str(path))) for _ in range(repeats)]}
    times["first reset"] = [timed(environment.reset)]
    times["later reset"] = [timed(environment.reset) for _ in range(repeats)]
    # Stock gathers the admissible commands at every step, asked or not.
    steps = [timed(lambda one=action: environment.step(one)) for action in actions]
    times["step"] = times["step, first time in a state"] = times["step with admissible commands"] = steps
    times["fork at action 25"] = times["fork by replay"] = [
        timed(lambda: replayed(environment, actions)) for _ in range(max(1, repeats - 1))
    ]
    return times


def replayed(environment, actions: Iterable[str]) -> None:
    environment.reset()
    for action in actions:
        environment.step(action)


def measure_fast(stored: bytes, actions: list[str], repeats: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}
    with AlfworldEnvironment(Translation.from_bytes(stored)) as environment:
        load: list[float] = []
        first: list[float] = []
        cold: list[float] = []
        for _ in range(repeats):
            load.append(timed(lambda: environment.load(Translation.from_bytes(stored))))
            first.append(timed(environment.reset))
            cold += [timed(lambda one=action: with_admissible(environment, one)) for action in actions]
        times["load"], times["first reset"], times["step, first time in a state"] = load, first, cold
        times["later reset"] = [timed(environment.reset) for _ in range(50 * repeats)]
        plain, full = [], []
        for _ in range(repeats):
            environment.reset()
            plain += [timed(lambda one=action: environment.step(one)) for action in actions]
            environment.reset()
            full += [timed(lambda one=action: with_admissible(environment, one)) for action in actions]
        times["step"], times["step with admissible commands"] = plain, full
        snapshot = environment.snapshot()
        times["fork at action 25"] = [timed(lambda: environment.restore(snapshot)) for _ in range(50 * repeats)]
        times["fork by replay"] = [timed(lambda: environment.replay(actions)) for _ in range(repeats)]
    return times


def with_admissible(environment: AlfworldEnvironment, action: str) -> None:
    """A step as an episode takes it: text, admissible commands, state hash."""
    environment.step(action)
    environment.admissible()
    environment.state_hash()


def row(what: str, stock: list[float], fast: list[float]) -> dict:
    """Medians and quartiles in seconds, and the ratio of the medians."""
    ratio = statistics.median(stock) / statistics.median(fast)
    return {
        "what": what,
        "stock_s": spread(stock),
        "fast_s": spread(fast),
        "ratio": round(ratio, 1),
        "required": REQUIRED.get(what, 0),
    }


def spread(times: list[float]) -> dict[str, float]:
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive") if len(times) > 1 else times * 3
    return {"q1": low, "median": middle, "q3": high, "n": len(times)}


def show(figures: dict) -> None:
    print(f"{figures['game']}\n{'':30} {'stock ms':>24} {'here ms':>26} {'ratio':>10} {'required':>9}")
    for one in figures["rows"]:
        stock, fast = (
            f"{times['median'] * 1e3:.4g} [{times['q1'] * 1e3:.3g}, {times['q3'] * 1e3:.3g}]"
            for times in (one["stock_s"], one["fast_s"])
        )
        print(f"{one['what']:30} {stock:>24} {fast:>26} {one['ratio']:>10,.0f} {one['required'] or '-':>9}")
    print(f"translate once: {figures['translate_s'] * 1e3:.0f} ms, {figures['translation_bytes']:,} bytes")


if __name__ == "__main__":
    main()
