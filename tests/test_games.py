import errno
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.environment import AlfworldEnvironment, Translation, translate
from pipeline.errors import BadInput, CheckFailed
from pipeline.games import generate as making
from pipeline.games import store, tables
from pipeline.games.command import SPLIT_NAMES, TYPE_NAMES, games
from pipeline.games.contents import Contents, Thing
from pipeline.games.generate import Order, Unproven, build, make, make_all, orders, play
from pipeline.games.index import TASK_TYPES, index_root, summary
from pipeline.games.rooms import LARGEST, SMALLEST, Receptacle, Room, rooms
from pipeline.games.tasks import Task, possible, split_of
from pipeline.games.translate import chosen, translate_all
from pipeline.games.walkthrough import walkthrough
from pipeline.records.tables import read_rows, write_rows

OFFICIAL = Path(__file__).resolve().parents[2] / "shared" / "alfworld" / "valid_seen.tar.xz"
COUNTS = {"train": 12, "valid_seen": 6}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Twelve train and six valid_seen games: two and one of each task type."""
    root = tmp_path_factory.mktemp("games")
    make_all(orders(COUNTS, TYPE_NAMES, 3, "move"), root, 1)
    return root


@pytest.fixture
def copy(made, tmp_path):
    """Two train games that a test may spoil."""
    for trial in sorted((made / "json_2.1.1" / "train").glob("*/*"))[:2]:
        shutil.copytree(trial, tmp_path / trial.relative_to(made))
    return tmp_path


def first_game(root):
    return sorted(root.rglob("game.tw-pddl"))[0]


def spoil(path, **keys):
    """Change keys of a JSON file; None removes one."""
    value = {**json.loads(path.read_text()), **keys}
    path.write_text(json.dumps({key: held for key, held in value.items() if held is not None}))


def parsed(game):
    """A built game as facts: predicate -> argument lists of the start."""
    text = json.loads(game)["pddl_problem"]
    facts = {}
    for name, arguments in re.findall(
        r"\(([A-Za-z]+)((?: [^\s()]+)+)\)", text.partition("(:init")[2].partition("(:goal")[0]
    ):
        facts.setdefault(name, []).append(arguments.split())
    return facts


def tree(root):
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


# --- generated games: what they are


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32 - 1),
    split=st.sampled_from(SPLIT_NAMES),
    task_type=st.sampled_from(TYPE_NAMES),
    number=st.integers(0, 10_000),
)
def test_a_room_is_whole_and_plausible_whatever_the_seed(seed, split, task_type, number):
    order = Order(seed, split, task_type, number, "move")
    game = built(order)
    facts, trajectory = parsed(game.game), json.loads(game.trajectory)
    kind = {name: of.removesuffix("Type") for name, of in facts["objectType"]}
    place = {name: of.removesuffix("Type") for name, of in facts["receptacleType"]}
    lies_in = dict(facts["inReceptacle"])
    assert SMALLEST <= len(place) <= LARGEST
    assert 18 <= len(kind) <= 60
    # Each object in at most one receptacle, which can hold its class; each in one location, that of its receptacle.
    assert len(facts["inReceptacle"]) == len(lies_in)
    assert len(facts["objectAtLocation"]) == len(kind)
    reached = dict(facts["receptacleAtLocation"])
    assert all(dict(facts["objectAtLocation"])[name] == reached[where] for name, where in lies_in.items())
    lamps = {name for name in kind if kind[name] == tables.LAMP}
    contains = {(holder, held) for holder, held in facts["canContain"]}
    assert all(
        (f"{place[where]}Type", f"{kind[name]}Type") in contains for name, where in lies_in.items() if name not in lamps
    )
    # The agent starts in mid-room, everything is closed, nothing is treated or switched on yet.
    assert facts["atLocation"][0][1] not in reached.values()
    assert not set(facts) & {"opened", "holds", "isClean", "isHot", "isCool", "isToggled", "isOn"}
    # Every target lies somewhere that can be reached, and not where it belongs.
    wanted, parent = trajectory["pddl_params"]["object_target"], trajectory["pddl_params"]["parent_target"]
    targets = [name for name in kind if kind[name] == wanted]
    assert (2 if "two" in task_type else 1) <= len(targets) <= 4
    assert all(name in lies_in and [name] in facts["pickupable"] for name in targets)
    if task_type in ("pick_and_place_simple", "pick_two_obj_and_place"):
        assert all(place[lies_in[name]] != parent for name in targets)
    if task_type == "look_at_obj_in_light":
        assert any(name in lies_in for name in lamps)
        assert {name for (name,) in facts["toggleable"]} >= lamps
    # Distractors: other classes, and closed containers in most rooms (not all rooms have one).
    assert len(set(kind.values())) > 5
    assert game.folder.split("-")[0] == task_type == trajectory["task_type"]
    assert game.folder.split("-")[-1] == str(trajectory["scene"]["scene_num"])
    assert max(map(len, re.split(r"[\s()]+", json.loads(game.game)["pddl_problem"]))) <= 120


def built(order):
    """The first attempt that can be furnished."""
    for attempt in range(making.ATTEMPTS):
        try:
            return build(order, attempt)
        except making.Unfurnishable:
            continue
    raise AssertionError(f"{order} cannot be built")


def test_the_mix_of_games_resembles_the_official_ones():
    # Official train games, by the index: walkthroughs 3.6, 4.2, 6.3, 6.2, 6.2, 8.3; receptacles 14.8-34; two-object
    # tasks with extra copies 56%; a target behind a door 5-26%.
    games_of = {kind: [built(Order(11, "train", kind, number, "move")) for number in range(40)] for kind in TYPE_NAMES}
    means = {kind: sum(len(game.walkthrough) for game in some) / 40 for kind, some in games_of.items()}
    assert [means[kind] for kind in TYPE_NAMES] == pytest.approx([3.6, 4.2, 6.3, 6.2, 6.2, 8.3], abs=0.6)
    copies = Counter()
    doors = []
    for kind, some in games_of.items():
        for game in some:
            facts, wanted = parsed(game.game), json.loads(game.trajectory)["pddl_params"]["object_target"]
            targets = [name for name, of in facts["objectType"] if of == f"{wanted}Type"]
            closed = {name for (name,) in facts.get("openable", [])}
            doors += [dict(facts["inReceptacle"])[name] in closed for name in targets]
            copies[kind, len(targets) > 2] += 1
    assert 10 <= copies["pick_two_obj_and_place", True] <= 35
    assert 0.1 < sum(doors) / len(doors) < 0.4


def test_every_split_has_folders_for_every_type_and_shares_none():
    folders = {}
    for room in rooms().values():
        for task_type in TYPE_NAMES:
            for name, parent in possible(task_type, room):
                task = Task(task_type, name, parent, "" if parent else tables.LAMP, room)
                folders.setdefault((split_of(task), task_type), set()).add(task.folder)
    assert {key: len(some) >= 30 for key, some in folders.items()} == {
        (split, kind): True for split in SPLIT_NAMES for kind in TYPE_NAMES
    }
    assert sum(map(len, folders.values())) == len(set().union(*folders.values()))


def test_folders_of_different_seeds_keep_to_their_splits():
    train = {built(Order(seed, "train", kind, 0, "move")).folder for seed in range(20) for kind in TYPE_NAMES}
    held = {built(Order(seed, "valid_seen", kind, 0, "move")).folder for seed in range(20, 40) for kind in TYPE_NAMES}
    unseen = {built(Order(seed, "valid_unseen", kind, 0, "move")).folder for seed in range(5) for kind in TYPE_NAMES}
    assert not train & held
    assert len(train) > 100
    assert {int(folder.rsplit("-", 1)[1]) for folder in unseen} <= tables.UNSEEN_SCENES
    assert not {int(folder.rsplit("-", 1)[1]) for folder in train | held} & tables.UNSEEN_SCENES


# --- generated games: reproducible, proven, resumable


def test_bytes_depend_on_the_seed_alone():
    code = (
        "import hashlib\nfrom pipeline.games.generate import build, orders\nfrom pipeline.games.command import TYPE_NAMES\n"
        "h = hashlib.sha256()\n"
        "for order in orders({'train': 6, 'valid_unseen': 6}, TYPE_NAMES, 5, 'move'):\n"
        "    game = build(order, 0)\n    h.update(repr(game).encode())\nprint(h.hexdigest())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "4321")
    }
    assert len(seen) == 1
    hasher = hashlib.sha256()
    for order in orders({"train": 6, "valid_unseen": 6}, TYPE_NAMES, 5, "move"):
        hasher.update(repr(build(order, 0)).encode())
    assert seen == {hasher.hexdigest() + "\n"}


def test_more_games_or_fewer_types_change_no_game():
    few, many = (
        orders({"train": 6}, TYPE_NAMES, 3, "move"),
        orders({"valid_seen": 7, "train": 90}, TYPE_NAMES, 3, "move"),
    )
    assert set(few) <= set(many)
    assert set(orders({"train": 5}, TYPE_NAMES[:1], 3, "move")) <= set(many)
    assert len({order.trial for order in many}) == 97


def test_every_type_is_made_and_won_by_its_walkthrough(made):
    found = sorted(made.rglob("game.tw-pddl"))
    kinds = Counter(json.loads(path.with_name("traj_data.json").read_text())["task_type"] for path in found)
    assert kinds == dict.fromkeys(TYPE_NAMES, 3)
    for path in sorted(made.glob("json_2.1.1/valid_seen/*/*/game.tw-pddl")):
        with AlfworldEnvironment(translate(path)) as environment:
            environment.replay(json.loads(path.read_text())["walkthrough"])
            assert environment.won
            assert environment.verb == "move"
    assert not list((made / store.PARTS).iterdir())


@pytest.mark.slow
def test_alfworlds_own_environment_plays_and_wins_a_sample(made, tmp_path):
    from alfworld.agents.environment.alfred_tw_env import AlfredTWEnv

    shutil.copytree(made / "json_2.1.1" / "valid_seen", tmp_path / "valid_seen")
    configuration = {
        "dataset": {"eval_id_data_path": str(tmp_path / "valid_seen"), "num_eval_games": -1},
        "env": {
            "goal_desc_human_anns_prob": 0,
            "task_types": [1, 2, 3, 4, 5, 6],
            "domain_randomization": False,
            "expert_type": "handcoded",
        },
        "general": {"training_method": "dqn"},
        "rl": {"training": {"max_nb_steps_per_episode": 64}},
    }
    environment = AlfredTWEnv(configuration, train_eval="eval_in_distribution")
    assert len(environment.game_files) == 6
    played = environment.init_env(batch_size=1)
    seen = set()
    for _ in range(6):
        _, infos = played.reset()
        path = Path(infos["extra.gamefile"][0])
        seen.add(path)
        for command in json.loads(path.read_text())["walkthrough"]:
            assert command in infos["admissible_commands"][0]
            _, _, _, infos = played.step([command])
        assert infos["won"][0]
    played.close()
    assert len(seen) == 6


def test_the_older_wording_is_the_same_room(tmp_path):
    new, old = (build(Order(4, "train", "pick_and_place_simple", 2, verb), 0) for verb in ("move", "put"))
    assert new.folder == old.folder
    assert new.trial != old.trial
    room = json.loads(old.game)["pddl_problem"].replace(old.trial, new.trial)
    assert room == json.loads(new.game)["pddl_problem"]
    with AlfworldEnvironment(translate(old.game.encode())) as environment:
        *_, text = environment.replay(old.walkthrough)
        assert environment.verb == "put"
        assert environment.won
    assert re.fullmatch(r"put (\w+ \d+) in/on (\w+ \d+)", old.walkthrough[-1])
    assert re.fullmatch(r"You put the (\w+ \d+) in/on the (\w+ \d+)\.", text)


def test_the_walkthrough_does_not_go_where_it_stands_already():
    drawer = Receptacle("Drawer|+01.00|+00.50|+01.00", "Drawer", "loc|4|4|0|30")
    desk = Receptacle("Desk|+01.00|+00.80|+01.00", "Desk", "loc|4|4|0|30")
    room = Room(301, "Bedroom", (desk, drawer), ("Pen",), ((0, 0),))
    pen = Thing("Pen|+01.00|+00.55|+01.00", "Pen", drawer, drawer.location)
    task = Task("pick_and_place_simple", "Pen", "Desk", "", room)
    steps = ["go to drawer 1", "open drawer 1", "take pen 1 from drawer 1", "move pen 1 to desk 1"]
    assert walkthrough(task, Contents((pen,), "loc|0|0|0|30"), "move") == steps
    with pytest.raises(ValueError, match="nothing to take"):
        walkthrough(task, Contents((), "loc|0|0|0|30"), "move")


def test_a_walkthrough_that_fails_proves_nothing():
    game = build(Order(4, "train", "pick_clean_then_place_in_recep", 0, "move"), 0)
    steps = game.walkthrough
    with AlfworldEnvironment(translate(game.game.encode())) as environment:
        play(environment, steps)
        for wrong, message in (
            (steps[:-1], "the walkthrough does not win"),
            ((*steps, "look"), f"won before command {len(steps) + 1}"),
            (("take moon 1 from sky 1", *steps), "command 1, 'take moon 1 from sky 1', was refused"),
        ):
            with pytest.raises(Unproven, match=message):
                play(environment, wrong)


def test_a_game_that_cannot_be_won_is_drawn_again_and_never_written(tmp_path, monkeypatch, capsys):
    order = Order(4, "train", "pick_and_place_simple", 0, "move")

    def refuse(game):
        raise Unproven(f"{game.folder}/{game.trial}: the walkthrough does not win")

    monkeypatch.setattr(making, "prove", refuse)
    monkeypatch.setattr(making, "ATTEMPTS", 3)
    with pytest.raises(CheckFailed, match="none of 3 draws gave a game"):
        make(order, tmp_path)
    assert not list(tmp_path.rglob("*.tw-pddl"))

    tries = []
    monkeypatch.setattr(making, "prove", lambda game: refuse(game) if not tries and not tries.append(game) else None)
    made = make(order, tmp_path)
    assert len(made.unproven) == 1
    assert [path.parents[1].name for path in tmp_path.rglob("*.tw-pddl")] == [build(order, 1).folder]
    making.report([made])
    assert "1 made, 0 kept" in capsys.readouterr().err


def test_a_rerun_keeps_what_stands_and_mends_the_rest(copy, made):
    before = tree(copy)
    good, bad = sorted(copy.rglob("game.tw-pddl"))
    stamp = good.stat().st_mtime_ns
    bad.write_bytes(bad.read_bytes()[:500])
    old, young = copy / store.PARTS / "killed", copy / store.PARTS / "running"
    for part in (old, young):
        part.mkdir(parents=True)
    os.utime(old, (0, 0))
    store.clear_parts(copy)
    assert [part.name for part in (copy / store.PARTS).iterdir()] == ["running"]
    twins = [order for order in orders(COUNTS, TYPE_NAMES, 3, "move") if order.trial in "".join(before)]
    assert Counter(one.kept for one in make_all(twins, copy, 1)) == {True: 1, False: 1}
    assert good.stat().st_mtime_ns == stamp
    bad.with_name("traj_data.json").unlink()
    assert Counter(one.kept for one in make_all(twins, copy, 1)) == {True: 1, False: 1}
    assert tree(copy) == before


def test_a_full_disk_is_named_and_leaves_nothing_half_written(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BadInput, match=r"trial_G1: cannot be written \(No space left on device\)"):
        store.put_game(tmp_path, "train", "folder", "trial_G1", "game", "trajectory")
    assert tree(tmp_path) == {}


def test_two_runs_of_the_same_settings_do_not_harm_each_other(tmp_path, monkeypatch):
    files = (tmp_path, "train", "folder", "trial_G1", "game", "trajectory")
    rename = Path.rename

    def overtaken(path, place):
        if path.name == "new":
            monkeypatch.setattr(Path, "rename", rename)
            store.put_game(*files)
        return rename(path, place)

    monkeypatch.setattr(Path, "rename", overtaken)
    store.put_game(*files)
    assert store.stored_game(*files)
    assert len(tree(tmp_path)) == 2


# --- the index


def test_the_index_tells_what_the_games_are(made):
    index = index_root(made)
    assert not index.excluded
    assert Counter(row["split"] for row in index.rows) == COUNTS
    assert [row["task"] for row in index.rows] == sorted(row["task"] for row in index.rows)
    for row in index.rows:
        content = (made / row["path"]).read_bytes()
        facts = parsed(content)
        assert row["sha256"] == hashlib.sha256(content).hexdigest()
        assert row["task"] == f"{row['folder']}/{Path(row['path']).parent.name}"
        assert (row["verb"], row["task_type"]) == ("move", row["folder"].split("-")[0])
        assert (row["receptacles"], row["objects"]) == (len(facts["receptacleType"]), len(facts["objectType"]))
        assert row["walkthrough_actions"] == len(json.loads(content)["walkthrough"])
    folders = {split: {row["folder"] for row in index.rows if row["split"] == split} for split in COUNTS}
    assert not folders["train"] & folders["valid_seen"]
    assert sum(row["games"] for row in summary(index)) == 18


def test_the_inner_folder_serves_as_root_too(made):
    inner = index_root(made / "json_2.1.1", splits=["train"])
    assert [row["sha256"] for row in inner.rows] == [row["sha256"] for row in index_root(made, splits=["train"]).rows]
    assert all((made / "json_2.1.1" / row["path"]).is_file() for row in inner.rows)


def test_the_official_games_index_whole(tmp_path):
    if not OFFICIAL.is_file():
        pytest.skip(f"{OFFICIAL} is absent: the official games are no part of this repository")
    with tarfile.open(OFFICIAL) as archive:
        archive.extractall(tmp_path, filter="data")
    index = index_root(tmp_path)
    assert len(index.rows) == 140
    assert {row["verb"] for row in index.rows} == {"move"}
    assert {row["task_type"] for row in index.rows} == set(TASK_TYPES)
    assert not index.excluded


WRONG = {
    "truncated": (lambda game, _: game.write_bytes(game.read_bytes()[:2000]), "no complete JSON"),
    "no grammar": (lambda game, _: spoil(game, grammar=None), "'grammar'"),
    "wrong grammar": (
        lambda game, _: spoil(
            game, grammar=json.loads(game.read_text())["grammar"].replace("move {o} to", "stash {o} at")
        ),
        "places objects by 'stash {o} at",
    ),
    "no walkthrough": (lambda game, _: spoil(game, walkthrough=None), "'walkthrough' is missing"),
    "no goal": (lambda game, _: spoil(game, pddl_problem="(define (problem p) (:init ))"), r"has no \(:goal"),
    "hostile": (
        lambda game, _: spoil(
            game, grammar=json.loads(game.read_text())["grammar"].replace("You close the {r.name}", "{print('owned')}")
        ),
        "owned",
    ),
    "trajectory missing": (lambda _, trajectory: trajectory.unlink(), "traj_data.json"),
    "trajectory truncated": (lambda _, trajectory: trajectory.write_text('{"task_type": "pi'), "no complete JSON"),
    "trajectory without type": (lambda _, trajectory: trajectory.write_text("{}"), "'task_type' is missing"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_damaged_game_is_named_or_left_out_by_name(copy, fault, capfd):
    game = first_game(copy)
    wreck, message = WRONG[fault]
    wreck(game, game.with_name("traj_data.json"))
    with pytest.raises(BadInput, match=message) as error:
        index_root(copy)
    assert game.parent.name in str(error.value)
    index = index_root(copy, skip_bad=True)
    assert (len(index.rows), index.counts()) == (1, [("train", "damaged", 1)])
    assert game.parent.name in index.excluded[0][2]
    assert "owned" not in capfd.readouterr().out


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda game: spoil(game, solvable=False), "unsolvable"),
        (lambda game: spoil(game, solvable=None), "not known to be solvable"),
        (lambda game: game.unlink(), "no game file"),
        (
            lambda game: spoil(game.with_name("traj_data.json"), task_type="pick_and_place_with_movable_recep"),
            "task type pick_and_place_with_movable_recep",
        ),
        (
            lambda game: game.parents[1].rename(game.parents[2] / "pick_heat-AppleSliced-None-Fridge-1"),
            "movable or sliced",
        ),
    ],
)
def test_what_alfworld_would_not_play_is_counted(copy, change, reason):
    change(first_game(copy))
    index = index_root(copy)
    assert (len(index.rows), index.counts()) == (1, [("train", reason, 1)])


def test_a_game_listed_twice_is_named(copy):
    game = first_game(copy)
    twin = copy / "json_2.1.1" / "valid_seen" / game.parents[1].name / game.parent.name
    shutil.copytree(game.parent, twin)
    with pytest.raises(BadInput, match=r"listed twice, it has the same task as json_2\.1\.1/train"):
        index_root(copy)
    twin.rename(twin.with_name("trial_other"))
    with pytest.raises(BadInput, match="listed twice, it has the same sha256 as"):
        index_root(copy)
    with pytest.raises(BadInput, match=r"valid_seen: the split has no usable game \(1 damaged\)"):
        index_root(copy, skip_bad=True)


def test_an_empty_split_and_an_empty_root_are_errors(copy, tmp_path):
    (copy / "json_2.1.1" / "valid_seen").mkdir()
    with pytest.raises(BadInput, match=r"valid_seen: the split has no usable game \(no trial folder at all\)"):
        index_root(copy)
    with pytest.raises(BadInput, match="valid_unseen"):
        index_root(copy, splits=["valid_unseen"])
    with pytest.raises(BadInput, match="holds no games"):
        index_root(tmp_path / "nowhere")


# --- translations and the command


def test_translations_are_those_of_the_indexed_files(copy):
    rows = index_root(copy).rows
    table = translate_all(chosen(rows, None, copy), 1)
    assert [row["task"] for row in table] == [row["task"] for row in rows]
    for row, game in zip(table, rows, strict=True):
        assert Translation.from_bytes(row["translation"]).game_sha256 == row["sha256"] == game["sha256"]
    assert [unit[0] for unit in chosen(rows, [rows[1]["task"]], copy)] == [rows[1]["task"]]
    with pytest.raises(BadInput, match="nothing/here: not in the games table"):
        chosen(rows, ["nothing/here"], copy)
    with pytest.raises(BadInput, match="no game to translate"):
        chosen(rows, [], copy)
    path = copy / rows[0]["path"]
    path.write_text(path.read_text() + " ")
    with pytest.raises(BadInput, match=r"game\.tw-pddl: has changed since it was indexed"):
        translate_all(chosen(rows, None, copy), 1)
    path.unlink()
    with pytest.raises(BadInput, match="--root"):
        translate_all(chosen(rows, None, copy), 1)


@pytest.mark.slow
def test_processes_change_no_byte(copy, tmp_path_factory):
    rows = index_root(copy).rows
    units = chosen(rows, None, copy)
    assert translate_all(units, 2) == translate_all(units, 1)
    elsewhere = tmp_path_factory.mktemp("again")
    before = tree(copy)
    twins = [order for order in orders(COUNTS, TYPE_NAMES, 3, "move") if order.trial in "".join(before)]
    make_all(twins, elsewhere, 2)
    assert tree(elsewhere) == before


def test_the_commands_do_it_all(tmp_path):
    root, table = tmp_path / "games", tmp_path / "games.parquet"
    config = {
        "seed": 8,
        "splits": {"train": 1, "valid_unseen": 1},
        "task_types": ["pick_and_place_simple"],
        "verb": "put",
    }
    keys = json.dumps({"games": {"generate": config}})
    ran = run("generate", "--out", root, "--settings", keys, "--index", table, "--format", "json")
    assert json.loads(ran.stdout)["games"] == 2
    assert "2 made, 0 kept" in ran.stderr
    plain = ["--split", "train=1", "--split", "valid_unseen=1", "--seed", 8, "--task-types", "pick_and_place_simple"]
    again = run("generate", "--out", root, *plain, "--verb", "put", "--format", "csv")
    assert "0 made, 2 kept" in again.stderr
    assert again.stdout.splitlines()[0].startswith("split,task_type,games")
    ran = run("index", root, "--out", tmp_path / "indexed.parquet")
    assert "2 games" in ran.stdout
    assert read_rows(tmp_path / "indexed.parquet", "games") == read_rows(table, "games")
    rows = read_rows(table, "games")
    assert {row["verb"] for row in rows} == {"put"}
    columns = {"cohort": "c", "role": "fit", "rank": 0}
    columns |= {name: rows[0][name] for name in ("task", "folder", "task_type", "sha256")}
    write_rows(tmp_path / "candidates.parquet", [columns], "candidates")
    run("translate", table, "--root", root, "--only", tmp_path / "candidates.parquet", "--out", tmp_path / "t.parquet")
    assert [row["task"] for row in read_rows(tmp_path / "t.parquet", "translations")] == [rows[0]["task"]]


def run(*arguments):
    ran = CliRunner().invoke(games, [str(argument) for argument in arguments], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return ran


@pytest.mark.parametrize("pair", ["train", "train=0", "train=many", "test=3"])
def test_a_wrong_split_is_named(pair):
    with pytest.raises(BadInput, match=f"--split {pair}"):
        making.parse_splits([pair])
    with pytest.raises(BadInput, match="given twice"):
        making.parse_splits(["train=1", "train=2"])


def test_the_lists_of_task_types_agree():
    from pipeline.config.models import TASK_TYPES as CONFIGURED

    assert TYPE_NAMES == TASK_TYPES == tuple(tables.ROOM_SHARES) == CONFIGURED
    assert SPLIT_NAMES == store.SPLITS
    assert {kind: set(shares) for kind, shares in tables.ROOM_SHARES.items()} == {
        kind: set(tables.constants.GOALS_VALID[kind]) for kind in TYPE_NAMES
    }
