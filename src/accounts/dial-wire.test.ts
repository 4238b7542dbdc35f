import { afterAll, describe, expect, test } from "bun:test";
import { systemClock } from "../base/clock.ts";
import { Dialer, type DialTarget } from "../net/http-client/dial.ts";
import { DialError } from "../net/http-client/dial-errors.ts";
import { openClient, ResponseRecorder } from "../net/http-client/http-client.test-support.ts";

/** Every name resolves to this machine, or to the given responses in order. */
function openLoopbackDialer(...responses: string[]): Dialer {
  const lookup = async () => [responses.shift() ?? "127.0.0.1"];
  // No caching, so that every request is a new lookup.
  return new Dialer({ clock: systemClock, lookup, lookupTimeoutMs: 2_000, cacheMs: 0 });
}

async function reason(dialer: Dialer, baseUrl: string): Promise<string> {
  try {
    await dialer.resolve(baseUrl, { privateNetwork: false });
  } catch (err) {
    return err instanceof DialError ? err.reason : "another error";
  }
  return "allowed";
}

describe("dialing on the wire", () => {
  function openServer() {
    const hosts: (string | null)[] = [];
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch(request): Response {
        hosts.push(request.headers.get("host"));
        const elsewhere = `http://127.0.0.1:${server.port}/landed`;
        if (new URL(request.url).pathname === "/v1/moved") return Response.redirect(elsewhere, 302);
        return new Response("answer");
      },
    });
    return { server, hosts, [Symbol.asyncDispose]: () => server.stop(true) };
  }

  const http = openClient();
  afterAll(() => http.close());

  async function call(target: DialTarget, path: string): Promise<ResponseRecorder> {
    const notes = new ResponseRecorder();
    http.send({ target, method: "GET", path, headers: "", body: null }, notes);
    expect(await notes.over.promise).toBe("end");
    return notes;
  }

  test("connects to a private name by its address and sends the name as Host", async () => {
    await using upstream = openServer();
    const dialer = openLoopbackDialer();
    const target = await dialer.resolve(`http://llm.internal:${upstream.server.port}/v1`, {
      privateNetwork: true,
    });
    expect((await call(target, "/v1/models")).text).toBe("answer");
    expect(upstream.hosts).toEqual([`llm.internal:${upstream.server.port}`]);
  });

  test("without permission never reaches the private network", async () => {
    await using upstream = openServer();
    const dialer = openLoopbackDialer();
    for (const host of ["llm.internal", "127.0.0.1", "0x7f.1", "[::ffff:127.0.0.1]"]) {
      expect(await reason(dialer, `http://${host}:${upstream.server.port}/v1`)).toBe("forbidden_address");
    }
    expect(upstream.hosts).toEqual([]);
  });

  test("connects to a name with alternating addresses only when the address is permitted", async () => {
    await using upstream = openServer();
    const dialer = openLoopbackDialer("127.0.0.1", "169.254.169.254", "127.0.0.1", "169.254.169.254");
    const outcomes: string[] = [];
    for (let request = 0; request < 4; request++) {
      try {
        const target = await dialer.resolve(`http://llm.internal:${upstream.server.port}`, {
          privateNetwork: true,
        });
        outcomes.push((await call(target, "/")).text);
      } catch (err) {
        outcomes.push(err instanceof DialError ? err.reason : "another error");
      }
    }
    expect(outcomes).toEqual(["answer", "forbidden_address", "answer", "forbidden_address"]);
    expect(upstream.hosts).toHaveLength(2);
  });

  test("does not follow a redirect", async () => {
    await using upstream = openServer();
    const dialer = openLoopbackDialer();
    const target = await dialer.resolve(`http://llm.internal:${upstream.server.port}/v1`, {
      privateNetwork: true,
    });
    const response = await call(target, "/v1/moved");
    expect(response.status).toBe(302);
    expect(upstream.hosts).toHaveLength(1);
  });

  test("ignores a proxy of the environment", async () => {
    await using upstream = openServer();
    await using proxy = openServer();
    const before = process.env.HTTP_PROXY;
    process.env.HTTP_PROXY = `http://127.0.0.1:${proxy.server.port}`;
    try {
      const dialer = openLoopbackDialer();
      const target = await dialer.resolve(`http://llm.internal:${upstream.server.port}`, {
        privateNetwork: true,
      });
      await call(target, "/");
    } finally {
      if (before === undefined) delete process.env.HTTP_PROXY;
      else process.env.HTTP_PROXY = before;
    }
    expect([upstream.hosts.length, proxy.hosts.length]).toEqual([1, 0]);
  });
});
