import * as z from 'zod';
import type { Tool } from '../kernel/index.ts';
import type { FileInfo } from '../sandbox/sandbox.ts';
import { parseGlob } from './search/glob-pattern.ts';
import { defineSandboxTool } from './sandbox-tool.ts';
import type { SandboxSource } from './sandbox-tool.ts';
import { showName } from './text/shown-name.ts';
import { apartText, MOST_WALKED, walk } from './search/walk.ts';

const MOST = 1000;

export function createGlobTool(sandboxes: SandboxSource): Tool {
  return defineSandboxTool(sandboxes, {
    name: 'Glob',
    title: 'Find files',
    icon: 'search',
    description:
      'Finds files of the workspace by a pattern for their paths: * and ? within a name, ** over folders, {a,b}, [abc]. ' +
      `The newest come first, at most ${MOST}. Leaves out ${apartText} unless path or pattern names them. ` +
      'To search in files, use Grep.',
    parameters: z.strictObject({
      pattern: z.string().min(1).max(1000).describe('From path on, such as **/*.ts or src/*.{js,ts}'),
      path: z.string().default('').describe('A folder below the workspace; the workspace itself when absent'),
    }),
    effect: 'read',
    async run({ pattern, path }, { sandbox: { files }, context: { signal } }) {
      const matches = parseGlob(pattern);
      if (!matches) throw new Error('The braces of the pattern make too many alternatives. Use fewer.');
      const folder = await files.stat(path);
      if (folder && folder.kind !== 'folder') throw new Error(`${showName(path)} is no folder. Give a folder as path.`);
      const prefix = folder?.path ? folder.path.length + 1 : 0;
      const found: FileInfo[] = [];
      let walked = 0;
      for await (const file of walk(files, folder?.path ?? path, { signal, named: [path, pattern] })) {
        if (++walked > MOST_WALKED) break;
        if (matches(file.path.slice(prefix))) found.push(file);
      }
      found.sort((a, b) => b.modifiedAt - a.modifiedAt || (a.path < b.path ? -1 : 1));
      const lines = found.slice(0, MOST).map((file) => showName(file.path));
      if (found.length > MOST) lines.push(`\n[The newest ${MOST} of ${found.length}. Use a narrower pattern.]`);
      if (walked > MOST_WALKED) lines.push(`\n[Only ${MOST_WALKED} files were looked at. Give a folder as path.]`);
      return lines.join('\n') || 'No file matches.';
    },
  });
}
