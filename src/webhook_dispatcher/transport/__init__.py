"""Sending: which addresses may be dialled, and how a request is sent."""
