"""The Partner API: what merchants ask over HTTP. It sees the database by its own views and functions."""
