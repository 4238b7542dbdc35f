import { expect } from "bun:test";
import { type ErrorBody, expectEnvelope } from "../support/error-envelope.ts";
import { get } from "./messages.ts";
import { openRawClient, type RawResponse } from "./raw-client.ts";

/** The error format that every rejection has. */
export function rejectionIn(response: RawResponse, ...statuses: number[]): ErrorBody {
  expect(response.status).toBeOneOf(statuses);
  expect(response.header("content-type")).toStartWith("application/json");
  expect(response.framing).toBe("length");
  return expectEnvelope(response.status, response.header("x-request-id"), response.body.toString());
}

/**
 * Sends a request whose end is ambiguous. It must be rejected, and the request behind it must not be served, because
 * its beginning is unknown.
 */
export async function expectCutOff(
  url: string,
  request: string | Uint8Array,
  ...statuses: number[]
): Promise<ErrorBody> {
  const client = await openRawClient(url);
  await client.send(Buffer.concat([Buffer.from(request), Buffer.from(get("/healthz"))]));
  const response = await client.readResponse();
  const error = rejectionIn(response, ...statuses);
  expect(response.header("connection")).toBe("close");
  expect(await client.next()).toBe("fin");
  client.close("fin");
  return error;
}
