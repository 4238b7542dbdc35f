import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { accountRecord, groupRecord, keyRecord } from "../../records/records.test-support.ts";
import { type Keyring, openKeyring } from "../../secrets/keyring.ts";
import { accountCredentialBinding, readKeyId, SealError, seal, unseal } from "../../secrets/seal.ts";
import type { Db } from "../engine/db.ts";
import { readRevisions } from "../engine/revisions.ts";
import { listAccounts, putAccount } from "../policy/accounts.ts";
import { putGroup } from "../policy/groups.ts";
import { insertKey } from "../policy/keys.ts";
import { loadPepper } from "./pepper.ts";
import { rewrapSecrets } from "./rotate.ts";
import { deleteSetting, readSetting, writeSetting } from "./settings.ts";

const line = (kid: string, byte: number) => `${kid}:${Buffer.alloc(32, byte).toString("base64")}`;
const openKeys = (...lines: string[]): Keyring => openKeyring({ file: "/nowhere", fromEnv: lines.join(",") });
const old = openKeys(line("old", 1));
const both = openKeys(line("new", 2), line("old", 1));
const onlyNew = openKeys(line("new", 2));

async function putSealed(db: Db, id: string, credential: string | null): Promise<void> {
  const sealedCredential = credential === null ? null : seal(old, accountCredentialBinding(id), credential);
  await putAccount(db, accountRecord(id, { name: id, sealedCredential }));
}

eachEngine(({ open }) => {
  test("settings are written, overwritten and deleted", async () => {
    const db = await open();
    expect(await readSetting(db, "a")).toBeNull();
    await writeSetting(db, "a", "1");
    await writeSetting(db, "a", "2");
    expect(await readSetting(db, "a")).toBe("2");
    await deleteSetting(db, "a");
    expect(await readSetting(db, "a")).toBeNull();
  });

  test("the pepper is created once and is not stored in plain text", async () => {
    const db = await open();
    const pepper = await loadPepper(db, old);
    expect(pepper).toHaveLength(32);
    expect(await loadPepper(db, old)).toEqual(pepper);
    expect(await readSetting(db, "pepper")).toMatch(/^v1:old:/);
  });

  test("concurrent first starts agree on one pepper", async () => {
    const db = await open();
    const peppers = await Promise.all(Array.from({ length: 5 }, () => loadPepper(db, old)));
    for (const pepper of peppers) expect(pepper).toEqual(peppers[0] ?? new Uint8Array());
  });

  test("without its master key, the pepper is an error and is not replaced", async () => {
    const db = await open();
    await loadPepper(db, old);
    const sealed = await readSetting(db, "pepper");
    const error = await loadPepper(db, onlyNew).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(SealError);
    expect(String(error)).toContain('"old"');
    expect(await readSetting(db, "pepper")).toBe(sealed);
  });

  test("a pepper lost while keys exist is an error and is not replaced", async () => {
    const db = await open();
    await putGroup(db, groupRecord("g1"));
    await insertKey(db, keyRecord("k1"));
    const error = await loadPepper(db, old).catch((reason: unknown) => reason);
    expect(String(error)).toContain("Restore");
    expect(await readSetting(db, "pepper")).toBeNull();
  });

  test("a rotation reseals everything, and the old master key can be removed", async () => {
    const db = await open();
    const pepper = await loadPepper(db, old);
    await putSealed(db, "a1", "sk-one");
    await putSealed(db, "a2", "sk-two");
    await putSealed(db, "a3", null);
    expect(await rewrapSecrets(db, both)).toBe(3);
    expect(await loadPepper(db, onlyNew)).toEqual(pepper);
    const opened = (await listAccounts(db)).map(({ id, sealedCredential }) =>
      sealedCredential === null ? null : unseal(onlyNew, accountCredentialBinding(id), sealedCredential),
    );
    expect(opened).toEqual(["sk-one", "sk-two", null]);
  });

  test("a rotation increases the policy revision", async () => {
    const db = await open();
    await putSealed(db, "a1", "sk-one");
    const before = await readRevisions(db);
    await rewrapSecrets(db, both);
    expect((await readRevisions(db)).policy).toBe(before.policy + 1);
  });

  test("a repeated rotation changes nothing", async () => {
    const db = await open();
    await loadPepper(db, old);
    await rewrapSecrets(db, both);
    expect(await rewrapSecrets(db, both)).toBe(0);
  });

  test("a rotation that cannot open one value changes none", async () => {
    const db = await open();
    await loadPepper(db, old);
    await putSealed(db, "a1", "sk-one");
    await putSealed(db, "a2", "sk-two");
    await db.sql`UPDATE account SET sealed_credential = (SELECT sealed_credential FROM account WHERE id = 'a1')
      WHERE id = 'a2'`;
    const error = await rewrapSecrets(db, both).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ reason: "corrupt" });
    const kids = (await listAccounts(db)).map(({ sealedCredential }) => readKeyId(sealedCredential ?? ""));
    expect(kids).toEqual(["old", "old"]);
  });
});
