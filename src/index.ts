export { createTokenIdentity } from './access/identity.ts';
export type { Caller, Identity } from './access/identity.ts';
export { createHomard } from './app.ts';
export type { Homard, HomardInput } from './app.ts';
export { loadConfig } from './config.ts';
export type { Config, ConfigInput } from './config.ts';
export { AgentError, allowAll, askForWrites, defineTool } from './kernel/index.ts';
export type { AgentEvent, Middleware, Model, Policy, Tool, ToolDefinition } from './kernel/index.ts';
export { version } from './version.ts';
