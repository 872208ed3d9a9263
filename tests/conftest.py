"""Fixtures shared by the test files: real ALFWorld games where they lie beside the project."""

import os
import tarfile
import tempfile
from pathlib import Path

import pytest

# Module fixtures play too: no test may find the episodes of an earlier run, or leave any in the checkout.
_SESSION_STORE = tempfile.TemporaryDirectory(prefix="cir-store-")
os.environ["CIR_STORE"] = _SESSION_STORE.name

SHARED = Path(__file__).resolve().parents[2] / "shared" / "alfworld"


@pytest.fixture(autouse=True)
def own_store(tmp_path, monkeypatch):
    """Each test has a store of its own, unless it names one."""
    monkeypatch.setenv("CIR_STORE", str(tmp_path / "store"))


@pytest.fixture(scope="session")
def has_real_games() -> bool:
    """Whether the real games lie beside the project."""
    return SHARED.is_dir()


@pytest.fixture(scope="session")
def real_games(tmp_path_factory):
    """`real_games(split, per_type)`: paths of the first games of each task type, unpacked into a temporary folder.

    Splits: valid_seen, train. Skips the test, with the reason, where ../shared/alfworld is absent.
    """
    unpacked: dict[str, Path] = {}

    def factory(split: str = "valid_seen", per_type: int = 1) -> list[Path]:
        archive = SHARED / f"{split}.tar.xz"
        if not archive.is_file():
            pytest.skip(f"real games are not here ({archive.name} is looked for in ../shared/alfworld)")
        if split not in unpacked:
            unpacked[split] = tmp_path_factory.mktemp(split)
        root = unpacked[split]
        wanted: dict[str, list[str]] = {}
        with tarfile.open(archive) as tar:
            members = {member.name: member for member in tar.getmembers()}
            for name in sorted(members):
                if name.endswith("/game.tw-pddl"):
                    folder = name.split("/")[-3]
                    kept = wanted.setdefault(folder.split("-")[0], [])
                    # One game per folder: trials of a folder are near twins.
                    if len(kept) < per_type and folder not in {one.split("/")[-3] for one in kept}:
                        kept.append(name)
            names = sorted(name for kept in wanted.values() for name in kept)
            missing = [name for name in names if not (root / name).is_file()]
            # Archives are read in their order, so that each block is unpacked once.
            files = [
                name.replace("game.tw-pddl", file) for name in missing for file in ("game.tw-pddl", "traj_data.json")
            ]
            for name in sorted(files, key=lambda one: members[one].offset):
                tar.extract(members[name], root, filter="data")
        return [root / name for name in names]

    return factory
