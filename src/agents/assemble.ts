// Definition x request -> what a run needs. A pure value: it holds no connection and no state.
import type {
  Assembly,
  Claim,
  FilePart,
  Limits,
  Middleware,
  Model,
  Owner,
  Policy,
  Tool,
  Window,
} from '../kernel/index.ts';
import { agentsError } from './errors.ts';
import type { JsonSchema } from './output.ts';
import { createOutput } from './output.ts';

export interface AgentDefinition {
  name: string;
  system: string;
  tools: readonly Tool[];
  policy: Policy;
  middleware: readonly Middleware[];
  limits: Limits;
  window: Window;
}

export interface Assembler {
  /** The names that a request will be recorded with. Throws `agents.unknown` or what the model router throws. */
  resolve(wanted: { agent?: string; modelName?: string; output?: JsonSchema }): { agent: string; model: string };
  assemble(claim: Claim): Assembly;
}

/** The content of a file of an owner; rejects when it cannot be had. */
export type LoadFileOf = (owner: Owner, file: FilePart, signal: AbortSignal) => Promise<Uint8Array>;

export function createAssembler(
  definitions: readonly AgentDefinition[],
  resolveModel: (modelName?: string) => Model,
  loadFile: LoadFileOf,
): Assembler {
  const agents = new Map(
    definitions.map((definition) => {
      const tools: ReadonlyMap<string, Tool> = new Map(definition.tools.map((tool) => [tool.name, tool]));
      return [definition.name, { ...definition, tools }];
    }),
  );

  function agentOf(name: string | undefined) {
    const agent = name === undefined ? agents.values().next().value : agents.get(name);
    if (agent) return agent;
    throw agentsError(
      'unknown',
      `There is no agent "${name?.slice(0, 100)}". There are: ${[...agents.keys()].join(', ')}.`,
    );
  }

  return {
    resolve({ agent, modelName, output }) {
      if (output) createOutput(output);
      return { agent: agentOf(agent).name, model: resolveModel(modelName).name };
    },
    assemble({ request, tenant, owner }) {
      const { name, ...definition } = agentOf(request.agent);
      const wanted = typeof request.modelName === 'string' ? request.modelName : undefined;
      const load: Assembly['loadFile'] = (file, signal) => loadFile({ tenant, owner }, file, signal);
      const assembly = { ...definition, agent: name, model: resolveModel(wanted), loadFile: load };
      if (typeof request.output !== 'object' || request.output === null) return assembly;
      const output = createOutput(request.output as JsonSchema);
      return { ...assembly, output, tools: new Map([...definition.tools, [output.tool.name, output.tool]]) };
    },
  };
}
