"""Composition root: from settings to exit, in this process or as a supervisor of several."""
