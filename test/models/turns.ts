import type { Agent, AgentEvent } from '../../src/kernel/index.ts';

export async function turn(agent: Agent, text: string): Promise<AgentEvent[]> {
  const events: AgentEvent[] = [];
  for await (const event of agent.run({ text, conversation: 'c' })) events.push(event);
  return events;
}

/** What a client shows at the end: everything after the last restart. */
export function shownText(events: AgentEvent[]): string {
  const last = events.findLastIndex(({ type }) => type === 'step_restart');
  return events
    .slice(last + 1)
    .map((event) => (event.type === 'token' ? event.text : ''))
    .join('');
}
