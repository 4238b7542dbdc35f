/** The groups in which a key can be created, each with its models and prices. */

import { useId } from "react";
import type { ResponseBody } from "../../api.ts";
import { useLimitsText } from "../../forms/limits.tsx";
import { useFormat, useText } from "../../text/text.tsx";
import type { FieldBinding } from "../../ui/field.tsx";
import { Badge } from "../../ui/values.tsx";

export type Offer = ResponseBody<"groups.list">["data"][number];

const MODELS_NAMED = 5;

interface GroupCardsProps extends FieldBinding<string> {
  offers: readonly Offer[];
}

export function GroupCards({ offers, name, value, onChange, problem }: GroupCardsProps) {
  const t = useText("keys").form;
  const id = useId();
  return (
    <fieldset className="field" aria-describedby={`${id}-hint`}>
      <legend>{t.group}</legend>
      <div className="hint" id={`${id}-hint`}>
        {t.groupHint}
      </div>
      <div className="offers">
        {offers.map((offer) => (
          <label key={offer.name} className="offer">
            <input
              type="radio"
              name={name}
              value={offer.name}
              checked={offer.name === value}
              aria-invalid={problem ? true : undefined}
              onChange={() => onChange(offer.name)}
            />
            <OfferText offer={offer} />
          </label>
        ))}
      </div>
      {problem && <div className="field-problem">{problem}</div>}
    </fieldset>
  );
}

function OfferText({ offer }: { offer: Offer }) {
  const t = useText("keys").offer;
  const interfaces = useText("models").interfaces;
  const price = usePriceText();
  const limits = useLimitsText()(offer.limits);
  const named = offer.models.slice(0, MODELS_NAMED);
  const more = offer.models.length - named.length;
  const { charge, plans } = offer;
  const paid = charge === "subscription" && plans !== null ? t.plans(plans.join(", ")) : t.charge[charge];
  return (
    <span className="offer-text">
      <span className="row apart">
        <strong className="breakable">{offer.name}</strong>
        {offer.access === "members" && <Badge tone="plain">{t.members}</Badge>}
      </span>
      <span className="small soft">{[paid, price(offer)].filter((part) => part !== null).join(" · ")}</span>
      <span className="row">
        {listInterfaces(offer).map((name) => (
          <Badge key={name} tone="plain">
            {interfaces[name]}
          </Badge>
        ))}
      </span>
      <span className="small breakable">
        {offer.models.length === 0 ? (
          t.noModels
        ) : (
          <>
            <span className="soft">{t.models(offer.models.length)}: </span>
            <span className="mono">{named.map(({ id }) => id).join(", ")}</span>
            {more > 0 && <span className="soft"> {t.more(more)}</span>}
          </>
        )}
      </span>
      <span className="small soft">{limits === null ? t.noLimits : t.limits(limits)}</span>
    </span>
  );
}

/** The interfaces by which one of the models can be called: a group may allow others that no model supports. */
function listInterfaces({ interfaces, models }: Offer): Offer["interfaces"] {
  return interfaces.filter((name) => models.some((model) => model.interfaces.includes(name)));
}

/** The price of text models: the one that all of them have, or the lowest. Null if the group is free. */
function usePriceText(): (offer: Offer) => string | null {
  const t = useText("keys").offer;
  const format = useFormat();
  return ({ charge, models }) => {
    if (charge === "none") return null;
    const prices = models
      .flatMap(({ price }) => price?.tokens ?? [])
      .filter(({ output }) => Number(output) > 0)
      .sort((a, b) => Number(a.input) - Number(b.input));
    const [cheapest] = prices;
    if (cheapest === undefined) return null;
    const isOne = prices.every(({ input, output }) => input === cheapest.input && output === cheapest.output);
    return (isOne ? t.price : t.priceFrom)(
      format.moneyExact(cheapest.input),
      format.moneyExact(cheapest.output),
    );
  };
}
