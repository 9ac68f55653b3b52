export { createAgent } from './agent.ts';
export type { Agent, AgentConfig, RunInput } from './agent.ts';
export { AgentError, defineErrors, messageOf, unreachable } from './errors.ts';
export { isTerminal, parseEventId, STREAM, toEventId } from './events.ts';
export type { AgentEvent, Emitted, EndReason, Outcome, Position } from './events.ts';
export { journalError } from './journal.ts';
export type {
  Claim,
  Commit,
  Committed,
  ConversationKey,
  Entry,
  EntryBody,
  Journal,
  RunRecord,
  RunRequest,
  RunStatus,
  Step,
  StepChange,
  StepState,
  Submission,
  Submitted,
} from './journal.ts';
export { defaultLimits } from './assembly.ts';
export type { Assembly, Limits, Scrubber } from './assembly.ts';
export { cancelledOutcome, createMemoryJournal } from './memory-journal.ts';
export { addUsage, callsOf, noUsage, textOf } from './messages.ts';
export type {
  AssistantBody,
  CallFault,
  FilePart,
  Json,
  Message,
  NoticeBody,
  ReasoningPart,
  SummaryBody,
  TextPart,
  ToolCallPart,
  ToolResultBody,
  Usage,
  UserBody,
} from './messages.ts';
export type { Middleware, RunContext, ToolCall } from './middleware.ts';
export type { FinishReason, LoadFile, Model, ModelFinish, ModelPart, ModelRequest, ToolSpec } from './model.ts';
export { allowAll, askForWrites } from './policy.ts';
export type { Answer, Decision, Policy, PolicyCall } from './policy.ts';
export { clip, defaultWindow, project, windowStart } from './project.ts';
export type { Window } from './project.ts';
export { replay } from './replay.ts';
export { createRunner } from './runner.ts';
export type { Log, Owner, Runner, RunnerConfig, Viewer } from './runner.ts';
export { SHOWN_CHARS, toShown } from './shown.ts';
export type { Mask } from './shown.ts';
export { defineTool, toolError } from './tool.ts';
export type { Effect, StandardSchema, Tool, ToolContext, ToolDefinition } from './tool.ts';
