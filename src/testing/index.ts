export { createClock } from './clock.ts';
export type { Clock } from './clock.ts';
export { journalSuite } from './journal.ts';
export type { JournalCase, JournalUnderTest } from './journal.ts';
export { createE2bServer } from './e2b-server.ts';
export type { E2bFault, E2bMachine, E2bRequest, E2bServer } from './e2b-server.ts';
export { createModelServer } from './model-server.ts';
export type { ModelServer, ModelServerScript } from './model-server.ts';
export { createSandboxUnderTest, measureSandbox, sandboxSuite } from './sandbox.ts';
export type { OpenSandbox, SandboxCase, SandboxTimes, SandboxUnderTest } from './sandbox.ts';
export { createStrictMessagesServer } from './strict-messages-server.ts';
export type { StrictMessagesServer } from './strict-messages-server.ts';
export {
  createStrictModelServer,
  demandsReasoning,
  forbidsReasoning,
  refusesCalls,
  refusesKeywords,
  refusesOrphans,
  refusesRoles,
} from './strict-model-server.ts';
export type { StrictRule } from './strict-model-server.ts';
export { createTokenIdentity } from '../access/identity.ts';
export { createScriptedModel } from '../models/scripted.ts';
export type { Script, ScriptedModel } from '../models/scripted.ts';
