import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SharedResponse } from "../net/wire/http-message.ts";
import { openSite } from "./site.ts";

const folder = mkdtempSync(join(tmpdir(), "gateway-site-"));
const secret = `${folder}-secret.js`;
for (const name of ["assets", "pictures"]) mkdirSync(join(folder, name));
for (const [name, text] of Object.entries({
  "index.html": "<!doctype html>the page",
  "assets/app-1a2b.js": "plain",
  "assets/app-1a2b.js.br": "packed by brotli",
  "assets/app-1a2b.js.gz": "packed by gzip",
  "assets/small-3c4d.css": "small",
  "guide.html": "a page of its own",
  "pictures/one.svg": "<svg/>",
})) {
  writeFileSync(join(folder, name), text);
}
writeFileSync(secret, "not for anybody");
afterAll(() => {
  rmSync(folder, { recursive: true });
  rmSync(secret);
});

const textOf = ({ bytes }: SharedResponse) => Buffer.from(bytes).toString();
const site = openSite({ base: "/console/", folder, isOnePage: true, keptBytesMax: 1_000 });
const get = (path: string, headers: Record<string, string> = {}) => site.answer(new Headers(headers), path);

describe("a file with a hash in its name", () => {
  const script = "/console/assets/app-1a2b.js";

  test("is kept by browsers for ever", async () => {
    expect((await get(script)).headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
  });

  test.each([
    ["gzip, deflate, br, zstd", "br", "packed by brotli"],
    ["gzip;q=1.0, br;q=0", "gzip", "packed by gzip"],
    ["gzip", "gzip", "packed by gzip"],
    ["identity", null, "plain"],
    ["", null, "plain"],
  ])("goes out as the browser takes it: %s", async (accepts, encoding, text) => {
    const response = await get(script, { "accept-encoding": accepts });
    expect(response.headers.get("content-encoding")).toBe(encoding);
    expect(response.headers.get("vary")).toBe("accept-encoding");
    expect(response.headers.get("content-type")).toBe("text/javascript; charset=utf-8");
    expect(textOf(response)).toBe(text);
  });

  test("goes out plain where it was not packed", async () => {
    const response = await get("/console/assets/small-3c4d.css", { "accept-encoding": "br" });
    expect(response.headers.get("content-encoding")).toBeNull();
    expect(textOf(response)).toBe("small");
  });

  test("that is not there is not found, and nothing outside of the folder is", async () => {
    for (const name of ["none.js", "../index.html", "../../secret.js", `..%2f${secret}`, ""]) {
      expect((await get(`/console/assets/${name}`)).status).toBe(404);
    }
  });
});

describe("a file", () => {
  test("is sent from memory once it was asked for, and not at all to a browser that has it", async () => {
    const first = await get("/console/");
    const again = await get("/console/");
    expect(again.bytes).toBe(first.bytes);
    const etag = first.headers.get("etag") ?? "";
    const known = await get("/console/", { "if-none-match": etag });
    expect([known.status, known.bytes.length, known.headers.get("etag")]).toEqual([304, 0, etag]);
    expect((await get("/console/", { "if-none-match": '"other"' })).status).toBe(200);
  });

  test("that was packed has another tag than the plain one", async () => {
    const script = "/console/assets/app-1a2b.js";
    const plain = await get(script);
    const packed = await get(script, { "accept-encoding": "br" });
    expect(packed.headers.get("etag")).not.toBe(plain.headers.get("etag"));
  });

  test("that does not fit is read each time", async () => {
    const small = openSite({ base: "/console/", folder, isOnePage: true, keptBytesMax: 10 });
    const ask = () => small.answer(new Headers(), "/console/");
    const [first, again] = [await ask(), await ask()];
    expect(textOf(again)).toBe(textOf(first));
    expect(again.bytes).not.toBe(first.bytes);
  });

  test("that was built anew is sent anew", async () => {
    const rebuilt = mkdtempSync(join(tmpdir(), "gateway-site-"));
    const index = join(rebuilt, "index.html");
    const later = openSite({ base: "/console/", folder: rebuilt, isOnePage: true, keptBytesMax: 1_000 });
    const ask = async () => textOf(await later.answer(new Headers(), "/console/"));
    writeFileSync(index, "first");
    utimesSync(index, 1, 1);
    expect(await ask()).toBe("first");
    writeFileSync(index, "second");
    utimesSync(index, 2, 2);
    expect(await ask()).toBe("second");
    rmSync(rebuilt, { recursive: true });
  });
});

describe("every other address", () => {
  test.each(["/console/", "/console/keys", "/console/admin/groups/x", "/console/../../etc/passwd"])(
    "%s is the one document, asked for anew each time",
    async (path) => {
      const response = await get(path);
      expect(response.headers.get("cache-control")).toBe("no-cache");
      expect(textOf(response)).toBe("<!doctype html>the page");
    },
  );
});

describe("a site of many pages", () => {
  const docs = openSite({ base: "/docs/", folder, isOnePage: false, keptBytesMax: 1_000 });
  const read = (path: string) => docs.answer(new Headers(), path);

  test("has one at each name, and files beside them", async () => {
    expect(textOf(await read("/docs/"))).toContain("the page");
    expect(textOf(await read("/docs/guide"))).toBe("a page of its own");
    expect(textOf(await read("/docs/guide.html"))).toBe("a page of its own");
    expect((await read("/docs/pictures/one.svg")).headers.get("content-type")).toBe("image/svg+xml");
  });

  test("knows what it has not", async () => {
    expect((await read("/docs/nothing")).status).toBe(404);
    expect((await read("/docs/../secret.js")).status).toBe(404);
  });
});

test("nothing inline, nothing from elsewhere, and in nobody's frame", async () => {
  for (const path of ["/console/", "/console/assets/app-1a2b.js", "/console/assets/none.js"]) {
    const { headers } = await get(path);
    const policy = headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'self'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toContain("unsafe");
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("x-frame-options")).toBe("DENY");
  }
});

test("a console that is not built says how, until it is", async () => {
  const later = mkdtempSync(join(tmpdir(), "gateway-site-"));
  const unbuilt = openSite({ base: "/console/", folder: later, isOnePage: true, keptBytesMax: 1_000 });
  const ask = () => unbuilt.answer(new Headers(), "/console/");
  expect((await ask()).status).toBe(503);
  expect(textOf(await ask())).toContain("npm run build");
  writeFileSync(join(later, "index.html"), "built");
  expect(textOf(await ask())).toBe("built");
  rmSync(later, { recursive: true });
});
