/**
 * JSON as text, in every form that the grammar allows and that parsing and serialising would change: big
 * numbers, escapes, unusual spaces, repeated keys, keys in any order.
 */

import fc from "fast-check";

/** A member as text: the key with its quotes, and its value. */
export interface RawMember {
  key: string;
  value: string;
}

/** Between two tokens. Events of a stream are one line, so there `lines` is false. */
function spaces(lines: boolean): fc.Arbitrary<string> {
  return fc.string({
    unit: fc.constantFrom(...(lines ? [" ", "\t", "\n", "\r"] : [" ", "\t"])),
    maxLength: 3,
  });
}

const NUMBERS = fc.oneof(
  fc.constantFrom(
    "0",
    "-0",
    "-0.0",
    "1e400",
    "-1E+400",
    "1e-400",
    "0.1000",
    "1E5",
    "3.0e0",
    "9007199254740993",
  ),
  fc.bigInt({ min: 10n ** 29n, max: 10n ** 31n }).map(String),
  fc.integer().map(String),
);

const STRINGS = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        "\\u00e9",
        "\\ud83d\\ude00",
        "\\ud800",
        "\\/",
        "\\\\",
        '\\"',
        "\\n",
        "\\u0000",
        "\\u005C",
      ),
      fc.constantFrom(
        "é",
        "日本",
        "🙂",
        "model",
        "{",
        "}",
        "[",
        ":",
        ",",
        "'",
        "</script>",
        "\u2028",
        "\u007f",
      ),
      fc.string({ unit: "grapheme", maxLength: 4 }).map((text) => JSON.stringify(text).slice(1, -1)),
    ),
    { maxLength: 5 },
  )
  .map((parts) => `"${parts.join("")}"`);

const SCALARS = fc.oneof(NUMBERS, STRINGS, fc.constantFrom("true", "false", "null"));

/** Names that have a meaning at the top level have none below it. */
const INNER_KEYS = fc.oneof(
  fc.constantFrom('"model"', '"stream"', '"usage"', '"error"', '"__proto__"', '"finish"', '""'),
  STRINGS,
);

function values(lines: boolean): fc.Arbitrary<string> {
  const space = spaces(lines);
  return fc.letrec<{ value: string }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4, depthSize: "small" },
      SCALARS,
      fc
        .array(fc.tuple(space, tie("value"), space), { maxLength: 3 })
        .map((items) => `[${items.map((item) => item.join("")).join(",")}]`),
      fc
        .array(fc.tuple(space, INNER_KEYS, space, space, tie("value"), space), { maxLength: 3 })
        .map(
          (members) =>
            `{${members.map(([a, key, b, c, value, d]) => `${a}${key}${b}:${c}${value}${d}`).join(",")}}`,
        ),
    ),
  })).value;
}

/** Keys that neither side knows. */
const UNKNOWN_KEYS = fc
  .oneof(fc.constantFrom("x", "Model", "model ", "x_model", "__proto__", "constructor", "ключ"), fc.uuid())
  .map((key) => JSON.stringify(`x-${key}`));

export function unknownMembers(options: { lines: boolean }): fc.Arbitrary<RawMember[]> {
  return fc.array(fc.record({ key: UNKNOWN_KEYS, value: values(options.lines) }), { maxLength: 4 });
}

export interface RawObject {
  /** The object with the text in place of the replaced value. */
  with(value: string): string;
}

/**
 * An object of the given members in any order, with `exchanged` (a key as text) among them and any
 * spaces in between.
 */
export function rawObject(
  members: fc.Arbitrary<RawMember[]>,
  exchanged: fc.Arbitrary<string>,
  options: { lines: boolean },
): fc.Arbitrary<RawObject> {
  const space = spaces(options.lines);
  return fc
    .tuple(members, exchanged, fc.infiniteStream(space), fc.infiniteStream(fc.nat()))
    .map(([rest, key, gaps, dice]) => {
      const all: (RawMember | { key: string; value: null })[] = [...rest, { key, value: null }];
      const order = all
        .map((member) => ({ member, at: dice.next().value ?? 0 }))
        .toSorted((a, b) => a.at - b.at)
        .map(({ member }) => member);
      const gap = () => gaps.next().value ?? "";
      const pieces = order.map((member) => ({
        before: `${gap()}${member.key}${gap()}:${gap()}`,
        value: member.value,
        after: gap(),
      }));
      const [head, tail] = [gap(), gap()];
      return {
        with: (value: string) =>
          `${head}{${pieces.map((piece) => piece.before + (piece.value ?? value) + piece.after).join(",")}}${tail}`,
      };
    });
}
