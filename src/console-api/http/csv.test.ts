import { expect, test } from "bun:test";
import { csvLine } from "./csv.ts";

test("values are separated by commas, and a missing value is empty", () => {
  expect(csvLine(["a", 1, true, null, "0.5"])).toBe("a,1,true,,0.5\r\n");
});

test("values with quotes, commas or line breaks are quoted", () => {
  expect(csvLine(['say "hi"', "a,b", "two\nlines"])).toBe('"say ""hi""","a,b","two\nlines"\r\n');
});

test("text that a spreadsheet would read as a formula is escaped", () => {
  expect(csvLine(["=1+1", "+1", "-cmd", "@SUM(A1)", "\tx", '=HYPERLINK("http://x")'])).toBe(
    `'=1+1,'+1,'-cmd,'@SUM(A1),'\tx,"'=HYPERLINK(""http://x"")"\r\n`,
  );
});

test("a negative amount stays a number", () => {
  expect(csvLine(["-0.25"])).toBe("-0.25\r\n");
});
