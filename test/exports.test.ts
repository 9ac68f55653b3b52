import { expect, it } from 'vitest';
import * as homard from '../src/index.ts';
import * as kernel from '../src/kernel/index.ts';
import * as testing from '../src/testing/index.ts';

it('the public names are these, and change only on purpose', () => {
  expect(Object.keys(homard).toSorted()).toEqual([
    'AgentError',
    'allowAll',
    'askForWrites',
    'createAiSdkModel',
    'createHomard',
    'createTokenIdentity',
    'defineTool',
    'loadConfig',
    'version',
  ]);
  expect(Object.keys(kernel).toSorted()).toEqual([
    'AgentError',
    'SHOWN_CHARS',
    'STREAM',
    'addUsage',
    'allowAll',
    'askForWrites',
    'callsOf',
    'cancelledOutcome',
    'clip',
    'createAgent',
    'createMemoryJournal',
    'createRunner',
    'defaultLimits',
    'defaultWindow',
    'defineErrors',
    'defineTool',
    'isTerminal',
    'journalError',
    'messageOf',
    'noUsage',
    'parseEventId',
    'project',
    'replay',
    'textOf',
    'toEventId',
    'toShown',
    'toolError',
    'unreachable',
    'windowStart',
  ]);
  expect(Object.keys(testing).toSorted()).toEqual([
    'createClock',
    'createE2bServer',
    'createModelServer',
    'createSandboxUnderTest',
    'createScriptedModel',
    'createStrictMessagesServer',
    'createStrictModelServer',
    'createTokenIdentity',
    'demandsReasoning',
    'forbidsReasoning',
    'journalSuite',
    'measureSandbox',
    'refusesCalls',
    'refusesKeywords',
    'refusesOrphans',
    'refusesRoles',
    'sandboxSuite',
  ]);
});
