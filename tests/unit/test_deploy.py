"""What the examples of `deploy` and the workflow must not lack."""

import re
from ipaddress import ip_network
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "deploy").rglob("*.service"))
MANIFESTS = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())


@pytest.mark.parametrize("unit", UNITS, ids=lambda file: file.name)
def test_a_unit_leaves_no_core_dumps(unit: Path) -> None:
    service = unit.read_text(encoding="utf-8").partition("[Service]")[2].partition("[Install]")[0]
    assert "\nLimitCORE=0\n" in service


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.name)
def test_an_action_is_named_by_its_commit(workflow: Path) -> None:
    used = re.findall(r"uses: (.*)", workflow.read_text(encoding="utf-8"))
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[0-9.]+", action)] == []


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda file: file.name)
def test_a_deployment_has_a_network_policy_and_trusts_few(manifest: Path) -> None:
    resources = [
        (re.findall(r"^kind: (\w+)$", text, re.MULTILINE), re.findall(r"^  name: (\S+)$", text, re.MULTILINE))
        for text in manifest.read_text(encoding="utf-8").split("\n---\n")
    ]
    named = {kind: [name for [found], [name] in resources if found == kind] for [kind], _ in resources}
    assert named["Deployment"]
    assert named["Deployment"] == named["NetworkPolicy"]
    trusted = re.findall(r"TRUSTED_PROXIES, value: \"(.*)\"", manifest.read_text(encoding="utf-8"))
    assert all(
        ip_network(network).num_addresses <= 256 for network in ",".join(trusted).split(",") if network
    )
