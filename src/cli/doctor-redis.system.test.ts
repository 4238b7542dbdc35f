import { afterAll, beforeAll, expect, test } from "bun:test";
import { startRedis, type TestRedis } from "../../test/support/redis.ts";
import { checkRedis } from "./doctor-nodes.ts";

let redis: TestRedis;

beforeAll(async () => {
  redis = await startRedis();
});

afterAll(() => redis?.stop());

test("a server that may evict keys is reported", async () => {
  await redis.configure("maxmemory", "100mb");
  await redis.configure("maxmemory-policy", "allkeys-lru");
  expect(await checkRedis(redis.url)).toMatchObject({
    state: "doubtful",
    todo: "Set maxmemory-policy noeviction.",
  });
  await redis.configure("maxmemory-policy", "noeviction");
  expect(await checkRedis(redis.url)).toMatchObject({ state: "good" });
});

test("a server that does not answer is reported", async () => {
  expect(await checkRedis("redis://127.0.0.1:1")).toMatchObject({ state: "doubtful" });
});
