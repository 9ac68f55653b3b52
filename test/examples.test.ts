// The examples as a newcomer runs them, one process each, in an empty folder.
import { execFile } from 'node:child_process';
import { globSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { copyTemplate } from '../src/testing/store.ts';
import { NOBODY, schemaTemplate } from './server/harness.ts';

const examples: Record<string, { folder: string; output: string }> = {
  '01-hello': { folder: 'hello', output: 'Hello! What you wrote is recorded, and so is this.\n' },
  '02-tool': {
    folder: 'tool',
    output: `refused {"fruit":"nails"} -> "Invalid arguments: fruit: Invalid option: expected one of \\"apples\\"|\\"pears\\". Nothing was executed."
ran {"fruit":"pears"} -> {"fruit":"pears","pieces":3}
There are three pears.
`,
  },
  '03-node-http': {
    folder: 'node-http',
    output: 'The shop.\nann sees plans\nbob sees nothing\na stranger gets 401\n',
  },
  '04-approval': {
    folder: 'approval',
    output: `POST /chat 202
waiting - Refund changes something. {"order":"A-17","euros":250}
POST /approvals/<run>:1 200
GET /runs/<run>/events 200
GET /runs/<run> 200
done - The money is on its way.
`,
  },
};

it('each example is here', () => {
  expect(globSync('examples/*.ts').map((path) => basename(path, '.ts'))).toEqual(Object.keys(examples));
});

it.each(Object.entries(examples))(
  'examples/%s.ts runs without a key and prints what it should',
  { timeout: 60_000 },
  async (name, { folder, output }) => {
    const cwd = mkdtempSync(join(tmpdir(), 'homard-example-'));
    try {
      await copyTemplate(join(cwd, 'data', folder, 'db'), schemaTemplate);
      const script = resolve(`examples/${name}.ts`);
      const env = { PATH: process.env.PATH, OLLAMA_HOST: NOBODY };
      const { stdout, stderr } = await promisify(execFile)(process.execPath, ['--liftoff-only', script], { cwd, env });
      expect({ stdout, stderr }).toEqual({ stdout: output, stderr: '' });
    } finally {
      rmSync(cwd, { recursive: true, force: true });
    }
  },
);
