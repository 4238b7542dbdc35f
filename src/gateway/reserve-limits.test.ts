/** Limits on several nodes: what a request waits for, and what is measured of it. */

import { expect, test } from "bun:test";
import { ConcurrencyQueue } from "../limits/concurrency-queue.ts";
import { QueueOccupancy } from "../limits/queue-occupancy.ts";
import { keySubject, ModelCluster } from "../limits/sharing/cluster.test-support.ts";
import { RequestMetrics } from "../observe/request-metrics.ts";
import { lookUpEndpoint, MODEL, makeCaller, makeRequest } from "./charging/charging.test-support.ts";
import { createInputEstimates } from "./metering/input-estimate.ts";
import { type AdmittedRequest, openContext } from "./request-context.ts";
import { type LimitServices, reserveLimits } from "./reserve-limits.ts";

const call = {
  request: new Request("http://gateway.example"),
  requestId: "req_1",
  startedMs: 0,
  bodyBytes: null,
  clientAddress: () => "",
  socketTurn: null,
  closeConnection() {},
};

test("the wait for another node's part of a limit is measured, and a request that fits waits for nothing", async () => {
  const cluster = new ModelCluster(1);
  const { time } = cluster;
  const starting = (async () => [await cluster.startNode(), await cluster.startNode()])();
  await time.runUntil(5_000);
  const [node] = await starting;
  if (node === undefined) throw new Error("no node");
  const clock = { nowMs: () => time.nowMs, monotonicMs: () => time.nowMs };
  const requestMetrics = new RequestMetrics();
  const { limiter, sharing } = node;
  const concurrencyQueue = new ConcurrencyQueue(limiter, new QueueOccupancy(), clock);
  const services: LimitServices = {
    limiter,
    sharing,
    concurrencyQueue,
    clock,
    requestMetrics,
    estimates: createInputEstimates(),
  };
  const context: AdmittedRequest = Object.assign(openContext(call, lookUpEndpoint("chat.completions")), {
    caller: makeCaller("none"),
    request: makeRequest("chat.completions"),
    model: MODEL,
    subjects: [keySubject({ rpm: 20 })],
  });
  for (let i = 0; i < 10; i++) expect(reserveLimits(services, context)).not.toBeInstanceOf(Promise);
  expect(requestMetrics.shareWait.sum).toBe(0);
  const startedMs = time.nowMs;
  let waitedMs = 0;
  const reserved = Promise.resolve(reserveLimits(services, context)).then(() => {
    waitedMs = time.nowMs - startedMs;
  });
  await time.runUntil(startedMs + 2_000);
  await reserved;
  expect(waitedMs).toBeGreaterThan(0);
  expect(requestMetrics.shareWait.sum).toBeCloseTo(waitedMs / 1_000);
});
