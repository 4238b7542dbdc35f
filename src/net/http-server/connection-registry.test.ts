import { expect, test } from "bun:test";
import { eventually } from "../../../test/support/eventually.ts";
import { dial, listenForTest, textResponse } from "./listen.test-support.ts";

test("many connections that exceed a time limit together are closed in several turns", async () => {
  const connections = 600;
  const closedByTurn: number[] = [0];
  const countRejection = () => {
    closedByTurn[closedByTurn.length - 1] = (closedByTurn.at(-1) ?? 0) + 1;
    return textResponse("too late", 408);
  };
  const limits = { headMs: 100, blockShare: 1 };
  const listener = listenForTest(() => textResponse("<response>"), limits, countRejection);
  const clients = await Promise.all(Array.from({ length: connections }, () => dial(listener.port)));
  for (const client of clients) client.send("GET / HTTP/1.1\r\nHost: gw\r\n");
  await listener.nextCheck();
  listener.pass(101);
  let isOver = false;
  const countTurns = () => {
    closedByTurn.push(0);
    if (!isOver) setImmediate(countTurns);
  };
  countTurns();
  await eventually(() => closedByTurn.reduce((sum, count) => sum + count) === connections);
  isOver = true;
  expect(Math.max(...closedByTurn)).toBeLessThanOrEqual(256);
  for (const client of clients) expect(await client.end()).toContain("408");
  for (const client of clients) client.destroy();
  listener.closeNow();
});
