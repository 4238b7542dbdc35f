import { expect, test } from "bun:test";
import fc from "fast-check";
import type { Keyring } from "../../secrets/keyring.ts";
import { type SealTarget, StateSeals } from "./state-seals.ts";

const KEY = new Uint8Array(32).fill(7);
const keyring: Keyring = { activeKid: "k1", get: (kid) => (kid === "k1" ? KEY : null) };
const seals = new StateSeals(keyring);

const TARGET = {
  route: { account: { id: "acct_1" }, upstreamModel: "gpt-6" },
  dialect: "responses",
  owner: "user_1",
} as SealTarget;
const STATE = { field: "encrypted_content", value: "secret state" } as const;

function openWith(change: Partial<SealTarget>) {
  return seals.open({ ...TARGET, ...change }).open(seals.open(TARGET).seal(STATE));
}

test("state returns to the account that issued it, and reveals nothing on its way", () => {
  fc.assert(
    fc.property(fc.string(), (value) => {
      const sealer = seals.open(TARGET);
      const sealed = sealer.seal({ field: "signature", value });
      expect(sealed.kind === "sealed" ? sealed.envelope : "").toMatch(/^gws1\.[\w.-]+$/);
      expect(sealer.open(sealed)).toEqual({ field: "signature", value });
    }),
  );
});

test.each<[string, Partial<SealTarget>]>([
  ["another account", { route: { ...TARGET.route, account: { ...TARGET.route.account, id: "acct_2" } } }],
  ["another model", { route: { ...TARGET.route, upstreamModel: "gpt-5" } }],
  ["another dialect", { dialect: "messages" }],
  ["another owner", { owner: "user_2" }],
])("state is dropped for %s", (_, change) => {
  expect(openWith({})).toEqual(STATE);
  expect(openWith(change)).toBeNull();
});

test("an envelope that was changed, or that is none, is dropped", () => {
  const sealer = seals.open(TARGET);
  const sealed = sealer.seal(STATE);
  if (sealed.kind !== "sealed") throw new Error("not sealed");
  fc.assert(
    fc.property(fc.nat(sealed.envelope.length - 6), (at) => {
      const changed = sealed.envelope[at + 5] === "A" ? "B" : "A";
      const envelope = sealed.envelope.slice(0, at + 5) + changed + sealed.envelope.slice(at + 6);
      // The last character of base64 has unused bits: a change of these alone is none.
      if (at + 6 < sealed.envelope.length) expect(sealer.open({ kind: "sealed", envelope })).toBeNull();
    }),
  );
  for (const envelope of ["gws1.", "gws1.k1.", "gws1.k2.AAAA", "gws1.k1.%%%"])
    expect(sealer.open({ kind: "sealed", envelope })).toBeNull();
});

test("state of elsewhere reaches only accounts of its dialect", () => {
  const foreign = { kind: "vendor", dialect: "messages", ...STATE } as const;
  expect(seals.open(TARGET).open(foreign)).toBeNull();
  expect(seals.open({ ...TARGET, dialect: "messages" }).open(foreign)).toEqual(STATE);
});
