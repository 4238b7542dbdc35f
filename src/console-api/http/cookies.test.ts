import { expect, test } from "bun:test";
import { measureSlowdown } from "../../../test/support/machine-speed.ts";
import { presentedSession, sessionCookie } from "./cookies.ts";

const read = (cookie: string) => presentedSession(new Headers({ cookie }));

test("the cookie of a session is found among others", () => {
  const [own = ""] = sessionCookie("secret", 1_000).split(";");
  expect(read(own)).toBe("secret");
  expect(read(`a=b; ${own};c=d`)).toBe("secret");
  expect(read(`a=b;${own} `)).toBe("secret");
  expect(read(`${own}; __Host-session=later`)).toBe("secret");
});

test("a name or a value that contains the name of the cookie is another cookie", () => {
  expect(read("x__Host-session=a")).toBeNull();
  expect(read("x=__Host-session=a")).toBeNull();
  expect(read("__Host-sessions=a")).toBeNull();
  expect(read("x=__Host-session=a; __Host-session=b")).toBe("b");
});

test("a header of separators or of nearly the name is searched at almost no cost", () => {
  const slowdown = measureSlowdown();
  for (const text of [";", " ", "x__Host-session=", "__Host-session"]) {
    const headers = new Headers({ cookie: `a${text.repeat(60_000 / text.length)}a` });
    const before = process.threadCpuUsage();
    for (let i = 0; i < 20; i++) expect(presentedSession(headers)).toBeNull();
    const { user, system } = process.threadCpuUsage(before);
    // A list of the pairs took 100 ms.
    expect((user + system) / 1_000).toBeLessThan(20 * slowdown);
  }
});
