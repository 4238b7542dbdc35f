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

const readText = ({ bytes }: SharedResponse) => Buffer.from(bytes).toString();
const site = openSite({ base: "/console/", folder, isOnePage: true, cachedBytesMax: 1_000 });
const get = (path: string, headers: Record<string, string> = {}) => site.respond(new Headers(headers), path);

describe("a file with a hash in its name", () => {
  const script = "/console/assets/app-1a2b.js";

  test("is cached by browsers as immutable", async () => {
    expect((await get(script)).headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
  });

  test.each([
    ["gzip, deflate, br, zstd", "br", "packed by brotli"],
    ["gzip;q=1.0, br;q=0", "gzip", "packed by gzip"],
    ["gzip", "gzip", "packed by gzip"],
    ["identity", null, "plain"],
    ["", null, "plain"],
  ])("is sent in an encoding that the browser accepts: %s", async (accepts, encoding, text) => {
    const response = await get(script, { "accept-encoding": accepts });
    expect(response.headers.get("content-encoding")).toBe(encoding);
    expect(response.headers.get("vary")).toBe("accept-encoding");
    expect(response.headers.get("content-type")).toBe("text/javascript; charset=utf-8");
    expect(readText(response)).toBe(text);
  });

  test("is sent uncompressed if there is no compressed version", async () => {
    const response = await get("/console/assets/small-3c4d.css", { "accept-encoding": "br" });
    expect(response.headers.get("content-encoding")).toBeNull();
    expect(readText(response)).toBe("small");
  });

  test("is not found if it is missing or outside of the folder", async () => {
    for (const name of ["none.js", "../index.html", "../../secret.js", `..%2f${secret}`, ""]) {
      expect((await get(`/console/assets/${name}`)).status).toBe(404);
    }
  });
});

describe("a file", () => {
  test("is cached in memory, and not sent to a browser that has it", async () => {
    const first = await get("/console/");
    const again = await get("/console/");
    expect(again.bytes).toBe(first.bytes);
    const etag = first.headers.get("etag") ?? "";
    const known = await get("/console/", { "if-none-match": etag });
    expect([known.status, known.bytes.length, known.headers.get("etag")]).toEqual([304, 0, etag]);
    expect((await get("/console/", { "if-none-match": '"other"' })).status).toBe(200);
  });

  test("has different ETags compressed and uncompressed", async () => {
    const script = "/console/assets/app-1a2b.js";
    const plain = await get(script);
    const packed = await get(script, { "accept-encoding": "br" });
    expect(packed.headers.get("etag")).not.toBe(plain.headers.get("etag"));
  });

  test("above the cache size is read each time", async () => {
    const small = openSite({ base: "/console/", folder, isOnePage: true, cachedBytesMax: 10 });
    const ask = () => small.respond(new Headers(), "/console/");
    const [first, again] = [await ask(), await ask()];
    expect(readText(again)).toBe(readText(first));
    expect(again.bytes).not.toBe(first.bytes);
  });

  test("is read again when it was rebuilt", async () => {
    const rebuilt = mkdtempSync(join(tmpdir(), "gateway-site-"));
    const index = join(rebuilt, "index.html");
    const later = openSite({ base: "/console/", folder: rebuilt, isOnePage: true, cachedBytesMax: 1_000 });
    const ask = async () => readText(await later.respond(new Headers(), "/console/"));
    writeFileSync(index, "first");
    utimesSync(index, 1, 1);
    expect(await ask()).toBe("first");
    writeFileSync(index, "second");
    utimesSync(index, 2, 2);
    expect(await ask()).toBe("second");
    rmSync(rebuilt, { recursive: true });
  });
});

describe("every other path of a single-page site", () => {
  test.each(["/console/", "/console/keys", "/console/admin/groups/x", "/console/../../etc/passwd"])(
    "%s is the index document, revalidated each time",
    async (path) => {
      const response = await get(path);
      expect(response.headers.get("cache-control")).toBe("no-cache");
      expect(readText(response)).toBe("<!doctype html>the page");
    },
  );
});

describe("a site of many pages", () => {
  const docs = openSite({ base: "/docs/", folder, isOnePage: false, cachedBytesMax: 1_000 });
  const read = (path: string) => docs.respond(new Headers(), path);

  test("has a page at each name, and other files", async () => {
    expect(readText(await read("/docs/"))).toContain("the page");
    expect(readText(await read("/docs/guide"))).toBe("a page of its own");
    expect(readText(await read("/docs/guide.html"))).toBe("a page of its own");
    expect((await read("/docs/pictures/one.svg")).headers.get("content-type")).toBe("image/svg+xml");
  });

  test("returns 404 for an unknown page", async () => {
    expect((await read("/docs/nothing")).status).toBe(404);
    expect((await read("/docs/../secret.js")).status).toBe(404);
  });
});

test("security headers forbid inline code, foreign sources and framing", async () => {
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

test("a console that is not built responds with the build command until it is built", async () => {
  const later = mkdtempSync(join(tmpdir(), "gateway-site-"));
  const unbuilt = openSite({ base: "/console/", folder: later, isOnePage: true, cachedBytesMax: 1_000 });
  const ask = () => unbuilt.respond(new Headers(), "/console/");
  expect((await ask()).status).toBe(503);
  expect(readText(await ask())).toContain("npm run build");
  writeFileSync(join(later, "index.html"), "built");
  expect(readText(await ask())).toBe("built");
  rmSync(later, { recursive: true });
});
