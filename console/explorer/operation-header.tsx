/** The title, method and path of the operation, and a button that copies the link to this request. */

import { useText } from "../text/text.tsx";
import { CopyButton } from "../ui/values.tsx";
import type { ExplorerOperation } from "./described.ts";
import { Marked } from "./marked.tsx";

export function OperationHeader({ operation, address }: { operation: ExplorerOperation; address: string }) {
  const t = useText("explorer");
  return (
    <section className="explorer-head">
      <h2>{operation.summary}</h2>
      <p className="explorer-address">
        <span className={`method ${operation.method.toLowerCase()}`}>
          {operation.isSocket ? "WS" : operation.method}
        </span>
        <code className="breakable">{operation.path}</code>
        <CopyButton text={new URL(address, location.href).href} label={t.copyLink} />
      </p>
      <p className="soft">
        <Marked text={operation.about} />
      </p>
    </section>
  );
}
