/** The price of a model for its callers: the main price, and below it the differences. */

import type { ReactNode } from "react";
import type { ResponseBody } from "../../api.ts";
import { useFormat, useText } from "../../text/text.tsx";

export type CallableModel = ResponseBody<"models.list">["data"][number];

export function InputPrice({ model }: { model: CallableModel }) {
  const t = useText("models");
  const format = useFormat();
  const { price, charge } = model;
  if (charge === "none" || price === null)
    return <span className="soft">{charge === "none" ? t.free : t.noPrice}</span>;
  const { tokens, long_context: long, request } = price;
  return (
    <Price main={Number(tokens.input) > 0 ? format.moneyExact(tokens.input) : null}>
      {tokens.cached_input !== tokens.input && t.cached(format.moneyExact(tokens.cached_input))}
      {long !== null && t.longContext(format.compact(long.above), format.moneyExact(long.tokens.input))}
      {request !== null && t.perRequest(format.moneyExact(request))}
    </Price>
  );
}

export function OutputPrice({ model }: { model: CallableModel }) {
  const t = useText("models");
  const format = useFormat();
  const { price, charge } = model;
  if (charge === "none" || price === null) return null;
  const { tokens, long_context: long, image } = price;
  return (
    <Price main={Number(tokens.output) > 0 ? format.moneyExact(tokens.output) : null}>
      {long !== null &&
        long.tokens.output !== tokens.output &&
        t.longContext(format.compact(long.above), format.moneyExact(long.tokens.output))}
      {image !== null && t.perImage(format.moneyExact(image))}
    </Price>
  );
}

function Price({ main, children }: { main: string | null; children: readonly ReactNode[] }) {
  const lines = children.filter((line) => typeof line === "string");
  return (
    <span className="price">
      {main !== null && <span className="number">{main}</span>}
      {lines.map((line) => (
        <span key={line} className="small soft nowrap">
          {line}
        </span>
      ))}
    </span>
  );
}
