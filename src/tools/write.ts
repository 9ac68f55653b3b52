import * as z from 'zod';
import type { Tool } from '../kernel/index.ts';
import { digestOf, digestOfFile, findFile, requireSeen } from './text/content.ts';
import { defineSandboxTool, inTurn } from './sandbox-tool.ts';
import type { SandboxSource } from './sandbox-tool.ts';
import { showName } from './text/shown-name.ts';

export function createWriteTool(sandboxes: SandboxSource): Tool {
  return defineSandboxTool(sandboxes, {
    name: 'Write',
    title: 'Write a file',
    icon: 'file-pen',
    description:
      'Writes a whole file of the workspace, as UTF-8, and makes the folders that are missing. ' +
      'A file that is there must have been read with Read before, and is replaced. To change a part of a file, use Edit.',
    parameters: z.strictObject({
      path: z.string().min(1).describe('Below the workspace, such as src/main.py'),
      content: z.string().describe('All of the file'),
    }),
    effect: 'idempotent',
    run: ({ path, content }, { sandbox }) =>
      inTurn(sandbox, async () => {
        const { files, seen } = sandbox;
        const bytes = Buffer.from(content);
        const digest = digestOf(bytes);
        const before = await findFile(files, path);
        const digestBefore = before && (await digestOfFile(files, before));
        if (before && digestBefore === digest) {
          seen.set(before.path, digest);
          return `${showName(before.path)} already has exactly this content.`;
        }
        if (before && digestBefore) requireSeen(sandbox, before, digestBefore);
        const info = await files.write(path, bytes);
        seen.set(info.path, digest);
        const lines = linesOf(content).toLocaleString('en-US');
        return `${before ? 'Replaced' : 'Created'} ${showName(info.path)}: ${lines} lines, ${bytes.byteLength.toLocaleString('en-US')} bytes.`;
      }),
  });
}

/** What follows the last line end is a line too, unless it is empty. */
function linesOf(text: string): number {
  let lines = text === '' || text.endsWith('\n') ? 0 : 1;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) lines++;
  return lines;
}
