import { expect, test } from "bun:test";
import type { ResponseHeaders } from "../../net/http-client/contract.ts";
import { failureByStatus } from "./upstream-failure.ts";

const NO_HEADERS: ResponseHeaders = { get: () => null, has: () => false };

function failure(status: number, body: unknown) {
  return failureByStatus(status, NO_HEADERS, new TextEncoder().encode(JSON.stringify(body)), 0);
}

test("a rejection keeps its reason in every known error shape", () => {
  for (const body of [{ detail: "too hot" }, [{ error: { message: "too hot" } }], { message: "too hot" }]) {
    expect(failure(400, body)).toMatchObject({ class: "rejected", error: { message: "too hot" } });
  }
});

test("a 404 without the API's error shape is classified as model_missing", () => {
  expect(failure(404, { detail: "Not Found" }).class).toBe("model_missing");
  expect(failure(404, { error: { message: "No such file" } }).class).toBe("not_here");
});
