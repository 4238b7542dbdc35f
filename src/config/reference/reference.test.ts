import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { describeFields, text, wholeNumber } from "../schema/basic-values.ts";
import { buildOutline } from "./outline.ts";
import { withReference } from "./reference.ts";

const shared = describeFields({ rpm: { is: wholeNumber(1, 9).default(2), means: "so many" } }, "limits");
const file = describeFields({
  doors: {
    is: z
      .array(
        describeFields({
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

describe("a page with markers", () => {
  const page = withReference(PAGE, buildOutline(file));

  test("gets a table for each section and each shared map, and keeps the text around them", () => {
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

  test("is unchanged when it is generated again", () => {
    expect(withReference(page, buildOutline(file))).toBe(page);
  });
});

describe("generation rejects", () => {
  const rejection = (page: string) => () => withReference(page, buildOutline(file));

  test("a page without a section", () => {
    expect(rejection(PAGE.replace("fields: mood", "mood"))).toThrow("no marks for these sections: mood");
  });

  test("markers without an end, before they replace the next table", () => {
    expect(rejection(PAGE.replace("an old table\n<!-- end of fields -->", ""))).toThrow(
      "no marks for these sections: doors",
    );
  });

  test("markers of an unknown section", () => {
    expect(rejection(PAGE.replace("fields: mood", "fields: moods"))).toThrow('"moods" does not exist');
  });

  test("an optional field without a documented default", () => {
    const silent = describeFields({ a: { is: z.boolean().optional(), means: "it" } });
    expect(() => buildOutline(silent)).toThrow("a is optional, but has no default");
  });

  test("a required field with a documented default", () => {
    const odd = describeFields({ a: { is: z.boolean(), means: "it", leftOut: "nothing" } });
    expect(() => buildOutline(odd)).toThrow("a is required, but has a leftOut text");
  });
});
