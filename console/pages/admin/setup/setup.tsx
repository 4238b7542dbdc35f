/** The first hour of an administrator: the checklist, and a vendor account with its models in one step. */

import { useEffect, useState } from "react";
import { useApi } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Awaited } from "../../../ui/awaited.tsx";
import { Card, Page, PageHeader, Section } from "../../../ui/page.tsx";
import { Checklist } from "./checklist.tsx";
import { reopenChecklist } from "./closed-checklist.ts";
import { PublishForm } from "./publish-form.tsx";
import { type Published, PublishedNotice } from "./published-notice.tsx";
import { type Proposal, VendorForm } from "./vendor-form.tsx";

export default function SetupPage() {
  const t = useText("adminSetup");
  const setup = useApi("admin.setup.get");
  // Help opens this page to show the checklist again.
  useEffect(reopenChecklist, []);
  return (
    <Page>
      <PageHeader title={t.title} about={t.about} />
      {setup.data === undefined ? (
        <Awaited query={setup} height={320} />
      ) : (
        <>
          <Section title={t.vendor.title} about={t.vendor.about}>
            <Card>
              <AddVendor vendors={setup.data.vendors} />
            </Card>
          </Section>
          <Checklist />
        </>
      )}
    </Page>
  );
}

function AddVendor({ vendors }: { vendors: readonly { id: string; label: string }[] }) {
  const [proposal, setProposal] = useState<Proposal | null>(null);
  const [published, setPublished] = useState<Published | null>(null);
  if (published !== null) return <PublishedNotice published={published} />;
  if (proposal === null) return <VendorForm vendors={vendors} onProposal={setProposal} />;
  return <PublishForm proposal={proposal} onBack={() => setProposal(null)} onPublished={setPublished} />;
}
