import { expect } from "bun:test";
import { type ErrorBody, expectEnvelope } from "../support/error-envelope.ts";
import { get } from "./messages.ts";
import { openWire, type WireAnswer } from "./raw-client.ts";

/** An answer that refuses in the one form that refusals have. */
export function refusalIn(answer: WireAnswer, ...statuses: number[]): ErrorBody {
  expect(answer.status).toBeOneOf(statuses);
  expect(answer.header("content-type")).toStartWith("application/json");
  expect(answer.framing).toBe("length");
  return expectEnvelope(answer.status, answer.header("x-request-id"), answer.body.toString());
}

/**
 * Sends what cannot be trusted to end where it seems to: it must be refused, and the request behind it must not be
 * heard, because nobody can say where it begins.
 */
export async function expectCutOff(
  url: string,
  request: string | Uint8Array,
  ...statuses: number[]
): Promise<ErrorBody> {
  const client = await openWire(url);
  await client.send(Buffer.concat([Buffer.from(request), Buffer.from(get("/healthz"))]));
  const answer = await client.answer();
  const error = refusalIn(answer, ...statuses);
  expect(answer.header("connection")).toBe("close");
  expect(await client.next()).toBe("fin");
  client.leave("fin");
  return error;
}
