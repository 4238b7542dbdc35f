/** The values of a key that every list of keys shows. */

import type { ResponseBody } from "../../api.ts";
import { useText } from "../../text/text.tsx";
import { Link } from "../../ui/button.tsx";
import { Badge, Count } from "../../ui/values.tsx";

type Key = ResponseBody<"keys.list">["data"][number];

const TONES = { active: "good", expired: "warn", suspended: "warn", revoked: "soft" } as const;

export function KeyStatus({ status }: Pick<Key, "status">) {
  const t = useText("keys");
  return <Badge tone={TONES[status]}>{t.status[status]}</Badge>;
}

type Hinted = Pick<Key, "public_id" | "last4" | "is_tool">;

/** The beginning and the end of the secret: enough to recognise it, too little to use it. */
export function KeyHint({ public_id: publicId, last4, is_tool: isTool }: Hinted) {
  const t = useText("keys").detail;
  // The secret of a tool is replaced every hour.
  if (isTool) return <Badge tone="plain">{t.tool}</Badge>;
  return last4 === "" ? (
    <span className="soft">{t.imported}</span>
  ) : (
    <code className="nowrap small">
      gwk_{publicId}…{last4}
    </code>
  );
}

interface RequestCountProps {
  keyId: string;
  range: "day" | "month";
  value: number;
}

/** The number of requests of a key, with a link to their list. */
export function RequestCount({ keyId, range, value }: RequestCountProps) {
  return (
    <Link to={`/usage?${new URLSearchParams({ key: keyId, range })}`}>
      <Count value={value} />
    </Link>
  );
}
