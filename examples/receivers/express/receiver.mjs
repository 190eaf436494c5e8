// Receive webhooks with Express: verify, keep, answer, and work afterwards. Node 24 or later, for its SQLite.
import { DatabaseSync } from "node:sqlite";
import express from "express";
import { refusal } from "./verify.mjs"; // docs/verify/verify.mjs

const inbox = new DatabaseSync(process.env.INBOX);
inbox.exec("CREATE TABLE IF NOT EXISTS inbox (id TEXT PRIMARY KEY, body TEXT, is_done INT DEFAULT 0)");
const keep = inbox.prepare("INSERT OR IGNORE INTO inbox (id, body) VALUES (?, ?)");
const first = inbox.prepare("SELECT id, body FROM inbox WHERE NOT is_done ORDER BY rowid LIMIT 1");
const done = inbox.prepare("UPDATE inbox SET is_done = 1 WHERE id = ?");

// Works on what is kept, in order. Where that fails, the next event tries again.
let isWorking = false;
async function work() {
  if (isWorking) return;
  isWorking = true;
  try {
    for (let kept; (kept = first.get()); done.run(kept.id)) {
      console.log(JSON.parse(kept.body).type, kept.id); // yours, awaited; after a crash, perhaps once more
    }
  } catch (error) {
    console.error(error);
  } finally {
    isWorking = false;
  }
}

const app = express();
app.post("/webhooks", express.raw({ type: () => true, limit: "1mb" }), (request, response) => {
  const status = refusal(request.body, request.headers["service-signature"], process.env.SECRET);
  if (status) return response.sendStatus(status);
  keep.run(JSON.parse(request.body).id, request.body.toString());
  response.sendStatus(204);
  setImmediate(work);
});
app.listen(process.env.PORT, "127.0.0.1");
work(); // what a crash has left
