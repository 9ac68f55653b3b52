// What the server sends, in its own types where it has them: one union of events on both sides.
import type { AgentEvent } from '../../../src/kernel/events.ts';
import type { AssistantBody, NoticeBody, ToolResultBody, Usage, UserBody } from '../../../src/kernel/messages.ts';

export type { AgentEvent, EndReason, ToolResult } from '../../../src/kernel/events.ts';
export type { FilePart, Json, Usage } from '../../../src/kernel/messages.ts';

export type RunStatus = 'queued' | 'running' | 'waiting' | 'done' | 'failed' | 'cancelled';

export interface RunChange {
  run: string;
  conversation: string;
  status: RunStatus;
  changedAt: string;
}

/** A title given by hand, or a deletion. */
export type ConversationChange = { id: string; changedAt: string } & ({ title: string } | { deleted: true });

export interface Conversation {
  id: string;
  version: number;
  title: string;
  activeRun: string | null;
  queued: number;
  createdAt: string;
  updatedAt: string;
  fork?: { parent: string; seq: number };
}

/** An entry of the journal as GET /conversations/:id/messages tells it; `id` counts from 1. */
export type Entry = { id: number; run: string; at: string; epoch?: number } & (
  | ({ kind: 'user' } & UserBody)
  | ({ kind: 'assistant' } & AssistantBody)
  | ({ kind: 'tool_result'; truncated?: true } & ToolResultBody)
  | ({ kind: 'notice' } & NoticeBody)
  | { kind: 'summary'; text: string }
);

export interface RunView {
  run: string;
  status: RunStatus;
  approvals: { id: string; call: string; why: string }[];
  usage: Usage;
  costUsd: number | null;
}

export interface Models {
  default: string;
  isDemo: boolean;
  models: { name: string; host: string }[];
}

export interface UploadedFile {
  id: string;
  name: string;
  mime: string;
  bytes: number;
}

/** A file that the commands of a conversation work with. */
export interface WorkspaceFile {
  /** Below the workspace. */
  path: string;
  kind: 'file' | 'folder' | 'link' | 'other';
  bytes: number;
  /** Milliseconds since 1970. */
  modifiedAt: number;
  isExecutable: boolean;
}

/** Where commands run. */
export type SandboxView =
  | { kind: 'off' }
  | {
      kind: 'bwrap' | 'unshare' | 'docker' | 'e2b' | 'virtual' | 'local';
      /** Such as `bubblewrap 0.8.0`. */
      description: string;
      isolation: 'none' | 'language' | 'namespace' | 'container' | 'vm';
      hasNetwork: boolean;
    };

/** One event as it came: its place in the run where it has one, and when it arrived (milliseconds). */
export interface Signal {
  event: AgentEvent;
  epoch?: number;
  at: number;
}
