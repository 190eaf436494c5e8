"""Deliver a charge service's events to its merchants: in order, nothing lost, on Postgres alone."""
