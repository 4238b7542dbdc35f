/** What is sent with every turn: system text, temperature, effort and tools. */

import { useText } from "../../text/text.tsx";
import { NumberField, SelectField, TextAreaField } from "../../ui/field.tsx";
import { EFFORTS, type Effort, type Settings } from "./conversation.ts";

interface OptionFieldsProps {
  settings: Settings;
  areToolsValid: boolean;
  onChange(settings: Settings): void;
}

/** Not translated: the tools of a request have these names in every language. */
const TOOL_EXAMPLE = '[{"name": "get_weather", "parameters": {"type": "object", "properties": {}}}]';

export function OptionFields({ settings, areToolsValid, onChange }: OptionFieldsProps) {
  const t = useText("playground").options;
  const bind = <Name extends keyof Settings>(name: Name) => ({
    name,
    value: settings[name],
    onChange: (value: Settings[Name]) => onChange({ ...settings, [name]: value }),
  });
  return (
    <details className="details">
      <summary>{t.title}</summary>
      <div className="stack">
        <div className="columns">
          <TextAreaField {...bind("system")} label={t.system} rows={4} optional />
          <TextAreaField
            {...bind("tools")}
            label={t.tools}
            hint={t.toolsHint}
            placeholder={TOOL_EXAMPLE}
            problem={areToolsValid ? null : t.toolsWrong}
            rows={4}
            optional
          />
        </div>
        <div className="columns">
          <NumberField {...bind("temperature")} label={t.temperature} min={0} max={2} step={0.1} optional />
          <SelectField<Effort | "">
            {...bind("effort")}
            label={t.effort}
            choices={[
              { value: "", label: t.modelDefault },
              ...EFFORTS.map((effort) => ({ value: effort, label: t.efforts[effort] })),
            ]}
          />
        </div>
      </div>
    </details>
  );
}
