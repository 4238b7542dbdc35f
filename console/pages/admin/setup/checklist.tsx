/** The steps from an empty installation to the first request, computed from the state of the gateway. */

import type { ResponseBody } from "../../../api.ts";
import { useApi } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { IconButton, LinkButton } from "../../../ui/button.tsx";
import { classes } from "../../../ui/class.ts";
import { Icon } from "../../../ui/icon.tsx";
import { Card } from "../../../ui/page.tsx";
import "./setup.css";

type Steps = ResponseBody<"admin.setup.get">["steps"];
type StepName = keyof Steps;

/** The first request may come from a tool at any time. */
const REFRESH_MS = 5_000;

/** In the order in which they are done; each with the page that does it. */
const STEP_PAGES: readonly (readonly [name: StepName, page: string])[] = [
  ["account", "/admin/setup"],
  ["models", "/admin/models"],
  ["price", "/admin/models"],
  ["person", "/admin/users?open=invite"],
  ["tool", "/connect"],
  ["request", "/playground"],
];

export function isSetUp(steps: Steps): boolean {
  return STEP_PAGES.every(([name]) => steps[name]);
}

/** `onClose` is omitted where the checklist cannot be closed. */
export function Checklist({ onClose }: { onClose?(): void }) {
  const t = useText("adminSetup");
  const setup = useApi("admin.setup.get", {}, { refreshMs: REFRESH_MS });
  if (setup.data === undefined) return null;
  const { steps } = setup.data;
  const next = STEP_PAGES.find(([name]) => !steps[name])?.[0];
  return (
    <Card>
      <div className="row apart">
        <h2>{t.checklist}</h2>
        {onClose && <IconButton icon="close" label={t.close} onClick={onClose} />}
      </div>
      <ol className="setup-steps">
        {STEP_PAGES.map(([name, page]) => (
          <li key={name} className={classes("row apart", steps[name] && "done")}>
            <span className="row">
              <Icon name={steps[name] ? "check" : "clock"} size={16} />
              <span>{t.steps[name]}</span>
              {steps[name] && <span className="unseen">{t.done}</span>}
            </span>
            {!steps[name] && (
              <LinkButton to={page} small tone={name === next ? "primary" : "plain"}>
                {t.actions[name]}
              </LinkButton>
            )}
          </li>
        ))}
      </ol>
    </Card>
  );
}
