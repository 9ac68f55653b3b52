import type { Json } from './messages.ts';
import type { Tool } from './tool.ts';

/** A call as it is decided: known tool, validated arguments. */
export interface PolicyCall {
  id: string;
  tool: Tool;
  args: Json;
  tenant: string;
  owner: string;
  conversation: string;
  run: string;
}

/** `why` is told to the model and to people; `rule` names what decided. */
export type Decision =
  | { effect: 'allow' }
  | { effect: 'ask'; why: string; rule?: string }
  | { effect: 'deny'; why: string; rule?: string };

/** Decides each call before anything of it happens. One that throws denies: what guards fails closed. */
export interface Policy {
  decide(call: PolicyCall): Decision | Promise<Decision>;
}

/** What a person answered to an ask. `args` replace the model's and are validated and decided anew. */
export interface Answer {
  effect: 'allow' | 'deny';
  comment?: string;
  args?: Json;
  /** Who answered; for the record. */
  by: string;
}

/** Reads run, and what stays inside an isolated sandbox; everything else asks. The default where no policy is given. */
export const askForWrites: Policy = {
  decide: ({ tool }) =>
    tool.effect === 'read' || tool.isContained
      ? { effect: 'allow' }
      : { effect: 'ask', why: `${tool.title} changes something.`, rule: 'default.write_asks' },
};

export const allowAll: Policy = { decide: () => ({ effect: 'allow' }) };
