// How the steps of a run stand on the page: work in trails, text and open approvals by themselves.
import type { Step } from './timeline.ts';

export interface Group {
  isTrail: boolean;
  steps: Step[];
  /** Index of the first step: stable, because steps are only added. */
  key: number;
}

export function toGroups(steps: readonly Step[]): Group[] {
  const groups: Group[] = [];
  for (const [key, step] of steps.entries()) {
    const isTrail = step.kind !== 'text' && !(step.kind === 'approval' && step.state === 'open');
    const last = groups.at(-1);
    if (isTrail && last?.isTrail) last.steps.push(step);
    else groups.push({ isTrail, steps: [step], key });
  }
  return groups;
}
