/** The limits of a key as meters: used and remaining. */

import type { ResponseBody } from "../../api.ts";
import { useFormat, useText } from "../../text/text.tsx";
import { Meter, useNow } from "../../ui/values.tsx";

type KeyMeter = ResponseBody<"keys.get">["meters"][number];

const TICK_MS = 5_000;
const MINUTE_MS = 60_000;
const LENGTHS: Readonly<Record<number, "5h" | "1d" | "7d" | "30d">> = {
  18000000: "5h",
  86400000: "1d",
  604800000: "7d",
  2592000000: "30d",
};

/** Every limit that applies to a key, with its remaining amount. */
export function KeyMeters({ meters }: { meters: readonly KeyMeter[] }) {
  const t = useText("keys").meter;
  const { lengths, meter: units } = useText("limits");
  const format = useFormat();
  const nowMs = useNow(TICK_MS);
  return (
    <div className="meters">
      {meters.map((meter) => {
        const length = LENGTHS[meter.per_ms ?? 0];
        const span = meter.per_ms === MINUTE_MS || length === undefined ? t.minute : lengths[length];
        const used = Number(meter.used);
        const show = (value: number) =>
          meter.unit === "usd" ? format.money(String(value)) : format.compact(value);
        const note =
          meter.resets_at === null
            ? undefined
            : used === 0
              ? t.untouched
              : t.full(format.relative(meter.resets_at, nowMs));
        return (
          <Meter
            key={`${meter.scope} ${meter.unit} ${meter.per_ms}`}
            label={t.label(t.scope[meter.scope], units[meter.unit](span))}
            used={used}
            limit={Number(meter.limit)}
            show={show}
            note={note}
          />
        );
      })}
    </div>
  );
}
