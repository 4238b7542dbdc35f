/** Limits on several nodes: what a request waits for, and what is measured of it. */

import { expect, test } from "bun:test";
import { keySubject, ModelCluster } from "../limits/borrower/borrower-cluster.test-support.ts";
import { ConcurrencyQueue } from "../limits/concurrency-queue.ts";
import { FREE_LEASE } from "../limits/lease.ts";
import { QueueOccupancy } from "../limits/queue-occupancy.ts";
import { RequestMetrics } from "../observe/request-metrics.ts";
import { NO_LIMITS } from "../records/limits.ts";
import { lookUpEndpoint, MODEL, makeCaller, makeRequest } from "./charging/charging.test-support.ts";
import { moveLimits } from "./fallback/move-limits.ts";
import { createInputEstimates } from "./metering/input-estimate.ts";
import { type AdmittedRequest, openContext } from "./request-context.ts";
import { type LimitServices, reserveLimits } from "./reserve-limits.ts";

const call = {
  request: new Request("http://gateway.example"),
  requestId: "req_1",
  startedMs: 0,
  bodyBytes: null,
  clientAddress: () => "",
  networkAddress: () => "",
  socketTurn: null,
  closeConnection() {},
};

/** Two nodes that borrow limits in virtual time: the services of one, and a request on it. */
async function openNode() {
  const cluster = new ModelCluster(1);
  const { time } = cluster;
  await cluster.startNodes(2);
  const [node] = cluster.nodes;
  if (node === undefined) throw new Error("no node");
  const clock = { nowMs: () => time.nowMs, monotonicMs: () => time.nowMs };
  const requestMetrics = new RequestMetrics();
  const { limitBorrower } = node;
  const { limiter } = limitBorrower;
  const services: LimitServices = {
    limiter,
    limitBorrower,
    concurrencyQueue: new ConcurrencyQueue(limiter, new QueueOccupancy(), clock),
    clock,
    requestMetrics,
    estimates: createInputEstimates(),
  };
  const context: AdmittedRequest = Object.assign(openContext(call, lookUpEndpoint("chat.completions")), {
    caller: makeCaller("none"),
    request: makeRequest("chat.completions"),
    model: MODEL,
    subjects: [keySubject({ rpm: 100 })],
  });
  return { time, services, context, requestMetrics };
}

test("the wait for what this node lacks is measured, and a request that fits waits for nothing", async () => {
  const { time, services, context, requestMetrics } = await openNode();
  const startedMs = time.nowMs;
  let waitedMs = 0;
  const waiting = Array.from({ length: 10 }, async () => {
    await reserveLimits(services, context);
    waitedMs = time.nowMs - startedMs;
  });
  await time.runUntil(startedMs + 300);
  await Promise.all(waiting);
  expect(waitedMs).toBeGreaterThan(0);
  expect(requestMetrics.shareWait.sum).toBeCloseTo((10 * waitedMs) / 1_000);
  // What was borrowed with them for the next second serves without a wait.
  expect(reserveLimits(services, context)).not.toBeInstanceOf(Promise);
  expect(requestMetrics.shareWait.sum).toBeCloseTo((10 * waitedMs) / 1_000);
});

test("the wait for the limits of a fallback group is measured, too", async () => {
  const { time, services, context, requestMetrics } = await openNode();
  const { caller } = context;
  context.caller = { ...caller, group: { ...caller.group, groupLimits: { ...NO_LIMITS, rpm: 100 } } };
  const startedMs = time.nowMs;
  const moved = moveLimits(services, context, { lease: FREE_LEASE, groupId: "another" });
  await time.runUntil(startedMs + 300);
  await moved;
  expect(context.trace.slotWaitMs).toBeGreaterThan(0);
  expect(requestMetrics.shareWait.sum).toBeCloseTo(context.trace.slotWaitMs / 1_000);
});
