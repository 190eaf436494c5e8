"""Runs one plain SQL file as an Alembic migration."""

from pathlib import Path

from alembic import op


def run_sql_file(name: str) -> None:
    """Execute, or print in offline mode, a file of the migrations' folder as it stands."""
    context = op.get_context()
    assert context.script is not None
    text = (Path(context.script.dir) / name).read_text(encoding="utf-8")
    if context.as_sql:
        context.impl.static_output(text)
        return
    assert context.connection is not None
    adapted = context.connection.connection.dbapi_connection
    assert adapted is not None
    # The driver's own execute takes many statements at once; SQLAlchemy's prepares one.
    adapted.run_async(lambda connection: connection.execute(text))
