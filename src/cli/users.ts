/** `model-gateway users`: creates, lists and changes the people who sign in. */

import { instantText } from "../base/time.ts";
import type { Installation } from "../config/installation/installation.ts";
import { applyChanges, planDocument } from "../config/plan/apply.ts";
import { EMAIL_RULE, isEmail } from "../config/schema/basic-values.ts";
import { secretChange } from "../config/state/difference.ts";
import { formatProblem } from "../config/state/problem.ts";
import { userToFile } from "../config/state/to-file-shape.ts";
import {
  effectiveGroups,
  effectiveRole,
  effectiveStatus,
  ROLES,
  type Role,
  type UserRecord,
  type UserStatus,
} from "../records/user.ts";
import { writePassword } from "../store/identity/credentials.ts";
import { findUserByEmail, listUsers } from "../store/identity/users.ts";
import { listGroups } from "../store/policy/groups.ts";
import { type CommandDefinition, DATA_OPTION, fail, type Input, JSON_OPTION, misuse } from "./command.ts";
import { operator, runLogged } from "./operator.ts";
import { printJson, printList } from "./output.ts";
import { readPassword } from "./password.ts";
import { requireUser, withInstallation } from "./store-access.ts";

export const listAllUsers: CommandDefinition = {
  changes: "nothing",
  options: { json: JSON_OPTION, data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async ({ db }) => {
      const { paint } = input.terminal;
      const groups = await readGroupNames(db);
      const users = (await listUsers(db)).map((user) => ({
        email: user.email,
        role: effectiveRole(user),
        status: effectiveStatus(user),
        has_password: user.passwordHash !== null,
        groups: effectiveGroups(user).map((id) => groups.get(id) ?? id),
        provider: user.directory?.provider ?? null,
        created: instantText(user.createdAtMs),
      }));
      printList(input, {
        json: users,
        header: ["EMAIL", "ROLE", "STATUS", "PASSWORD", "GROUPS", "CREATED"],
        rows: users.map((user) => [
          user.email,
          user.role,
          user.status === "active" ? paint.green(user.status) : paint.red(user.status),
          user.has_password ? "yes" : "no",
          user.groups.join(", ") || "-",
          user.created.slice(0, 10),
        ]),
        empty: `No users yet. To create one: ${input.command("users create", "EMAIL")}`,
      });
    }),
};

export const createUser: CommandDefinition = {
  changes: "access",
  about:
    "The user chooses a password with a link of `admin link --for reset`, or an operator sets it with `users password`.",
  options: {
    role: { value: "ROLE", about: "user, auditor or admin (user)" },
    groups: { value: "GROUPS", about: "names of private groups that the user may use, separated by commas" },
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const email = input.require("EMAIL");
      if (!isEmail(email)) misuse(`EMAIL must be ${EMAIL_RULE}.`, "For example: ops@example.com");
      const role = roleFrom(input.text("role") ?? "user");
      const groups = (input.text("groups") ?? "").split(",").filter((name) => name !== "");
      if ((await findUserByEmail(installation.db, email)) !== null)
        fail(`A user ${email} already exists.`, `See: ${input.command("users list")}`);
      await applyUser(installation, { email, role, groups });
      const { print, paint } = input.terminal;
      if (input.flag("json")) printJson(input, { email, role, groups });
      else {
        print(`User ${paint.bold(email)} created, role ${role}.`);
        print(paint.dim(`To set a password: ${input.command("users password", email)}`));
      }
    }),
};

export const setRole: CommandDefinition = {
  changes: "access",
  options: { data: DATA_OPTION },
  run: (input) => changeUser(input, { role: roleFrom(input.require("ROLE")) }),
};

export const disableUser: CommandDefinition = {
  changes: "access",
  options: { data: DATA_OPTION },
  run: (input) => changeUser(input, { status: "disabled" }),
};

export const enableUser: CommandDefinition = {
  changes: "access",
  options: { data: DATA_OPTION },
  run: (input) => changeUser(input, { status: "active" }),
};

export const setPassword: CommandDefinition = {
  changes: "access",
  options: {
    "password-stdin": { about: "read the password from standard input instead of prompting" },
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const user = await requireUser(installation.db, input.require("EMAIL"));
      const passwordHash = await Bun.password.hash(await readPassword(input), "argon2id");
      await runLogged(
        installation,
        ({ db }) => writePassword(db, user.id, passwordHash),
        () => ({
          action: "user.password",
          target: `user ${user.email}`,
          changes: [secretChange("password")],
        }),
      );
      input.terminal.print(`${user.email} has a new password, and all sessions have ended.`);
    }),
};

function changeUser(input: Input, change: { role?: Role; status?: UserStatus }): Promise<void> {
  return withInstallation(input, async (installation) => {
    const user = await requireUser(installation.db, input.require("EMAIL"));
    const { role = user.role, status = user.status } = change;
    await requireAdministrator(installation, user, { role, status });
    const written = userToFile(user, await readGroupNames(installation.db), undefined);
    await applyUser(installation, { ...written, role, status });
    input.terminal.print(`${user.email}: role ${role}, ${status}.`);
  });
}

/** The last administrator keeps the role: otherwise only the command line could administer the gateway. */
async function requireAdministrator(
  { db }: Installation,
  user: UserRecord,
  next: Pick<UserRecord, "role" | "status">,
): Promise<void> {
  if (next.role === "admin" && next.status === "active") return;
  const others = (await listUsers(db)).filter(
    ({ id, role, status }) => id !== user.id && role === "admin" && status === "active",
  );
  if (user.role === "admin" && user.status === "active" && others.length === 0)
    fail(`${user.email} is the only administrator.`, "Make another user an administrator first.");
}

/** With the rules of a configuration file that has only this user. */
async function applyUser(installation: Installation, user: object): Promise<void> {
  const result = await planDocument(installation, { users: [user] });
  if (!result.ok) fail(result.problems.map(formatProblem).join("\n"));
  await applyChanges(installation, result.plan, { actor: operator(), address: null });
}

async function readGroupNames(db: Installation["db"]): Promise<ReadonlyMap<string, string>> {
  return new Map((await listGroups(db)).map(({ id, name }) => [id, name]));
}

function roleFrom(text: string): Role {
  return (
    ROLES.find((role) => role === text) ??
    misuse("ROLE must be user, auditor or admin.", "For example: auditor")
  );
}
