/** The problems of a body in words, as a list that screen readers announce. */

import { useCallback } from "react";
import type { Area } from "../text/catalogue.ts";
import { useText } from "../text/text.tsx";
import { Notice } from "../ui/notice.tsx";
import type { BodyProblem } from "./body-problem.ts";

export interface ListedProblem {
  readonly message: string;
  /** In the text of the body, counted from 1. */
  readonly line?: number;
}

interface ProblemListProps<Problem> {
  id?: string;
  problems: readonly Problem[];
  /** Shows the place of a problem in the text. */
  onSelect?(problem: Problem): void;
}

const PROBLEMS_MAX = 5;

export function ProblemList<Problem extends ListedProblem>({
  id,
  problems,
  onSelect,
}: ProblemListProps<Problem>) {
  const t = useText("explorer");
  return (
    <div role="status" id={id}>
      {problems.length > 0 && (
        <Notice tone="warn">
          <ul className="body-problems">
            {problems.slice(0, PROBLEMS_MAX).map((problem) => (
              <li key={`${problem.line} ${problem.message}`}>
                {problem.line !== undefined && onSelect !== undefined && (
                  <button type="button" className="text-button" onClick={() => onSelect(problem)}>
                    {t.line(problem.line)}
                  </button>
                )}{" "}
                {problem.message}
              </li>
            ))}
          </ul>
          {problems.length > PROBLEMS_MAX && <p>{t.moreProblems(problems.length - PROBLEMS_MAX)}</p>}
        </Notice>
      )}
    </div>
  );
}

/** Words a problem in the language of the page. */
export function useProblemText(): (problem: BodyProblem) => string {
  const t = useText("explorer");
  return useCallback(
    (problem) => {
      const text = wordProblem(problem, t);
      return problem.path.length === 0 ? text : `${problem.path.join(".")}: ${text}`;
    },
    [t],
  );
}

function wordProblem(problem: BodyProblem, t: Area<"explorer">): string {
  switch (problem.kind) {
    case "syntax":
      return t.notJson(problem.why);
    case "type":
      return t.problems.type(problem.expected.map((type) => t.types[type]));
    case "value":
      return t.problems.value(problem.allowed.map((value) => JSON.stringify(value)));
    case "missing":
      return t.problems.missing;
    case "unknown":
      return t.problems.unknown;
    case "range":
      return t.problems.range(problem.minimum, problem.maximum);
    case "length":
      return t.problems.length(problem.minimum, problem.maximum);
    case "pattern":
      return t.problems.pattern(problem.pattern);
  }
}
