import { expect, test } from "bun:test";
import { ApiError, asApiError, errorResponse } from "./errors.ts";

test("a response has the request id in header and body, and the headers of the error", async () => {
  const error = new ApiError("rate_limit_exceeded", "Slow down.", { headers: { "retry-after": "3" } });
  const response = errorResponse(error, "req_1");
  expect(response.status).toBe(429);
  expect(response.headers.get("x-request-id")).toBe("req_1");
  expect(response.headers.get("retry-after")).toBe("3");
  expect(await response.json()).toEqual({
    error: {
      message: "Slow down.",
      type: "rate_limit_error",
      param: null,
      code: "rate_limit_exceeded",
      request_id: "req_1",
    },
  });
});

test("an internal error message does not reach the client", () => {
  const error = asApiError(new Error("secret detail at line 12"));
  expect(error.code).toBe("server_error");
  expect(error.message).not.toContain("secret");
});
