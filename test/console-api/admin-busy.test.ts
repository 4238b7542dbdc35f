/** Administrators beside users who never stop. */

import { afterEach, beforeEach, expect, test } from "bun:test";
import { eachEngine } from "../support/postgres.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { type SignedIn, signInAs } from "../support/signed-in.ts";

eachEngine((engine) => {
  let gateway: RunningGateway;
  let admin: SignedIn;
  beforeEach(async () => {
    gateway = await startTestGateway({ databaseUrl: await engine.emptyUrl() });
    admin = await signInAs(gateway, "root@example.com", "admin");
  });
  afterEach(() => gateway.stop());

  test("change what they want while keys are edited without a pause", async () => {
    const dev = await signInAs(gateway, "dev@example.com");
    const keys = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        dev.ask("keys.create", { body: { name: `key ${i}`, group: "default" } }),
      ),
    );
    let isOver = false;
    const editing = keys.map(async ({ key }) => {
      for (let n = 0; !isOver; n++) {
        await dev.ask("keys.edit", { params: { id: key.id }, body: { name: `${key.id} ${n}` } });
      }
    });
    try {
      const made = await Promise.all(
        Array.from({ length: 10 }, (_, i) =>
          admin.ask("admin.users.create", { body: { email: `user${i}@example.com` } }),
        ),
      );
      expect(new Set(made.map(({ email }) => email)).size).toBe(10);
      const text = "users: [{ email: user0@example.com, role: admin }]";
      const { plan } = await admin.ask("admin.config.plan", { body: { text } });
      const { changes } = await admin.ask("admin.config.apply", { body: { text, plan: plan ?? "" } });
      expect(changes.map(({ what }) => what)).toEqual(["user user0@example.com"]);
    } finally {
      isOver = true;
      await Promise.all(editing);
    }
  });

  test("of several who make the same user at once, one does", async () => {
    const answers = await Promise.all(
      Array.from({ length: 4 }, () =>
        admin.send("admin.users.create", { body: { email: "same@example.com" } }),
      ),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409]);
  });
});
