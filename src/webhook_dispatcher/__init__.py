"""Deliver a charge service's events to its merchants: in order, nothing lost, on Postgres alone."""

from importlib.metadata import version

__version__ = version("webhook-dispatcher")
