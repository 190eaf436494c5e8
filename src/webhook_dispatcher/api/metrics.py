"""The API's metrics, in a registry of their own; no label holds a merchant, a path or an id.

Source: contract 6.
"""

from collections.abc import Callable, Sequence
from functools import cache

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from webhook_dispatcher.api.catalogue import CATALOGUE

DURATION_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
UPSTREAM_OUTCOMES = ("answered", "refused", "away", "too_slow", "broken")
CLIENT_GONE = 499
"""The status of a request whose client was gone before there was an answer, as nginx has it."""
NO_OPERATION = "none"
"""The operation of a request that did not get as far as one."""


class ApiMetrics:
    """One attribute for each metric, named without `webhook_api_`."""

    def __init__(
        self,
        version: str,
        operations: Sequence[str],
        connections: Callable[[], float],
        readiness: Callable[[], Sequence[str]],
    ) -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "api_requests",
            "Requests that were answered.",
            ["operation", "status"],
            namespace="webhook",
            registry=registry,
        )
        self.duration = Histogram(
            "api_request_duration_seconds",
            "From a request's head to its answer.",
            ["operation"],
            namespace="webhook",
            registry=registry,
            buckets=DURATION_BUCKETS,
        )
        self.refusals = Counter(
            "api_refusals",
            "Requests that were refused, by their error code.",
            ["code"],
            namespace="webhook",
            registry=registry,
        )
        self.upstream = Counter(
            "api_upstream_requests",
            "Requests that were forwarded to the charge service, by what came of them.",
            ["outcome"],
            namespace="webhook",
            registry=registry,
        )
        self.connections = _gauge("api_connections", "Connections that are open.", registry)
        self.connections.set_function(connections)
        self.ready = _gauge("api_ready", "1 while requests can be answered, as `/readyz` says.", registry)
        self.ready.set_function(lambda: float(not readiness()))
        self.build_info = Gauge(
            "api_build_info", "The version that runs.", ["version"], namespace="webhook", registry=registry
        )
        self.build_info.labels(version).set(1)
        self._requests_with, self._duration_of = cache(self.requests.labels), cache(self.duration.labels)
        for operation in (*operations, NO_OPERATION):
            self._duration_of(operation)
        for code in CATALOGUE:
            self.refusals.labels(code)
        for outcome in UPSTREAM_OUTCOMES:
            self.upstream.labels(outcome)

    def count(self, operation: str, status: int, seconds: float, refused: int | None) -> None:
        """Count an answered request. refused: the code of its error."""
        self._requests_with(operation, status).inc()
        self._duration_of(operation).observe(seconds)
        if refused is not None:
            self.refusals.labels(refused).inc()

    def count_upstream(self, outcome: str) -> None:
        """Count a request that was forwarded; outcome: one of UPSTREAM_OUTCOMES."""
        self.upstream.labels(outcome).inc()


def _gauge(name: str, meaning: str, registry: CollectorRegistry) -> Gauge:
    return Gauge(name, meaning, namespace="webhook", registry=registry)
