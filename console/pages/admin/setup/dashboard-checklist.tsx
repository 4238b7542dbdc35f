/** The checklist on the dashboard, until everything is done or the administrator closes it. */

import { useState } from "react";
import { useApi } from "../../../data.ts";
import { useUser } from "../../../session.tsx";
import { Checklist, isSetUp } from "./checklist.tsx";
import { closeChecklist, isChecklistClosed } from "./closed-checklist.ts";

export function DashboardChecklist() {
  // Auditors see the dashboard as well, and may change nothing.
  const isAdmin = useUser().role === "admin";
  const [isClosed, setClosed] = useState(isChecklistClosed);
  const setup = useApi("admin.setup.get", {}, { enabled: isAdmin && !isClosed });
  if (isClosed || setup.data === undefined || isSetUp(setup.data.steps)) return null;
  return (
    <Checklist
      onClose={() => {
        closeChecklist();
        setClosed(true);
      }}
    />
  );
}
