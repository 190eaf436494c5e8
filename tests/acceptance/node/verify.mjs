// Reads {verifier, body (base64), header, secret} from standard input; prints "accepted" or "refused".
import { readFileSync } from "node:fs";

const { verifier, body, header, secret } = JSON.parse(readFileSync(0, "utf8"));
const bytes = Buffer.from(body, "base64");

async function isAccepted() {
  if (verifier === "snippet") {
    const { verify } = await import("../../../docs/verify/verify.mjs");
    return verify(bytes, header, secret);
  }
  const { default: Stripe } = await import("stripe");
  try {
    new Stripe("unused").webhooks.constructEvent(bytes, header, secret);
    return true;
  } catch (error) {
    if (error instanceof Stripe.errors.StripeSignatureVerificationError) return false;
    throw error;
  }
}

console.log((await isAccepted()) ? "accepted" : "refused");
