import { expect } from "bun:test";

export interface ErrorBody {
  message: string;
  type: string;
  param: string | null;
  code: string;
  request_id: string;
}

/** The error format that every rejection has, with the same id in its header and its body. */
export function expectEnvelope(status: number, requestId: string | null, text: string): ErrorBody {
  const body = JSON.parse(text);
  expect(body).toEqual({
    error: {
      message: expect.any(String),
      type: expect.any(String),
      param: body.error?.param === null ? null : expect.any(String),
      code: expect.stringMatching(/^[a-z_]+$/),
      request_id: expect.stringMatching(/^req_[0-9a-f-]{36}$/),
    },
  });
  expect(body.error.request_id).toBe(requestId);
  expect(body.error.message.length).toBeGreaterThan(10);
  expect(status).toBeGreaterThanOrEqual(400);
  return body.error;
}

/** The error of a response that must be a rejection with this status. */
export async function expectRejection(response: Response, status: number): Promise<ErrorBody> {
  const text = await response.text();
  expect([response.status, text]).toEqual([status, text]);
  expect(response.headers.get("content-type")).toStartWith("application/json");
  return expectEnvelope(response.status, response.headers.get("x-request-id"), text);
}
