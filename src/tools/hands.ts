import type { Tool } from '../kernel/index.ts';
import { createBashTool } from './bash.ts';
import { createEditTool } from './edit.ts';
import { createGlobTool } from './glob.ts';
import { createGrepTool } from './grep.ts';
import { createListTool } from './list.ts';
import { createReadTool } from './read.ts';
import type { SandboxSource } from './sandbox-tool.ts';
import { createWriteTool } from './write.ts';

/**
 * With what the model works in its sandbox. Names and schemas are the same for every back end; only the description of
 * Bash ends with the back end's advice.
 */
export function createSandboxTools(sandboxes: SandboxSource): Tool[] {
  const create = [createReadTool, createWriteTool, createEditTool, createGrepTool, createGlobTool, createListTool];
  return [createBashTool(sandboxes), ...create.map((tool) => tool(sandboxes))];
}
