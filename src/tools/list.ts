import * as z from 'zod';
import type { Tool } from '../kernel/index.ts';
import type { FileInfo } from '../sandbox/sandbox.ts';
import { defineSandboxTool } from './sandbox-tool.ts';
import type { SandboxSource } from './sandbox-tool.ts';
import { showName } from './text/shown-name.ts';
import { nameOf } from './search/walk.ts';

const MOST = 1000;

export function createListTool(sandboxes: SandboxSource): Tool {
  return defineSandboxTool(sandboxes, {
    name: 'List',
    title: 'List a folder',
    icon: 'folder',
    description:
      'Lists one folder of the workspace: an entry a line, folders with / at the end, files with their size. ' +
      `At most ${MOST} entries. Names with unusual characters are quoted as JSON. To find files by name, use Glob.`,
    parameters: z.strictObject({
      path: z.string().default('').describe('A folder below the workspace; the workspace itself when absent'),
    }),
    effect: 'read',
    async run({ path }, { sandbox: { files } }) {
      const folder = await files.stat(path);
      if (folder && folder.kind !== 'folder') throw new Error(`${showName(path)} is no folder. Use Read for a file.`);
      const { files: entries, isComplete } = await files.list(path, { limit: MOST });
      const lines = entries.map((entry) => show(entry));
      if (!isComplete) lines.push(`\n[There are more than ${MOST} entries. Use Glob with a narrower pattern.]`);
      return lines.join('\n') || 'The folder is empty.';
    },
  });
}

function show({ path, kind, bytes }: FileInfo): string {
  const name = nameOf(path);
  if (kind === 'folder') return showName(`${name}/`);
  return `${showName(name)}  (${kind === 'file' ? `${bytes.toLocaleString('en-US')} bytes` : `${kind}, not followed`})`;
}
