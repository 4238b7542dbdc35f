import { afterEach, expect, test } from "bun:test";
import type { Socket } from "bun";
import { openAlarms } from "../../alarms.ts";
import { systemClock } from "../../clock.ts";
import { outbox } from "../../outbox.ts";
import { Connection, type Place } from "./connection.ts";

const PLACE: Place = { hostname: "up", port: 1, tls: null, idle: [] };
const alarms = openAlarms(1_000, systemClock);

afterEach(() => outbox.flush());

/** A socket that takes so many bytes of each write, the last number for all that follow. */
function open(takes: number[]) {
  const written: string[] = [];
  const heard: string[] = [];
  const user = {
    opened: () => void heard.push("opened"),
    received() {},
    drained: () => void heard.push("drained"),
    closed: () => void heard.push("closed"),
  };
  const connection = new Connection(PLACE, user, alarms, 1_000);
  const socket = {
    write(bytes: Uint8Array, from: number, length: number): number {
      const taken = Math.min(length, takes.length > 1 ? (takes.shift() ?? 0) : (takes[0] ?? 0));
      if (taken > 0) written.push(Buffer.from(bytes).toString("latin1", from, from + taken));
      return taken;
    },
    terminate() {},
  } as unknown as Socket<Connection>;
  connection.connected(socket);
  const post = (text: string) => {
    let at = outbox.roomFor(text.length);
    // Those of other tests left alone.
    while (at < 0) at = outbox.roomFor(text.length);
    connection.post(at + outbox.bytes.write(text, at, "latin1"));
  };
  return { connection, written, heard, post };
}

test("what is posted leaves at the end of the turn", async () => {
  const { connection, written, post } = open([100]);
  post("first");
  expect([written, connection.isClear]).toEqual([[], false]);
  await new Promise((resolve) => setImmediate(resolve));
  expect([written, connection.isClear]).toEqual([["first"], true]);
});

test("whatever else is written comes behind it", () => {
  const { connection, written, post } = open([100]);
  post("first");
  expect(connection.write(Buffer.from("second"), 0, 6)).toBe(6);
  expect(written).toEqual(["first", "second"]);
});

test("what the socket does not take of it goes out before anything else", () => {
  const { connection, written, heard, post } = open([2, 0, 1, 100]);
  post("first");
  outbox.flush();
  expect(connection.write(Buffer.from("second"), 0, 6)).toBe(0);
  connection.drained();
  connection.drained();
  expect([written, heard, connection.isClear]).toEqual([["fi", "r"], ["opened"], false]);
  connection.drained();
  expect([written, heard, connection.isClear]).toEqual([["fi", "r", "st"], ["opened", "drained"], true]);
  expect(connection.write(Buffer.from("second"), 0, 6)).toBe(6);
});

test("a letter of a connection that is gone is not sent", () => {
  const { connection, written, post } = open([100]);
  post("first");
  connection.destroy();
  outbox.flush();
  expect(written).toEqual([]);
});

test("a socket that turns out to be closed is lost", async () => {
  const { heard, post } = open([-1]);
  post("first");
  outbox.flush();
  await Promise.resolve();
  expect(heard).toEqual(["opened", "closed"]);
});
