/** Tests when the supervisor starts, replaces and ends processes. The processes are scripted; time is that of the test. */

import { afterEach, describe, expect, test } from "bun:test";
import { eventually } from "../../../test/support/eventually.ts";
import { openLog } from "../../observe/log.ts";
import type { ProcessCommand, ProcessRole } from "./process-messages.ts";
import type { ChildEvents, SpawnProcess } from "./supervised-process.ts";
import { Supervisor } from "./supervisor.ts";

const LIMITS = {
  reportMs: 10,
  missedMax: 1_000,
  restartMinMs: 1,
  restartMaxMs: 4,
  stableMs: 60_000,
  failedStartsMax: 3,
};

interface Spawned {
  readonly number: number;
  readonly role: ProcessRole;
  readonly received: (ProcessCommand | string)[];
  readonly events: ChildEvents;
}

/** Processes that are ready at once and end when they are asked to, unless the script of a start says otherwise. */
class Machine {
  readonly spawned: Spawned[] = [];
  readonly lines: Record<string, unknown>[] = [];
  readonly readyStates: string[] = [];
  supervisor: Supervisor;
  readonly exitCode: Promise<number>;

  constructor(script: (start: number, spawned: Spawned) => void, limits: Partial<typeof LIMITS> = {}) {
    const spawn: SpawnProcess = (number, role, events) => {
      const spawned: Spawned = { number, role, events, received: [] };
      this.spawned.push(spawned);
      const start = this.spawned.length;
      queueMicrotask(() => script(start, spawned));
      const end = (received: string, code: number | null, signal: string | null) => {
        spawned.received.push(received);
        queueMicrotask(() => events.onEnd({ code, signal }));
      };
      return {
        pid: start,
        send: (command) => end(command, 0, null),
        kill: (signal) => end(signal, null, signal),
      };
    };
    this.supervisor = new Supervisor({
      count: 2,
      spawn,
      log: openLog(
        () => 0,
        (line) => this.lines.push(JSON.parse(line)),
      ),
      limits: { ...LIMITS, ...limits },
      monotonicMs: () => 0,
      onReady: () => this.readyStates.push("ready"),
      onReplacing: () => this.readyStates.push("replacing"),
    });
    this.exitCode = this.supervisor.run();
  }

  events(): unknown[] {
    return this.lines.map(({ event }) => event);
  }
}

const serve = (_start: number, { events }: Spawned) => events.onReport("ready");
const crash = ({ events }: Spawned, code: number) => events.onEnd({ code, signal: null });

let machine: Machine;
afterEach(() => machine.supervisor.kill());

describe("the supervisor", () => {
  test("starts the first process alone, which applies the file, and then the others", async () => {
    machine = new Machine(serve);
    await eventually(() => machine.readyStates.length, { equals: 1 });
    expect(machine.spawned.map(({ number, role }) => [number, role])).toEqual([
      [1, "first"],
      [2, "further"],
    ]);
    machine.supervisor.stop();
    expect(await machine.exitCode).toBe(0);
    expect(machine.spawned.map(({ received }) => received)).toEqual([["stop"], ["stop"]]);
  });

  test("ends with the exit code of a first process that does not start", async () => {
    machine = new Machine((_, spawned) => crash(spawned, 2));
    expect([await machine.exitCode, machine.spawned.length]).toEqual([2, 1]);
  });

  test("starts a process that ended again, with the same number", async () => {
    machine = new Machine(serve);
    await eventually(() => machine.readyStates.length, { equals: 1 });
    const [, second] = machine.spawned;
    if (second !== undefined) crash(second, 1);
    await eventually(() => machine.spawned.length, { equals: 3 });
    expect(machine.spawned[2]).toMatchObject({ number: 2, role: "further" });
    expect(machine.lines).toMatchObject([{ event: "process_ended", process: 2, code: 1, restart_ms: 1 }]);
  });

  test("waits longer after each end", async () => {
    machine = new Machine((start, spawned) => {
      serve(start, spawned);
      if (start > 1 && start < 7) crash(spawned, 1);
    });
    await eventually(() => machine.spawned.length, { equals: 7 });
    expect(machine.lines.map(({ restart_ms }) => restart_ms)).toEqual([1, 2, 4, 4, 4]);
  });

  test("ends all if a process fails too often before it is ready", async () => {
    machine = new Machine((start, spawned) => (start === 1 ? serve(start, spawned) : crash(spawned, 1)));
    expect(await machine.exitCode).toBe(1);
    expect(machine.events()).toEqual(["process_ended", "process_ended", "process_failed"]);
    expect(machine.spawned[0]?.received).toEqual(["stop"]);
  });

  test("kills a process that does not report", async () => {
    machine = new Machine(serve, { missedMax: 2 });
    await eventually(() => machine.events().includes("process_hung"));
    expect(machine.spawned[0]?.received).toEqual(["SIGKILL"]);
  });

  test("replaces each process after a new one is ready, and uses the free number for the next", async () => {
    machine = new Machine(serve);
    await eventually(() => machine.readyStates.length, { equals: 1 });
    machine.supervisor.replaceAll();
    await eventually(() => machine.readyStates.length, { equals: 3 });
    expect(machine.spawned.map(({ number, role, received }) => [number, role, received])).toEqual([
      [1, "first", ["replace"]],
      [2, "further", ["replace"]],
      [3, "first", []],
      [1, "further", []],
    ]);
    expect(machine.readyStates).toEqual(["ready", "replacing", "ready"]);
  });

  test("keeps the processes if a new one does not start", async () => {
    machine = new Machine((start, spawned) => (start === 3 ? crash(spawned, 1) : serve(start, spawned)));
    await eventually(() => machine.readyStates.length, { equals: 1 });
    machine.supervisor.replaceAll();
    await eventually(() => machine.readyStates.length, { equals: 3 });
    expect(machine.spawned.map(({ received }) => received)).toEqual([[], [], []]);
    expect(machine.lines).toMatchObject([{ event: "replacement_failed", process: 3, code: 1 }]);
  });

  test("ends a process at once that is still starting when all are stopped", async () => {
    machine = new Machine((start, spawned) => (start === 1 ? serve(start, spawned) : undefined));
    await eventually(() => machine.spawned.length, { equals: 2 });
    machine.supervisor.stop();
    expect(await machine.exitCode).toBe(0);
    expect(machine.spawned[1]?.received).toEqual(["SIGTERM"]);
  });
});
