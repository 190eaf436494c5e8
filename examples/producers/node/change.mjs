// Change a charge and tell its merchant, in one transaction, with pg.
import pg from "pg";

const UPDATE = "UPDATE charge SET status = $1 WHERE id = $2 RETURNING id, merchant_id, status";
const TELL = "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ($1, $2, $3)";

async function change(pool, chargeId, status) {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    const { rows: [charge] } = await client.query(UPDATE, [status, chargeId]);
    const shown = { id: charge.id, status: charge.status }; // all that GET /v1/charges/{id} answers
    await client.query(TELL, [charge.merchant_id, `charge.${status}`, JSON.stringify(shown)]);
    await client.query("COMMIT");
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  } finally {
    client.release();
  }
}

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
try {
  await change(pool, process.argv[2], process.argv[3]);
} catch (refused) {
  console.error("nothing was changed:", refused.message);
  process.exitCode = 1;
} finally {
  await pool.end();
}
