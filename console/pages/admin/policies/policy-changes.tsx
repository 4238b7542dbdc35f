/** The members of a request that its request policy changed. */

import type { ResponseBody } from "../../../api.ts";
import { useText } from "../../../text/text.tsx";

/** The changed members, before and after. */
export function PolicyChanges({ changes }: { changes: ResponseBody<"usage.request">["policy_changes"] }) {
  const t = useText("adminPolicies").trial;
  return (
    <table className="table">
      <thead>
        <tr>
          <th>{t.member}</th>
          <th>{t.before}</th>
          <th>{t.after}</th>
        </tr>
      </thead>
      <tbody>
        {changes.map(({ param, from, to }) => (
          <tr key={`${param} ${from}`}>
            <td>
              <code>{param}</code>
            </td>
            <td>{from ?? t.absent}</td>
            <td>{to ?? t.removed}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
