"""What the examples of `deploy` and the workflow must not lack."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.external_programs import program
from webhook_dispatcher.settings import load_settings

ROOT = Path(__file__).parents[2]
SYSTEMD = ROOT / "deploy" / "systemd"
UNITS = sorted(path.name for path in SYSTEMD.glob("*.service"))
MAX_EXPOSURE = "15"
"""In tenths; most of what is left is that it may reach any address."""
COMMAND = "/opt/webhook-dispatcher/bin/webhook-dispatcher"
ENVIRONMENTS = sorted(SYSTEMD.glob("environment*"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())


def service(file: str) -> str:
    text = (SYSTEMD / file).read_text(encoding="utf-8")
    return text.partition("[Service]")[2].partition("[Install]")[0]


@pytest.mark.parametrize("name", UNITS)
def test_systemd_understands_a_unit_and_finds_it_hardened(name: str, tmp_path: Path) -> None:
    unit = tmp_path / name.replace("@", "@1")
    unit.write_text((SYSTEMD / name).read_text(encoding="utf-8").replace(COMMAND, "/bin/true"))
    analyze = program("systemd-analyze", "systemd")
    for arguments in (["verify"], ["security", "--offline=true", f"--threshold={MAX_EXPOSURE}"]):
        done = subprocess.run([analyze, *arguments, unit], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout


@pytest.mark.parametrize("file", UNITS)
def test_a_unit_leaves_no_core_dumps_and_loses_no_lines(file: str) -> None:
    assert {"LimitCORE=0", "LogRateLimitIntervalSec=0"} <= set(service(file).splitlines())


def test_no_keys_are_loaded_for_programs_that_refuse_them() -> None:
    assert "SECRET_KEYS" in service("webhook-dispatcher.service")
    for file in ("webhook-dispatcher-api.service", "webhook-dispatcher-console.service"):
        assert "SECRET_KEYS" not in service(file)


@pytest.mark.parametrize("file", ENVIRONMENTS, ids=lambda file: file.name)
def test_a_sample_of_settings_is_accepted(file: Path) -> None:
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    settings = load_settings(dict(line.split("=", 1) for line in lines))
    assert settings.installation == "prod-eu1"


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.name)
def test_an_action_is_named_by_its_commit(workflow: Path) -> None:
    used = re.findall(r"uses: (.*)", workflow.read_text(encoding="utf-8"))
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[0-9.]+", action)] == []
