"""Builds are told apart by tag and commit: in a checkout, in what is built from it, and in an image."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOLD = "from webhook_dispatcher.version import USER_AGENT, __version__; print(__version__, USER_AGENT)"
ALONE = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def run(folder: Path, *command: str, **variables: str) -> str:
    """Run a command; return all that it prints, warnings too."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("SETUPTOOLS_SCM")}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment | ALONE | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout.strip()


def git(folder: Path, *arguments: str) -> str:
    return run(folder, "git", "-c", "user.name=a", "-c", "user.email=a@example.com", *arguments)


def commit(folder: Path) -> str:
    git(folder, "commit", "--quiet", "--allow-empty", "--message=another state")
    return node(folder)


def node(folder: Path) -> str:
    return "g" + git(folder, "rev-parse", "HEAD")[:9]


def told(package: Path) -> list[str]:
    return run(package, sys.executable, "-W", "error", "-c", TOLD, PYTHONPATH=str(package)).split()


def built(folder: Path, kind: str, **variables: str) -> Path:
    """Build what is in a folder, and unpack that."""
    run(folder, sys.executable, "-m", "hatchling", "build", f"-t{kind}", "-dbuilt", **variables)
    [archive] = (folder / "built").glob("*.whl" if kind == "wheel" else "*.tar.gz")
    unpacked = folder.parent / f"{folder.name}-{kind}"
    shutil.unpack_archive(archive, unpacked, "zip" if kind == "wheel" else "gztar")
    return unpacked if kind == "wheel" else next(unpacked.iterdir())


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """What a wheel is built from, outside of any repository."""
    root = tmp_path / "files"
    for name in ("src", "migrations"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, root)
    return root


@pytest.fixture
def checkout(files: Path) -> Path:
    git(files, "init", "--quiet")
    git(files, "add", ".")
    commit(files)
    return files


def test_each_state_of_a_checkout_has_a_version_of_its_own(checkout: Path) -> None:
    assert told(checkout / "src") == [f"0.1.dev1+{node(checkout)}", "webhook-dispatcher/0.1.dev1"]
    git(checkout, "tag", "0.1.0")
    assert told(checkout / "src") == ["0.1.0", "webhook-dispatcher/0.1.0"]
    second = commit(checkout)
    assert told(checkout / "src") == [f"0.1.1.dev1+{second}", "webhook-dispatcher/0.1.1.dev1"]
    git(checkout, "clone", "--quiet", "--depth=1", "--no-tags", f"file://{checkout}", "../shallow")
    assert told(checkout.parent / "shallow" / "src")[0] == f"0.1.dev1+{second}"


def test_what_is_built_keeps_the_version_of_its_checkout(checkout: Path) -> None:
    git(checkout, "tag", "0.1.0")
    version = f"0.1.1.dev1+{commit(checkout)}"
    sdist = built(checkout, "sdist")
    git(checkout, "tag", "0.2.0")  # later states change nothing
    assert sdist.name == f"webhook_dispatcher-{version}"
    wheel = built(sdist, "wheel")
    assert told(wheel) == [version, "webhook-dispatcher/0.1.1.dev1"]
    assert (wheel / "webhook_dispatcher/migrations/schema.sql").exists()


@pytest.mark.parametrize(
    ("argument", "version"), [("0.1.0", "0.1.0"), ("0.1.dev9+gabc1234", "0.1.dev9+gabc1234"), ("", "0.0")]
)
def test_an_image_has_the_version_it_is_given(files: Path, argument: str, version: str) -> None:
    """And says that it was given none: its context has no repository."""
    image = (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8")
    [variable] = re.findall(r"^ENV (\w+)=\$VERSION$", image, re.MULTILINE)
    assert told(built(files, "wheel", **{variable: argument}))[0] == version
