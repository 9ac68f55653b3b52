export { createClock } from './clock.ts';
export type { Clock } from './clock.ts';
export { journalSuite } from './journal.ts';
export type { JournalCase, JournalUnderTest } from './journal.ts';
export { createModelServer } from './model-server.ts';
export type { ModelServer, ModelServerScript } from './model-server.ts';
export { createTokenIdentity } from '../access/identity.ts';
export { createScriptedModel } from '../models/scripted.ts';
export type { Script, ScriptedModel } from '../models/scripted.ts';
