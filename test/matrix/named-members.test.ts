import { expect, test } from "bun:test";
import { cutMembers, type MemberPath } from "./named-members.ts";

test.each<[text: string, path: MemberPath, rest: string]>([
  ['{"a":1, "b":[2]}', ["a"], '{"b":[2]}'],
  ['{"a":1 , "b":{"c":"}"} }', ["b"], '{"a":1 }'],
  ['{"a":{"b":"x\\"y","c":[1,{"d":2}]}}', ["a", "b"], '{"a":{"c":[1,{"d":2}]}}'],
  ['{"tools":[{"type":"one"},{"type":"two"}]}', ["tools", /"one"/], '{"tools":[{"type":"two"}]}'],
  ['{"\\u0061":1}', ["a"], "{}"],
  ['{"a":1,"b":2}', ["c"], '{"a":1,"b":2}'],
])("%s without %j is %s", (text, path, rest) => {
  expect(cutMembers(text, [path])).toBe(rest);
});

test("bytes outside the named members are compared", () => {
  const changed = cutMembers('{"a":1,"b": 2}', [["a"]]);
  expect(changed).not.toBe(cutMembers('{"a":3,"b":2}', [["a"]]));
});
