/** The state of the server as systemd receives it. */

import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../../test/support/eventually.ts";
import { ALLOCATOR_SETTINGS, addAllocatorSettings } from "./allocator-settings.ts";
import { encodeSocketAddress, ServiceManager } from "./service-manager.ts";

const folder = mkdtempSync(join(tmpdir(), "model-gateway-systemd-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The runtime has no datagram sockets of this family, so another program receives them. */
const RECEIVER = `
import socket, sys
receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
receiver.bind(sys.argv[1])
print("bound", flush=True)
while True:
    print(receiver.recv(4096).decode().replace("\\n", " "), flush=True)
`;

test.each([
  ["a path", join(folder, "notify")],
  ["an abstract name", `@model-gateway-test-${process.pid}`],
])("systemd receives ready, watchdog and stopping at %s", async (_, address) => {
  const receiver = Bun.spawn(["python3", "-c", RECEIVER.replace("sys.argv[1]", toPython(address))], {
    stdout: "pipe",
  });
  let text = "";
  void (async () => {
    for await (const part of receiver.stdout) text += new TextDecoder().decode(part);
  })();
  await eventually(() => text.includes("bound"));
  const failures: string[] = [];
  const manager = new ServiceManager({
    environment: { NOTIFY_SOCKET: address, WATCHDOG_USEC: "40000", WATCHDOG_PID: String(process.pid) },
    onFailure: (reason) => failures.push(reason),
  });
  manager.notifyReady("Listening on http://127.0.0.1:8787");
  await eventually(() => text.split("WATCHDOG=1").length > 3);
  manager.notifyStopping();
  await eventually(() => text.includes("STOPPING=1"));
  manager.close();
  receiver.kill();
  expect(text).toContain("READY=1 STATUS=Listening on http://127.0.0.1:8787\n");
  expect(failures).toEqual([]);
});

function toPython(address: string): string {
  return address.startsWith("@") ? `"\\0${address.slice(1)}"` : JSON.stringify(address);
}

test("nothing is sent outside systemd, and a watchdog of another process is ignored", async () => {
  const messages: string[] = [];
  const send = (_: string, message: string) => void messages.push(message);
  const onFailure = () => {};
  const outside = new ServiceManager({ environment: { WATCHDOG_USEC: "1000" }, send, onFailure });
  outside.notifyReady("x");
  outside.notifyStopping();
  const environment = { NOTIFY_SOCKET: "/run/n", WATCHDOG_USEC: "1000", WATCHDOG_PID: "1" };
  const other = new ServiceManager({ environment, send, onFailure });
  other.notifyReady("x");
  await Bun.sleep(20);
  expect(messages).toEqual(["READY=1\nSTATUS=x"]);
});

test("a failure is reported once and does not stop the server", () => {
  const failures: string[] = [];
  const manager = new ServiceManager({
    environment: { NOTIFY_SOCKET: join(folder, "absent") },
    onFailure: (reason) => failures.push(reason),
  });
  manager.notifyReady("x");
  manager.notifyStopping();
  expect(failures).toEqual([expect.stringContaining("cannot be reached")]);
});

test("an address that does not fit is rejected", () => {
  expect(() => encodeSocketAddress(`/${"x".repeat(200)}`)).toThrow("too long");
  expect(encodeSocketAddress("@a")).toEqual(Buffer.from([1, 0, 0, 97]));
});

test("the executable adds the allocator settings that are missing, and keeps those that are set", () => {
  expect(addAllocatorSettings(ALLOCATOR_SETTINGS)).toBeNull();
  const added = addAllocatorSettings({ PATH: "/bin", MIMALLOC_PURGE_DELAY: "0" });
  expect(added).toEqual({ ...ALLOCATOR_SETTINGS, PATH: "/bin", MIMALLOC_PURGE_DELAY: "0" });
});
