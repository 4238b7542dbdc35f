/** Changes by administrators during constant changes by users. */

import { afterEach, beforeEach, expect, test } from "bun:test";
import { type SignedInClient, signInAs } from "../support/console-client.ts";
import { eachEngine } from "../support/each-engine.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

eachEngine((engine) => {
  let gateway: RunningGateway;
  let admin: SignedInClient;
  beforeEach(async () => {
    gateway = await startTestGateway({ databaseUrl: await engine.emptyUrl() });
    admin = await signInAs(gateway, "root@example.com", "admin");
  });
  afterEach(() => gateway.stop());

  test("administrators can save changes while keys are edited constantly", async () => {
    const dev = await signInAs(gateway, "dev@example.com");
    const keys = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        dev.call("keys.create", { body: { name: `key ${i}`, group: "default" } }),
      ),
    );
    let isOver = false;
    const editing = keys.map(async ({ key }) => {
      for (let n = 0; !isOver; n++) {
        await dev.call("keys.edit", { params: { id: key.id }, body: { name: `${key.id} ${n}` } });
      }
    });
    try {
      const made = await Promise.all(
        Array.from({ length: 10 }, (_, i) =>
          admin.call("admin.users.create", { body: { email: `user${i}@example.com` } }),
        ),
      );
      expect(new Set(made.map(({ email }) => email)).size).toBe(10);
      const text = "users: [{ email: user0@example.com, role: admin }]";
      const { plan } = await admin.call("admin.config.plan", { body: { text } });
      const { changes } = await admin.call("admin.config.apply", { body: { text, plan: plan ?? "" } });
      expect(changes.map(({ what }) => what)).toEqual(["user user0@example.com"]);
    } finally {
      isOver = true;
      await Promise.all(editing);
    }
  });

  test("only one of several concurrent creations of the same user succeeds", async () => {
    const responses = await Promise.all(
      Array.from({ length: 4 }, () =>
        admin.send("admin.users.create", { body: { email: "same@example.com" } }),
      ),
    );
    expect(responses.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409]);
  });
});
