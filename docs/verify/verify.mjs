// Verify a webhook's signature. Pass the raw body, as a Buffer, before anything parses it.
import { createHmac, timingSafeEqual } from "node:crypto";

const TOLERANCE = 300; // seconds

// Returns the status to refuse an event with, or null to accept it: 401 wrong signature, 400 stale.
// header: `Service-Signature`; any one `v1` is enough (two during a rotation).
export function refusal(body, header, secret) {
  const parts = typeof header === "string" ? header.split(",").map((part) => part.trim()) : [];
  const stamps = parts.filter((part) => part.startsWith("t=")).map((part) => part.slice(2));
  const signatures = parts.filter((part) => /^v1=[0-9a-f]{64}$/.test(part)).map((part) => part.slice(3));
  if (stamps.length !== 1 || !/^[0-9]{1,12}$/.test(stamps[0])) return 401;
  const expected = createHmac("sha256", secret).update(`${stamps[0]}.`).update(body).digest("hex");
  const isExpected = (signature) => timingSafeEqual(Buffer.from(signature), Buffer.from(expected));
  if (!signatures.some(isExpected)) return 401;
  return Math.abs(Date.now() / 1000 - Number(stamps[0])) > TOLERANCE ? 400 : null;
}
