// What the parts of a turn can ask of the page around them.
import type { InjectionKey } from 'vue';
import { inject } from 'vue';
import type { Decision } from '../api/conversations.ts';
import type { AssistantTurn, UserTurn } from './turns.ts';

export interface ChatActions {
  decide(approval: string, decision: Decision): Promise<void>;
  /** Opens a new conversation that shares what was said up to this answer. */
  fork(turn: AssistantTurn): Promise<void>;
  /** Sends a changed message as a branch. */
  resend(turn: UserTurn, text: string): Promise<void>;
  /** Sends the message of a failed run again. */
  retry(turn: AssistantTurn): Promise<void>;
  costOf(run: string): number | undefined;
}

export const chatActions: InjectionKey<ChatActions> = Symbol('chat actions');

const missing = () => Promise.reject(new TypeError('no page around this turn'));
const none: ChatActions = { decide: missing, fork: missing, resend: missing, retry: missing, costOf: () => undefined };

export const useChatActions = (): ChatActions => inject(chatActions, none);
