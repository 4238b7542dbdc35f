import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { described, text, wholeNumber } from "../schema/words.ts";
import { buildOutline } from "./outline.ts";
import { withReference } from "./reference.ts";

const shared = described({ rpm: { is: wholeNumber(1, 9).default(2), means: "so many" } }, "limits");
const file = described({
  doors: {
    is: z
      .array(
        described({
          name: { is: text("a word like a|b@c", () => true), means: "its name" },
          limits: { is: shared.optional(), means: "how fast", leftOut: "any" },
        }).refine(() => true, { error: "a name that rhymes", path: ["name"] }),
      )
      .default(() => []),
    means: "where people come in",
  },
  mood: { is: z.enum(["good", "bad"]).optional(), means: "how it is", leftOut: "`good`" },
});

const PAGE = `# Before

<!-- fields: doors -->
an old table
<!-- end of fields -->

Between.

<!-- fields: mood -->
<!-- end of fields -->
<!-- fields: limits -->
<!-- end of fields -->
After.
`;

describe("a page with marks", () => {
  const page = withReference(PAGE, buildOutline(file));

  test("has a table for each section and each shared map, and what stands around them stays", () => {
    expect(page).toBe(`# Before

<!-- fields: doors -->

Where people come in.

| Field | Meaning | Default | Allowed |
|---|---|---|---|
| \`name\` | its name | required | a word like \`a\\|b@c\`; a name that rhymes |
| \`limits\` | how fast | any | [limits](#limits) |

<!-- end of fields -->

Between.

<!-- fields: mood -->

| Field | Meaning | Default | Allowed |
|---|---|---|---|
| \`mood\` | how it is | \`good\` | \`good\`, \`bad\` |

<!-- end of fields -->
<!-- fields: limits -->

| Field | Meaning | Default | Allowed |
|---|---|---|---|
| \`rpm\` | so many | \`2\` | a whole number from 1 to 9 |

<!-- end of fields -->
After.
`);
  });

  test("is the same when it is made again", () => {
    expect(withReference(page, buildOutline(file))).toBe(page);
  });
});

describe("is refused", () => {
  const refusal = (page: string) => () => withReference(page, buildOutline(file));

  test("a page that forgets a section", () => {
    expect(refusal(PAGE.replace("fields: mood", "mood"))).toThrow("no marks for: mood");
  });

  test("marks that have no end, before they take the next table with them", () => {
    expect(refusal(PAGE.replace("an old table\n<!-- end of fields -->", ""))).toThrow("no marks for: doors");
  });

  test("marks of something that is not in the file", () => {
    expect(refusal(PAGE.replace("fields: mood", "fields: moods"))).toThrow('no fields "moods"');
  });

  test("a field that may be left out and does not say what holds then", () => {
    const silent = described({ a: { is: z.boolean().optional(), means: "it" } });
    expect(() => buildOutline(silent)).toThrow("a may be left out, and does not say what holds then");
  });

  test("a required field that says what holds without it", () => {
    const odd = described({ a: { is: z.boolean(), means: "it", leftOut: "nothing" } });
    expect(() => buildOutline(odd)).toThrow("a is required, and says what holds without it");
  });
});
