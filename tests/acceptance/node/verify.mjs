// Reads requests from standard input, a JSON document a line: {body (base64), header, secret}; prints the
// status to answer each with. The argument names the verifier: "snippet", "stripe" or
// "standardwebhooks", whose header is an object of all headers.
import { createInterface } from "node:readline";

async function snippet() {
  const { refusal } = await import("../../../docs/verify/verify.mjs");
  return (body, header, secret) => refusal(body, header, secret) ?? 200;
}

async function stripe() {
  const { default: Stripe } = await import("stripe");
  return (body, header, secret) => {
    try {
      new Stripe("unused").webhooks.constructEvent(body, header, secret);
      return 200;
    } catch (error) {
      if (error instanceof Stripe.errors.StripeSignatureVerificationError) return 401;
      throw error;
    }
  };
}

async function standardwebhooks() {
  const { Webhook } = await import("standardwebhooks");
  return (body, headers, secret) => {
    try {
      new Webhook(secret).verify(body.toString(), headers);
      return 200;
    } catch {
      return 401; // a secret that is no base64 is a plain Error
    }
  };
}

const verify = await { snippet, stripe, standardwebhooks }[process.argv[2]]();
for await (const line of createInterface({ input: process.stdin })) {
  const { body, header, secret } = JSON.parse(line);
  console.log(verify(Buffer.from(body, "base64"), header, secret));
}
