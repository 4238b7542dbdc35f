/** The models that reply, one select for each column. */

import { useText } from "../../text/text.tsx";
import { Button, IconButton } from "../../ui/button.tsx";
import type { Column } from "./conversation.ts";

interface ModelBarProps {
  columns: readonly Column[];
  models: readonly string[];
  columnsMax: number;
  onChange(columns: readonly Column[]): void;
}

export function ModelBar({ columns, models, columnsMax, onChange }: ModelBarProps) {
  const t = useText("playground");
  const add = () => {
    const unused = models.find((model) => columns.every((column) => column.model !== model));
    onChange([...columns, { id: crypto.randomUUID(), model: unused ?? models[0] ?? "", replies: [] }]);
  };
  return (
    <fieldset className="field">
      <legend>{t.models}</legend>
      <div className="row">
        {columns.map((column, index) => (
          <span key={column.id} className="model-choice">
            <select
              className="input"
              aria-label={t.modelNumber(index + 1)}
              value={column.model}
              onChange={({ target }) => onChange(columns.with(index, { ...column, model: target.value }))}
            >
              {models.map((model) => (
                <option key={model} value={model}>
                  {model}
                </option>
              ))}
            </select>
            {columns.length > 1 && (
              <IconButton
                small
                icon="close"
                label={t.removeModel(column.model)}
                onClick={() => onChange(columns.toSpliced(index, 1))}
              />
            )}
          </span>
        ))}
        {columns.length < columnsMax && models.length > 0 && (
          <Button icon="add" onClick={add}>
            {t.addModel}
          </Button>
        )}
      </div>
    </fieldset>
  );
}
