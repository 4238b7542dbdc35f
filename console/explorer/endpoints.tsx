/** The navigation of operations: a list beside the page, one field on a phone. */

import { useId } from "react";
import { useText } from "../text/text.tsx";
import { BY_FAMILY, type ExplorerOperation } from "./described.ts";

export function EndpointList({ chosen }: { chosen: string }) {
  const t = useText("explorer");
  return (
    <nav className="explorer-endpoints" aria-label={t.endpoints}>
      {BY_FAMILY.map(({ family, operations }) => (
        <div key={family}>
          <h2>{family}</h2>
          <ul>
            {operations.map((operation) => (
              <li key={operation.id}>
                <a href={`#${operation.id}`} aria-current={operation.id === chosen ? "page" : undefined}>
                  <span className={`method ${operation.method.toLowerCase()}`}>
                    {describeMethod(operation)}
                  </span>
                  {operation.summary}
                </a>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </nav>
  );
}

export function EndpointSelect({ chosen }: { chosen: string }) {
  const t = useText("explorer");
  const id = useId();
  return (
    <div className="field explorer-endpoint">
      <label htmlFor={id}>{t.endpoint}</label>
      <select
        id={id}
        className="input"
        value={chosen}
        onChange={(event) => {
          location.hash = event.target.value;
        }}
      >
        {BY_FAMILY.map(({ family, operations }) => (
          <optgroup key={family} label={family}>
            {operations.map((operation) => (
              <option key={operation.id} value={operation.id}>
                {describeMethod(operation)} {operation.summary}
              </option>
            ))}
          </optgroup>
        ))}
      </select>
    </div>
  );
}

function describeMethod(operation: ExplorerOperation): string {
  return operation.isSocket ? "WS" : operation.method;
}
