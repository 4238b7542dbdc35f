import { describe, expect, test } from "bun:test";
import { upstreamFailure } from "../accounts/failure.ts";
import { openTestPool, route } from "./pool.test-support.ts";

describe("the report of an account", () => {
  test("is empty for an account without traffic", () => {
    const { pool } = openTestPool();
    expect(pool.report(route("a").account)).toEqual({
      inFlight: 0,
      condition: "well",
      cause: null,
      freesInMs: null,
      isTried: false,
      models: [],
    });
  });

  test("contains the requests in flight and the latency of each model", () => {
    const { pool, take } = openTestPool();
    const a = route("a");
    const picked = take([a]);
    expect(pool.report(a.account)).toMatchObject({ inFlight: 1, isTried: false });
    pool.recordSuccess(a, 120, null);
    picked.lease.release();
    expect(pool.report(a.account)).toMatchObject({
      inFlight: 0,
      condition: "well",
      models: [{ upstreamModel: "m", condition: "well", latencyMs: 120, errors: 0 }],
    });
  });

  test("shows a rejected credential until the credential changes", () => {
    const { pool, take } = openTestPool();
    const a = route("a");
    const picked = take([a]);
    pool.recordFailure(a, upstreamFailure("credential", "refused"));
    picked.lease.release();
    expect(pool.report(a.account)).toMatchObject({
      condition: "parked",
      cause: "credential",
      freesInMs: null,
      isTried: true,
    });
    expect(pool.report({ ...a.account, credential: "another" })).toMatchObject({
      condition: "well",
      isTried: false,
    });
    pool.resetHealth("a");
    expect(pool.report(a.account)).toMatchObject({ condition: "well", cause: null });
  });

  test("shows the cool-down of a model, and then its probe", () => {
    const { pool, take, clock } = openTestPool();
    const a = route("a");
    for (let i = 0; i < 2; i++) {
      const picked = take([a]);
      pool.recordFailure(a, upstreamFailure("server", "500"));
      picked.lease.release();
    }
    const [model] = pool.report(a.account).models;
    expect(model).toMatchObject({ condition: "cooling", cause: "server" });
    expect(model?.freesInMs).toBeGreaterThan(0);
    clock.pass(model?.freesInMs ?? 0);
    expect(pool.report(a.account).models[0]).toMatchObject({ condition: "probing", cause: "server" });
  });
});
