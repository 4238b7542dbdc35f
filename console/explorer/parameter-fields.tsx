/** Fields for the path and query parameters of an operation. */

import type { Parameter } from "../../src/public-api/operation.ts";
import { useText } from "../text/text.tsx";
import { SelectField, TextField } from "../ui/field.tsx";
import { Section } from "../ui/page.tsx";
import { Marked } from "./marked.tsx";

interface ParameterFieldsProps {
  parameters: readonly Parameter[];
  values: Readonly<Record<string, string>>;
  onChange(values: Readonly<Record<string, string>>): void;
}

/** Fields for the path and the query. Headers are for programs. */
export function ParameterFields({ parameters, values, onChange }: ParameterFieldsProps) {
  const t = useText("explorer");
  const shown = parameters.filter((parameter) => parameter.in !== "header");
  if (shown.length === 0) return null;
  return (
    <Section title={t.parameters}>
      {shown.map(({ name, about, schema, in: place, example }) => {
        const bound = {
          name,
          label: name,
          hint: <Marked text={about} />,
          value: values[name] ?? "",
          onChange: (value: string) => onChange({ ...values, [name]: value }),
          optional: place === "query",
        };
        return schema.enum === undefined ? (
          <TextField key={name} {...bound} isMono placeholder={example} />
        ) : (
          <SelectField
            key={name}
            {...bound}
            choices={[
              { value: "", label: t.notSet },
              ...schema.enum.map((value) => ({ value, label: value })),
            ]}
          />
        );
      })}
    </Section>
  );
}
