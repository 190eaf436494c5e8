// The same program on the types that openapi-typescript makes (test_generated_clients.py).
import createClient from "openapi-fetch";
import type { paths } from "./partner_api.ts";

declare const process: { env: Record<"API" | "CLIENT_ID" | "CLIENT_SECRET" | "WEBHOOK_URL", string> };
const { env } = process;
const client = createClient<paths>({ baseUrl: env.API });

function found<T>(answer: { data?: T; error?: unknown }): T {
  if (answer.data === undefined) throw new Error(`refused: ${JSON.stringify(answer.error)}`);
  return answer.data;
}

const body = { clientId: env.CLIENT_ID, clientSecret: env.CLIENT_SECRET };
const issued = found(await client.POST("/v1/auth/token", { body }));
const accessToken = "data" in issued ? issued.data.accessToken : issued.access_token;
client.use({ onRequest: ({ request }) => request.headers.set("Authorization", `Bearer ${accessToken}`) });

const put = found(await client.PUT("/v1/webhook", { body: { url: env.WEBHOOK_URL } })).data;
let failed: string | undefined;
while ((failed = (await failures())[0]?.eventId) === undefined) await new Promise((end) => setTimeout(end, 50));
const unknown = await client.GET("/v1/deliveries/{eventId}", {
  params: { path: { eventId: crypto.randomUUID() }, header: { "Accept-Language": "uz" } },
});
found(
  await client.POST("/v1/deliveries/{eventId}/retry", {
    params: { path: { eventId: failed }, header: { "Idempotency-Key": "again" } },
  }),
);
const secret = "secret" in put ? put.secret?.slice(0, 6) : null;
console.log(JSON.stringify({ secret, eventId: failed, code: unknown.error?.error.code }));

async function failures() {
  return found(await client.GET("/v1/deliveries", { params: { query: { state: "failed", limit: 1 } } })).data;
}
