import { describe, expect, test } from "bun:test";
import { upstreamFailure } from "../accounts/failure.ts";
import { openRig, route } from "./pool.test-support.ts";

describe("the report of an account", () => {
  test("says nothing of one that was never asked", () => {
    const { pool } = openRig();
    expect(pool.report(route("a").account)).toEqual({
      inFlight: 0,
      condition: "well",
      cause: null,
      freesInMs: null,
      isTried: false,
      models: [],
    });
  });

  test("counts what is under way, and knows how quick each model is", () => {
    const { pool, take } = openRig();
    const a = route("a");
    const picked = take([a]);
    expect(pool.report(a.account)).toMatchObject({ inFlight: 1, isTried: false });
    pool.succeeded(a, 120, null);
    picked.lease.release();
    expect(pool.report(a.account)).toMatchObject({
      inFlight: 0,
      condition: "well",
      models: [{ upstreamModel: "m", condition: "well", latencyMs: 120, errors: 0 }],
    });
  });

  test("names a refused credential, until the credential is another", () => {
    const { pool, take } = openRig();
    const a = route("a");
    const picked = take([a]);
    pool.failed(a, upstreamFailure("credential", "refused"));
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
    pool.forgive("a");
    expect(pool.report(a.account)).toMatchObject({ condition: "well", cause: null });
  });

  test("tells for how long a model is left alone, and that one request goes first afterwards", () => {
    const { pool, take, clock } = openRig();
    const a = route("a");
    for (let i = 0; i < 2; i++) {
      const picked = take([a]);
      pool.failed(a, upstreamFailure("server", "500"));
      picked.lease.release();
    }
    const [model] = pool.report(a.account).models;
    expect(model).toMatchObject({ condition: "cooling", cause: "server" });
    expect(model?.freesInMs).toBeGreaterThan(0);
    clock.pass(model?.freesInMs ?? 0);
    expect(pool.report(a.account).models[0]).toMatchObject({ condition: "probing", cause: "server" });
  });
});
