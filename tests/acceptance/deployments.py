"""`make manifests`: what `deploy` has for Kubernetes and Docker, held against schemas; compose.yaml delivers.

HELM names the program. `make test` leaves this out: what it takes is not in requirements.lock.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import asyncpg
import check_jsonschema
import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.acceptance.processes import Daemon
from tests.servers.database import own_server
from tests.waiting import MAX_WAIT, until
from webhook_dispatcher.local.postgres import EmbeddedPostgres

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/webhook-dispatcher"
COMPOSE = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs/operate/docker.md").read_text(encoding="utf-8")
SCHEMA = Path(check_jsonschema.__file__).parent / "builtin_schemas/vendor/compose-spec.json"
KUBERNETES = ("1.28", "1.34")
LEAST = ("--set", "installation=prod-eu1", "--set", "database.cidrs={10.0.9.5/32}")
ALL = (*LEAST, "--set", "database.ca=db-ca", "--set", "serviceMonitor.enabled=true")
FEW = (*LEAST, "--set", "console.enabled=false", "--set", "migrate.enabled=false")


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([os.environ["HELM"], *arguments], capture_output=True, text=True, check=False)


def rendered(*arguments: str) -> list[dict[str, Any]]:
    done = helm("template", "prod", str(CHART), f"--kube-version={KUBERNETES[-1]}", *arguments)
    assert done.returncode == 0, done.stderr
    return [resource for resource in yaml.safe_load_all(done.stdout) if resource]


def names(resources: list[dict[str, Any]], kind: str) -> list[str]:
    return sorted(resource["metadata"]["name"] for resource in resources if resource["kind"] == kind)


@pytest.mark.parametrize("values", [LEAST, ALL, FEW], ids=["least", "all", "few"])
@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_takes_what_the_chart_makes(values: tuple[str, ...], version: str) -> None:
    linted = helm("lint", "--strict", f"--kube-version={version}", str(CHART), *values)
    assert linted.returncode == 0, linted.stdout + linted.stderr
    resources = rendered(*values)
    for resource in resources:
        if resource["kind"] != "ServiceMonitor":  # its schema is the operator's
            kubernetes_validate.validate(resource, version, strict=True)
    programs = names(resources, "Deployment")
    assert programs == ["prod-api", *["prod-console"] * (values != FEW), "prod-dispatcher"]
    for kind in ("NetworkPolicy", "PodDisruptionBudget", "Service"):
        assert names(resources, kind) == programs
    assert len(names(resources, "Job")) == (values != FEW)
    assert names(resources, "ServiceMonitor") == (["prod-api", "prod-dispatcher"] if values == ALL else [])


def test_every_container_is_confined_and_has_its_own_secret() -> None:
    pods = [
        resource["spec"]["template"]["spec"] for resource in rendered(*ALL) if "template" in resource["spec"]
    ]
    assert len(pods) == 4
    for pod in pods:
        [container] = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert not pod["automountServiceAccountToken"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert {"name": "WEBHOOK_INSTALLATION", "value": "prod-eu1"} in container["env"]
        assert container["volumeMounts"][-1]["mountPath"] == "/etc/webhook-dispatcher"
    secrets = [pod["containers"][0]["envFrom"][0]["secretRef"]["name"] for pod in pods]
    assert len(set(secrets)) == 4


def test_a_job_that_has_run_is_applied_again_and_another_version_is_another_job() -> None:
    [job], [again], [later] = (
        names(rendered(*LEAST, *more), "Job") for more in ((), (), ("--set", "image.tag=0.2.0"))
    )
    assert job == again != later


def test_what_must_be_given_is_asked_for() -> None:
    for arguments, said in (((), "installation"), (LEAST[:2], "database.cidrs")):
        asked = helm("template", "prod", str(CHART), f"--kube-version={KUBERNETES[-1]}", *arguments)
        assert said in asked.stderr


def test_compose_takes_what_is_written_for_it() -> None:
    jsonschema.validate(COMPOSE, yaml.safe_load(SCHEMA.read_text(encoding="utf-8")))
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", ())]
    assert ports
    assert all(ip_network(port.split(":")[0]).is_loopback for port in ports)


def asked_of_compose() -> list[list[str]]:
    """Return the commands that the page has people run as the administrator."""
    return [
        shlex.split(line)
        for line in re.findall(r"^\$ docker compose run --rm admin (.*)", PAGE, re.MULTILINE)
    ]


class Composed:
    """Services of compose.yaml as processes: their commands and environments, and the server's socket."""

    def __init__(self, server: EmbeddedPostgres, folder: Path) -> None:
        self._folder = folder
        self._socket = unquote(server.dsn().partition("host=")[2].partition("&")[0])
        self._given = {"WEBHOOK_SECRET_KEYS": f"k1:{'A' * 43}=", "LISTEN_SECRET": ""}

    def environment(self, name: str) -> dict[str, str]:
        """Return a service's environment, with what its user exports."""
        given: Mapping[str, str] = COMPOSE["services"][name].get("environment", {})
        return {
            "PATH": os.environ["PATH"],
            **{key: self._of(value) for key, value in given.items()},
        }

    def _of(self, value: str) -> str:
        value = re.sub(r"\$\{(\w+):[^}]*\}", lambda found: self._given[found[1]], value)
        value = value.replace("/run/postgresql", self._socket).replace(
            "/run/webhook-dispatcher", str(self._folder)
        )
        return re.sub(r"0\.0\.0\.0:\d+", "127.0.0.1:0", value)

    def command(self, name: str, *arguments: str) -> list[str]:
        return [
            str(Path(sys.executable).with_name("webhook-dispatcher")),
            *(arguments or COMPOSE["services"][name].get("command", ["run"])),
        ]

    def run(self, name: str, *arguments: str) -> str:
        done = subprocess.run(
            self.command(name, *arguments),
            env=self.environment(name),
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=MAX_WAIT,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def running(self, name: str) -> Iterator[Path]:
        """Have a service run; what it wrote is in the file that is returned."""
        written = self._folder / f"{name}.log"
        with written.open("wb") as log:
            process = subprocess.Popen(
                self.command(name), env=self.environment(name), cwd=self._folder, stdout=log, stderr=log
            )
        daemon = Daemon(process, written)
        try:
            yield written
        finally:
            daemon.terminate()
            assert process.wait(MAX_WAIT) == 0, written.read_text()


async def test_the_commands_of_the_page_lead_to_a_delivery_and_a_code(tmp_path: Path) -> None:
    with own_server({}) as server, ExitStack() as running:
        await make_database(server)
        composed = Composed(server, tmp_path)
        assert "made:" in composed.run("migrate")
        received = [
            running.enter_context(composed.running(name))
            for name in ("receiver", "dispatcher", "api", "console")
        ]
        said = [composed.run("admin", *arguments) for arguments in asked_of_compose()]
        assert len(said) == 4
        assert "delivered" in said[1]
        await until(partial(has, received[0], "webhook.test"))
        for name, log in (("api", received[2]), ("console", received[3])):
            await until(partial(has, log, f"{name}.started"))
        assert re.fullmatch(r"[0-9A-Z]{5}-[0-9A-Z]{5}\n", said[3])


def has(file: Path, text: str) -> bool:
    return text in file.read_text()


async def make_database(server: EmbeddedPostgres) -> None:
    connection = await asyncpg.connect(server.dsn())
    try:
        await connection.execute("CREATE DATABASE charges")
    finally:
        await connection.close()
