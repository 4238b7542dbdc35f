/** Commands of root in the data folder of another user: the server of that user can still use every file. */

import { expect, test } from "bun:test";
import { chmodSync, chownSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { openCommandLine } from "./command-line.test-support.ts";

const { folder, runOk } = openCommandLine(`
models: [{ id: m, interfaces: [chat] }]
accounts: [{ name: sim, kind: simulator, models: { m: sim-fast } }]
groups: [{ name: default, interfaces: [chat], models: [m], accounts: [sim] }]
`);
const OWNER = 65_534;

test.if(process.getuid?.() === 0)(
  "files that root creates in the data folder belong to the owner of the folder",
  async () => {
    const data = join(folder(), "data");
    rmSync(data, { recursive: true });
    await runOk("apply", "gateway.yaml");
    const owners = () => readdirSync(data).map((name) => [name, statSync(join(data, name)).uid]);
    const setOwner = (uid: number) => {
      for (const name of ["", ...readdirSync(data)]) chownSync(join(data, name), uid, uid);
    };
    setOwner(OWNER);
    chmodSync(data, 0o700);
    await runOk("keys", "create", "--name", "ci", "--group", "default");
    await runOk("master-key", "rotate");
    const names = ["gateway.db", "master.key", "new-keys"];
    expect(owners().toSorted()).toEqual(names.map((name) => [name, OWNER]));

    // A new installation in a folder that the administrator has prepared.
    for (const name of readdirSync(data)) rmSync(join(data, name));
    await runOk("apply", "gateway.yaml");
    expect(owners().toSorted()).toEqual(["gateway.db", "master.key"].map((name) => [name, OWNER]));
  },
);
