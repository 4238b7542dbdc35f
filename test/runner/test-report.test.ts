import { expect, test } from "bun:test";
import { type Failure, TestReport } from "./test-report.ts";

const OUTPUT = `bun test v1.4.4 2x PARALLEL

src/a.test.ts:
error: expect(received).toBe(expected)

Expected: 2
Received: 1

(fail) adds > two numbers [11.18ms]

src/b.test.ts:
(pass) works [1.00ms]
(skip) later

src/a.test.ts:
(fail) ends in time [103.98ms]
  ^ this test timed out after 100ms.
(pass) survives [0.06ms]

2 tests failed:
(fail) adds > two numbers [11.18ms]
(fail) ends in time [103.98ms]
  ^ this test timed out after 100ms.

 12 pass
 1 skip
 2 fail
 29 expect() calls
Ran 15 tests across 2 files. [7.40s]
`;

function read(output: string, bytes = output.length): { report: TestReport; announced: Failure[] } {
  const announced: Failure[] = [];
  const report = new TestReport((failure) => announced.push(failure));
  for (let at = 0; at < output.length; at += bytes) report.push(output.slice(at, at + bytes));
  report.end();
  return { report, announced };
}

test.each([1, 7, 10_000])(
  "failures are read with their file and reason, in parts of %p characters",
  (bytes) => {
    const { report, announced } = read(OUTPUT, bytes);
    expect(report.failures).toEqual([
      {
        file: "src/a.test.ts",
        name: "adds > two numbers",
        words: "error: expect(received).toBe(expected)\n\nExpected: 2\nReceived: 1",
      },
      { file: "src/a.test.ts", name: "ends in time", words: "\n  ^ this test timed out after 100ms." },
    ]);
    expect(announced).toEqual(report.failures);
    expect([...report.files]).toEqual(["src/a.test.ts", "src/b.test.ts"]);
    expect(report).toMatchObject({ passed: 12, failed: 2, isWhole: true });
  },
);

test("a run is not whole if a process crashed or a file could not be loaded", () => {
  const crashed = OUTPUT.replace(" 2 fail", " 3 fail");
  expect(read(crashed).report.isWhole).toBe(false);
  expect(read(OUTPUT.slice(0, 200)).report.isWhole).toBe(false);
});
