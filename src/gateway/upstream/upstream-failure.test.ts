import { expect, test } from "bun:test";
import type { AnswerHeaders } from "../../net/http-client/contract.ts";
import { failureByStatus } from "./upstream-failure.ts";

const NO_HEADERS: AnswerHeaders = { get: () => null, has: () => false };

function failure(status: number, body: unknown) {
  return failureByStatus(status, NO_HEADERS, new TextEncoder().encode(JSON.stringify(body)), 0);
}

test("a refusal is told with its reason, in whatever shape a server gives it", () => {
  for (const body of [{ detail: "too hot" }, [{ error: { message: "too hot" } }], { message: "too hot" }]) {
    expect(failure(400, body)).toMatchObject({ class: "rejected", error: { message: "too hot" } });
  }
});

test("a 404 in other words than the API's comes from an address that is not the API's", () => {
  expect(failure(404, { detail: "Not Found" }).class).toBe("model_missing");
  expect(failure(404, { error: { message: "No such file" } }).class).toBe("not_here");
});
