"""Receive webhooks with FastAPI: verify, keep, answer, and work afterwards."""

import json
import os
import sqlite3
import threading
from contextlib import closing

from fastapi import BackgroundTasks, FastAPI, Request, Response
from verify import refusal  # docs/verify/verify.py

app = FastAPI()
working = threading.Lock()


def inbox(statement: str, *values: object) -> list[tuple[str, bytes]]:
    with closing(sqlite3.connect(os.environ["INBOX"])) as connection, connection:
        return connection.execute(statement, values).fetchall()


@app.post("/webhooks")
async def receive(request: Request, afterwards: BackgroundTasks) -> Response:
    body = await request.body()
    if status := refusal(body, request.headers.get("Service-Signature"), os.environ["SECRET"]):
        return Response(status_code=status)
    inbox("INSERT OR IGNORE INTO inbox (id, body) VALUES (?, ?)", json.loads(body)["id"], body)
    afterwards.add_task(work)
    return Response(status_code=204)


def work() -> None:
    """Work on what is kept, in order. Where that fails, the next event tries again."""
    with working:
        for event_id, body in inbox("SELECT id, body FROM inbox WHERE NOT is_done ORDER BY rowid"):
            print(json.loads(body)["type"], event_id, flush=True)  # yours; after a crash, perhaps once more
            inbox("UPDATE inbox SET is_done = 1 WHERE id = ?", event_id)


inbox("CREATE TABLE IF NOT EXISTS inbox (id TEXT PRIMARY KEY, body BLOB, is_done INT DEFAULT 0)")
threading.Thread(target=work).start()  # what a crash has left
