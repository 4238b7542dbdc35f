import { afterEach, expect, test } from "bun:test";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LockHeld, lockFolder } from "./folder-lock.ts";
import { readMachineId } from "./machine-id.ts";

const folders: string[] = [];

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "gateway-lock-"));
  folders.push(folder);
  return folder;
}

/** Starts a process that locks the folder and then idles. */
async function lockElsewhere(folder: string, storePath: string | null = null) {
  const module = join(import.meta.dir, "folder-lock.ts");
  const script = `
    import { lockFolder } from ${JSON.stringify(module)};
    globalThis.lock = lockFolder(${JSON.stringify(folder)}, ${JSON.stringify(storePath)});
    console.log("locked");
    setInterval(() => {}, 1_000);`;
  const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" });
  await child.stdout.getReader().read();
  return child;
}

function rejection(work: () => unknown): LockHeld {
  try {
    work();
  } catch (error) {
    if (error instanceof LockHeld) return error;
    throw error;
  }
  throw new Error("it was not refused");
}

test("a locked folder is rejected with the process id of its owner, until that process dies", async () => {
  const folder = makeFolder();
  const other = await lockElsewhere(folder);
  expect(rejection(() => lockFolder(folder, null)).holder?.pid).toBe(other.pid);
  other.kill("SIGKILL");
  await other.exited;
  lockFolder(folder, null).release();
});

test("a second lock in the same process is rejected and leaves the first in place", async () => {
  const folder = makeFolder();
  const lock = lockFolder(folder, null);
  expect(rejection(() => lockFolder(folder, null)).holder?.pid).toBe(process.pid);
  const child = Bun.spawn(
    [
      process.execPath,
      "-e",
      `import { lockFolder } from ${JSON.stringify(join(import.meta.dir, "folder-lock.ts"))};
       try { lockFolder(${JSON.stringify(folder)}, null); } catch { process.exit(3); }`,
    ],
    { stderr: "inherit" },
  );
  expect(await child.exited).toBe(3);
  lock.release();
  lockFolder(folder, null).release();
});

test("two data folders cannot share one SQLite database", async () => {
  const [one, two, elsewhere] = [makeFolder(), makeFolder(), makeFolder()];
  const store = join(elsewhere, "deep", "gateway.db");
  const other = await lockElsewhere(one, store);
  expect(rejection(() => lockFolder(two, store)).path).toBe(store);
  other.kill("SIGKILL");
  await other.exited;
  // A lock taken before the failure is released again.
  lockFolder(two, store).release();
});

test("a folder keeps its id, and a copy gets another one", () => {
  const folder = makeFolder();
  const first = lockFolder(folder, null);
  first.release();
  const second = lockFolder(folder, null);
  expect(second.folderId).toBe(first.folderId);
  const copy = join(makeFolder(), "copy");
  cpSync(folder, copy, { recursive: true });
  const third = lockFolder(copy, null);
  expect(third.folderId).not.toBe(first.folderId);
  second.release();
  third.release();
});

test("the machine is known by its machine id, or by the boot of its kernel", () => {
  const folder = makeFolder();
  const write = (name: string, text: string) => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const one = write("one", "0123456789abcdef0123456789abcdef\n");
  const boot = write("boot", "01234567-89ab-cdef-0123-456789abcdef\n");
  // systemd writes it into images whose machine gets an id at its first boot.
  const none = write("none", "uninitialized\n");
  expect(readMachineId([one, boot])).toMatch(/^[0-9a-f]{16}$/);
  expect(readMachineId([none, boot])).toBe(readMachineId([boot]));
  expect(readMachineId([boot])).not.toBe(readMachineId([one]));
  expect(readMachineId([none])).toBe("");
});
