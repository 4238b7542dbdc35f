/** The calculation of the price of one request, line by line. */

import { useFormat, useText } from "../../text/text.tsx";
import { Card, Facts } from "../../ui/page.tsx";
import { Money } from "../../ui/values.tsx";
import type { Inspection } from "./inspection.ts";

export function PriceCard({ request }: { request: Inspection }) {
  const { request: t } = useText("usage");
  const format = useFormat();
  const { calculation, flags } = request;
  const isFree = calculation === null && Number(request.cost) === 0;
  const charged =
    request.payer === null
      ? t.chargedTo.none
      : t.chargedTo[request.payer](format.moneyExact(request.charged));
  const facts = [
    ...(isFree ? [] : [[t.charged, charged] as const]),
    ...(request.upstream_cost === undefined
      ? []
      : [[t.upstreamCost, <Money key="upstream" value={request.upstream_cost} />] as const]),
  ];
  return (
    <Card>
      {calculation !== null && calculation.lines.length > 0 && <PriceLines request={request} />}
      {isFree && <p>{t.priceFree}</p>}
      {calculation === null && !isFree && <p>{request.payer === null ? t.priceNotStored : t.priceUnclear}</p>}
      {calculation !== null && calculation.multiplier !== "1" && (
        <p className="small soft">{t.multiplier(calculation.multiplier)}</p>
      )}
      {flags.map((flag) => (
        <p key={flag} className="small soft">
          {t.flags[flag]}
        </p>
      ))}
      {facts.length > 0 && <Facts facts={facts} />}
    </Card>
  );
}

/** The lines and their sum. */
export function PriceLines({ request }: { request: Inspection }) {
  const { request: t } = useText("usage");
  const format = useFormat();
  const { priceColumns: names } = t;
  return (
    <table className="sum">
      <thead>
        <tr>
          <th scope="col">{names.unit}</th>
          <th scope="col" className="end">
            {names.cost}
          </th>
        </tr>
      </thead>
      <tbody>
        {request.calculation?.lines.map(({ unit, count, price, per, long_context, cost }) => (
          <tr key={`${unit} ${price}`}>
            <td>
              {t.units[unit]}
              {long_context && ` (${t.longContext})`}
              <div className="small soft number">
                {format.number(count)} × {format.moneyExact(price)} / {t.per[per]}
              </div>
            </td>
            <td className="end">{format.moneyExact(cost)}</td>
          </tr>
        ))}
      </tbody>
      <tfoot>
        <tr>
          <th scope="row">{t.total}</th>
          <td className="end">{format.moneyExact(request.cost)}</td>
        </tr>
      </tfoot>
    </table>
  );
}
