import { expect, test } from "bun:test";
import fc from "fast-check";
import { checksum } from "./journal-segment.ts";
import { JsonLineWriter } from "./json-line-writer.ts";

const textOf = ({ bytes, length }: JsonLineWriter) => bytes.toString("utf8", 0, length);
const withSum = (json: string) => `${json}\t${checksum(Buffer.from(json)).toString(16).padStart(8, "0")}\n`;

test("a line is what the runtime's own serializer would make of it", () => {
  const value = fc.oneof(
    fc.string(),
    fc.string({ unit: "binary", maxLength: 30 }),
    fc.string({ minLength: 5_000, maxLength: 9_000 }),
    fc.maxSafeInteger(),
    fc.maxSafeNat(),
    fc.integer({ min: 999_999_990, max: 1_000_000_010 }),
    fc.nat({ max: 20 }),
    fc.double(),
    fc.constant(null),
  );
  const pen = new JsonLineWriter();
  fc.assert(
    fc.property(fc.string(), fc.array(fc.array(value)), (tag, lines) => {
      pen.clear();
      for (const line of lines) {
        pen.open(tag);
        for (const one of line) {
          if (typeof one === "string" || one === null) pen.text(one);
          else pen.number(one);
        }
        pen.close();
      }
      expect(textOf(pen)).toBe(lines.map((line) => withSum(JSON.stringify([tag, ...line]))).join(""));
    }),
  );
});

test("every number of digits is written whole", () => {
  const pen = new JsonLineWriter();
  for (let power = 1; power <= Number.MAX_SAFE_INTEGER; power *= 10) {
    for (const number of [power - 1, power, power + 1]) {
      pen.clear();
      pen.number(number);
      expect(textOf(pen)).toBe(`,${number}`);
    }
  }
});

test("money is a number where that is exact, and text where it is not", () => {
  const pen = new JsonLineWriter();
  pen.open("m");
  pen.nano(2n ** 53n - 1n);
  pen.nano(2n ** 60n + 1n);
  pen.nano(0n);
  pen.close();
  expect(textOf(pen)).toBe(withSum('["m",9007199254740991,"1152921504606846977",0]'));
});

test("a whole line can be written at once", () => {
  const pen = new JsonLineWriter();
  pen.json(["ü", [1, "€"], null]);
  expect(textOf(pen)).toBe(withSum('["ü",[1,"€"],null]'));
});
