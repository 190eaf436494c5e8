"""The Partner API: what merchants' programs ask by HTTP."""
