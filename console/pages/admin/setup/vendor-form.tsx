/** A vendor and its credential. The gateway lists the models of the account, without a call of a model. */

import type { ResponseBody } from "../../../api.ts";
import { useChange } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Link } from "../../../ui/button.tsx";
import { SecretField, SelectField } from "../../../ui/field.tsx";
import { Form, useForm } from "../../../ui/form.tsx";

export interface Proposal extends ResponseBody<"admin.setup.propose"> {
  readonly vendor: string;
  /** In memory of this page, until the account is created. */
  readonly credential: string;
}

interface VendorFormProps {
  vendors: readonly { id: string; label: string }[];
  onProposal(proposal: Proposal): void;
}

export function VendorForm({ vendors, onProposal }: VendorFormProps) {
  const t = useText("adminSetup").vendor;
  const propose = useChange("admin.setup.propose");
  const form = useForm({ vendor: vendors[0]?.id ?? "", credential: "" }, async (values) => {
    const body = { vendor: values.vendor, credential: values.credential.trim() };
    onProposal({ ...body, ...(await propose.mutateAsync({ body })) });
  });
  return (
    <Form form={form} submit={t.list}>
      <SelectField
        {...form.bind("vendor")}
        label={t.vendor}
        choices={vendors.map(({ id, label }) => ({ value: id, label }))}
      />
      <SecretField {...form.bind("credential")} label={t.credential} hint={t.credentialHint} />
      <p className="small soft">
        {t.other} <Link to="/admin/accounts">{t.allAccounts}</Link>
      </p>
    </Form>
  );
}
