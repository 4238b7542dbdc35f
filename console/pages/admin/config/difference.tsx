/** The changes that applying a text would make, and its problems. */

import type { ResponseBody } from "../../../api.ts";
import { useText } from "../../../text/text.tsx";
import { classes } from "../../../ui/class.ts";
import { Notice } from "../../../ui/notice.tsx";
import "./difference.css";

type Change = ResponseBody<"admin.config.plan">["changes"][number];
type Problem = ResponseBody<"admin.config.plan">["problems"][number];

const SIGNS = { create: "+", change: "~", remove: "−" } as const;

export function Difference({ changes }: { changes: readonly Change[] }) {
  const t = useText("adminConfig").difference;
  const count = (kind: Change["kind"]) => changes.filter((change) => change.kind === kind).length;
  return (
    <section className="difference" aria-label={t.title}>
      <p className="small soft">{t.counts(count("create"), count("change"), count("remove"))}</p>
      <ul>
        {changes.map((change) => (
          <li key={`${change.kind} ${change.what}`} className={change.kind}>
            <div className="difference-what">
              <span aria-hidden="true">{SIGNS[change.kind]}</span>
              <span className="unseen">{t.kinds[change.kind]}</span>
              <strong className="breakable">{change.what}</strong>
            </div>
            {change.fields.length > 0 && (
              <dl>
                {change.fields.map((field) => (
                  <div key={field.field}>
                    <dt className="breakable">{field.field}</dt>
                    <dd className="breakable">
                      {field.from !== null && field.from !== field.to && (
                        <>
                          <del>{field.from}</del> <span className="unseen">{t.becomes}</span>
                          <span aria-hidden="true">→</span>{" "}
                        </>
                      )}
                      <ins className={classes(field.to === null && "soft")}>{field.to ?? t.nothing}</ins>
                    </dd>
                  </div>
                ))}
              </dl>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

interface ProblemsProps {
  problems: readonly Problem[];
  /** Shows the position in the text. */
  onGo?(problem: Problem): void;
}

export function Problems({ problems, onGo }: ProblemsProps) {
  const t = useText("adminConfig").problems;
  if (problems.length === 0) return null;
  return (
    <Notice tone="bad" title={t.title(problems.length)} isUrgent>
      <ul className="problem-list">
        {problems.map((problem) => {
          const place = t.place(problem.line, problem.column);
          return (
            <li key={`${problem.line} ${problem.column} ${problem.field} ${problem.message}`}>
              {problem.line > 0 &&
                (onGo ? (
                  <button type="button" className="link-button" onClick={() => onGo(problem)}>
                    {place}
                  </button>
                ) : (
                  <span className="soft">{place}</span>
                ))}{" "}
              {problem.field !== "" && <code className="breakable">{problem.field}</code>} {problem.message}
            </li>
          );
        })}
      </ul>
    </Notice>
  );
}
