/** The values of a key that every list of keys shows. */

import type { ResponseBody } from "../../api.ts";
import { useText } from "../../text/text.tsx";
import { Badge } from "../../ui/values.tsx";

type Key = ResponseBody<"keys.list">["data"][number];

const TONES = { active: "good", expired: "warn", revoked: "soft" } as const;

export function KeyStatus({ status }: Pick<Key, "status">) {
  const t = useText("keys");
  return <Badge tone={TONES[status]}>{t.status[status]}</Badge>;
}

/** The beginning and the end of the secret: enough to recognise it, too little to use it. */
export function KeyHint({ public_id: publicId, last4 }: Pick<Key, "public_id" | "last4">) {
  const t = useText("keys").detail;
  return last4 === "" ? (
    <span className="soft">{t.imported}</span>
  ) : (
    <code className="nowrap small">
      gwk_{publicId}…{last4}
    </code>
  );
}
