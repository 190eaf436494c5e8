"""The Partner API: what merchants ask over HTTP. It sees the database by functions and views of its own."""
