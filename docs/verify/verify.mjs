// Verify a webhook's signature. Pass the raw body, as a Buffer, before anything parses it.
import { createHmac, timingSafeEqual } from "node:crypto";

const TOLERANCE = 300; // seconds

// Tells whether `Service-Signature` fits the body; any one `v1` is enough (two during a rotation).
export function verify(body, header, secret) {
  const pairs = header.split(",").map((part) => part.split("="));
  const stamps = pairs.filter(([name]) => name === "t").map(([, value]) => value);
  const signatures = pairs.filter(([name]) => name === "v1").map(([, value]) => value ?? "");
  if (stamps.length !== 1 || !/^[0-9]{1,12}$/.test(stamps[0])) return false;
  if (Math.abs(Date.now() / 1000 - Number(stamps[0])) > TOLERANCE) return false;
  const expected = createHmac("sha256", secret).update(`${stamps[0]}.`).update(body).digest("hex");
  const isExpected = (signature) =>
    signature.length === expected.length &&
    /^[0-9a-f]+$/.test(signature) &&
    timingSafeEqual(Buffer.from(signature), Buffer.from(expected));
  return signatures.some(isExpected);
}
