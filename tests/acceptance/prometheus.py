"""A Prometheus of the test's own: it scrapes daemons once a second, evaluates the rules, and is asked."""

import json
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

from tests.acceptance.processes import http_get
from tests.external_programs import program
from tests.spent import spending
from tests.waiting import until_found

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yaml"
CONFIGURATION = """
global: {{ scrape_interval: 1s, evaluation_interval: 1s }}
rule_files: [{rules}]
scrape_configs:
  - job_name: webhook-dispatcher
    static_configs: [{{ targets: {targets} }}]
"""


class Prometheus:
    """Runs while entered. ports: where the daemons serve their metrics."""

    def __init__(self, folder: Path, ports: Sequence[int]) -> None:
        self._folder = folder
        self._targets = [f"127.0.0.1:{port}" for port in ports]

    async def __aenter__(self) -> Self:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        configuration = self._folder / "prometheus.yaml"
        configuration.write_text(
            CONFIGURATION.format(rules=json.dumps(str(RULES)), targets=json.dumps(self._targets))
        )
        self._log = (self._folder / "prometheus.log").open("wb")
        self._process = subprocess.Popen(
            [
                program("prometheus", "prometheus"),
                f"--config.file={configuration}",
                f"--storage.tsdb.path={self._folder / 'prometheus'}",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._log,
        )
        try:
            with spending("starting programs"):
                await until_found(self._is_ready)
        except BaseException:
            self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()

    async def _is_ready(self) -> bool:
        if self._process.poll() is not None:
            raise AssertionError((self._folder / "prometheus.log").read_text())
        try:
            status, _ = await http_get(self._port, "/-/ready")
        except OSError:
            return False
        return status == 200

    async def asked(self, path: str, **parameters: str) -> Any:
        """Ask its API; return what it answers, which must be no error."""
        status, text = await http_get(self._port, f"/api/v1/{path}?{urlencode(parameters)}")
        assert status == 200, f"{parameters}: {text}"
        return json.loads(text)["data"]

    async def values(self, expression: str) -> list[float]:
        """Evaluate an expression now; return the value of each series."""
        data = await self.asked("query", query=expression)
        return [float(series["value"][1]) for series in data["result"]]

    async def rules(self) -> list[dict[str, Any]]:
        """Return all rules, with how they fared, once each has been evaluated."""

        async def evaluated() -> list[dict[str, Any]] | None:
            groups = (await self.asked("rules"))["groups"]
            rules: list[dict[str, Any]] = [rule for group in groups for rule in group["rules"]]
            return rules if rules and all(rule["health"] != "unknown" for rule in rules) else None

        return await until_found(evaluated)
