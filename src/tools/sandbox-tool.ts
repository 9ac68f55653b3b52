// What the tools over a sandbox share: how they get it, and how what it refuses is told to the model.
import { AgentError, defineTool } from '../kernel/index.ts';
import type { Tool, ToolContext, ToolDefinition } from '../kernel/index.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { Sandboxes } from '../sandbox/sandboxes.ts';

/** Where tools get their sandboxes. */
export type SandboxSource = Pick<Sandboxes, 'of' | 'backend'>;

/** What a call works with. */
export interface Hands {
  sandbox: Sandbox;
  context: ToolContext;
}

interface SandboxToolDefinition<T> extends Omit<ToolDefinition<T>, 'run'> {
  run: (args: T, hands: Hands) => Promise<string>;
}

/** A tool that gets the sandbox of its run at its first call. What it throws is a sentence that says what to do. */
export function defineSandboxTool<T>(sandboxes: SandboxSource, definition: SandboxToolDefinition<T>): Tool {
  const { run, ...rest } = definition;
  return defineTool<T>({
    // What reaches only files of the workspace is contained, whatever the back end.
    isContained: true,
    ...rest,
    async run(args, context) {
      const { tenant, owner, conversation, run: id, signal, output } = context;
      const onWait = (ahead: number) => output(`Waiting for a free sandbox (${ahead} before this one)\n`);
      try {
        const sandbox = await sandboxes.of({ tenant, owner, conversation, run: id }, { signal, onWait });
        return await run(args, { sandbox, context });
      } catch (error) {
        if (!(error instanceof AgentError)) throw error;
        const { message, hint } = error;
        throw new Error(`${message}${/[.!?]$/.test(message) ? '' : '.'} ${hint}`, { cause: error });
      }
    },
  });
}

const turns = new WeakMap<Sandbox, Promise<unknown>>();

/** The model's calls run all at once; those that read or change one file do so in their order. */
export function inTurn<T>(sandbox: Sandbox, work: () => Promise<T>): Promise<T> {
  const before = turns.get(sandbox) ?? Promise.resolve();
  const mine = before.then(work, work);
  turns.set(sandbox, mine);
  return mine;
}
