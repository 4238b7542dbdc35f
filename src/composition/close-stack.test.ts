import { expect, test } from "bun:test";
import { CloseStack } from "./close-stack.ts";

test("closes services in the reverse order of their opening, each one after the one before", async () => {
  const closers = new CloseStack();
  const closed: string[] = [];
  closers.add(() => {
    closed.push("store");
  });
  closers.add(async () => {
    await Bun.sleep(5);
    closed.push("server");
  });
  await closers.closeAll();
  await closers.closeAll();
  expect(closed).toEqual(["server", "store"]);
});

test("closes the remaining services after an error, and throws it at the end", async () => {
  const closers = new CloseStack();
  let isStoreClosed = false;
  closers.add(() => {
    isStoreClosed = true;
  });
  closers.add(() => Promise.reject(new Error("the server does not close")));
  await expect(closers.closeAll()).rejects.toThrow("the server does not close");
  expect(isStoreClosed).toBeTrue();
});
