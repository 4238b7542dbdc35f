/** The steps of an explanation in words: the finding, and what to do about it. */

import type { ResponseBody } from "../../api.ts";
import { useFormat, useText } from "../../text/text.tsx";
import { useNow } from "../../ui/values.tsx";

type Step = ResponseBody<"models.why">["steps"][number];
type Facts = Step["facts"];

const TICK_MS = 5_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

export function useStepText(): (step: Step) => string {
  const { steps, scope, interfaces: names } = useText("models");
  const format = useFormat();
  const values = useStepValues();
  return ({ reason, facts }) => {
    const { model = "", group = "", plans = [], available = "0" } = facts;
    const iface = facts.interface === undefined ? "" : names[facts.interface];
    const interfaces = format.list((facts.interfaces ?? []).map((name) => names[name]));
    switch (reason) {
      case "group_found":
        return steps.group_found(group);
      case "interface_included":
        return steps.interface_included(iface);
      case "interface_not_included":
        return steps.interface_not_included(group, iface, interfaces);
      case "model_published":
        return steps.model_published(model);
      case "model_unknown":
        return joinSentences(steps.model_unknown(model), values.elsewhere(facts));
      case "model_not_published":
        return joinSentences(steps.model_not_published(group, model), values.elsewhere(facts));
      case "policy_allows_model":
        return steps.policy_allows_model(model);
      case "policy_excludes_model":
        return steps.policy_excludes_model(model);
      case "model_serves_interface":
        return steps.model_serves_interface(model, iface);
      case "model_lacks_interface":
        return steps.model_lacks_interface(model, iface, interfaces);
      case "price_unknown":
        return steps.price_unknown(group, model);
      case "no_account_serves":
        return steps.no_account_serves(model, iface);
      case "limit_in_use":
        return steps.limit_in_use(scope[facts.scope ?? "key"], values.limit(facts));
      case "limit_used_up":
        return joinSentences(
          steps.limit_used_up(scope[facts.scope ?? "key"], values.limit(facts)),
          values.frees(facts, steps.freesWithOne),
        );
      case "balance_available":
        return steps.balance_available(format.moneyLeft(available));
      case "balance_in_debt":
        return steps.balance_in_debt(format.money(facts.debt ?? "0"));
      case "subscription_available":
        return steps.subscription_available(format.list(plans), format.moneyLeft(available));
      case "subscription_missing":
        return steps.subscription_missing(format.list(plans));
      case "subscription_used_up":
        return joinSentences(steps.subscription_used_up(format.list(plans)), values.frees(facts, ""));
      case "failing":
        return joinSentences(steps.failing, values.frees(facts, steps.askAdministrator));
      case "unavailable":
        return joinSentences(steps.unavailable, values.frees(facts, steps.askAdministrator));
      default:
        return steps[reason];
    }
  };
}

/** Parts of the texts that need more than one fact of a step. */
function useStepValues() {
  const { steps, spans } = useText("models");
  const { summary } = useText("limits");
  const format = useFormat();
  const nowMs = useNow(TICK_MS);
  const spanText = (ms: number) => {
    if (ms <= MINUTE_MS) return spans.minute;
    const hours = Math.round(ms / HOUR_MS);
    return hours % 24 === 0 ? spans.days(hours / 24) : spans.hours(hours);
  };
  return {
    limit({ unit = "requests", limit = "", per_ms: perMs = MINUTE_MS }: Facts) {
      const amount = unit === "usd" ? format.money(limit) : format.number(Number(limit));
      return summary[unit](amount, spanText(perMs));
    },
    frees: ({ frees_at: at }: Facts, otherwise: string) =>
      at === undefined ? otherwise : steps.frees(format.relative(at, nowMs)),
    elsewhere({ other_groups: others = [], nearest, group = "" }: Facts) {
      if (others.length > 0) return steps.elsewhere(format.list(others));
      return nearest === undefined ? steps.publish(group) : steps.nearest(nearest);
    },
  };
}

function joinSentences(...parts: string[]): string {
  return parts.filter((part) => part !== "").join(" ");
}
