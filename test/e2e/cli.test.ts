// The real command line in child processes, as a person uses it.
import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { copyTemplate } from '../../src/testing/store.ts';
import { framesOf } from '../crash/client.ts';
import { createFakeOllama } from '../models/fake-ollama.ts';
import { NOBODY, schemaTemplate } from '../server/harness.ts';

interface Ended {
  code: number | null;
  output: string;
}

describe('homard', () => {
  let folder: string;
  const children: ChildProcess[] = [];

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'homard-cli-'));
  });
  afterEach(async () => {
    for (const child of children.splice(0)) {
      if (child.exitCode === null && child.signalCode === null) {
        const gone = once(child, 'exit');
        child.kill('SIGKILL');
        await gone;
      }
    }
    await rm(folder, { recursive: true, force: true });
  });

  function homard(arguments_: string[], environment: Record<string, string> = {}) {
    const script = resolve('src/cli.ts');
    const child = spawn(process.execPath, ['--liftoff-only', script, ...arguments_], {
      cwd: folder,
      env: {
        PATH: process.env.PATH,
        HOMARD_DATA: join(folder, 'data'),
        HOMARD_PORT: '0',
        HOMARD_TOKEN: 't',
        OLLAMA_HOST: NOBODY,
        ...environment,
      },
    });
    children.push(child);
    let output = '';
    const { promise: said, resolve: say } = Promise.withResolvers<string>();
    const listen = (chunk: unknown) => {
      output += String(chunk);
      if (/sign-in\?code=/.test(output)) say(output);
    };
    child.stdout.on('data', listen);
    child.stderr.on('data', listen);
    const ended = once(child, 'close').then(([code]): Ended => ({ code: code as number | null, output }));
    const started = Promise.race([said, ended.then((end) => Promise.reject(new Error(end.output)))]);
    started.catch(() => undefined); // a test that only waits for the end
    return { child, ended, started };
  }

  const addressOf = (output: string) => /listens on (\S+)/.exec(output)![1]!;
  const prepare = () => copyTemplate(join(folder, 'data', 'db'), schemaTemplate);

  it(
    'MODEL-11 answers without any key, with reasoning, two parallel tool calls and text, and says what it is',
    { timeout: 60_000 },
    async () => {
      await prepare();
      const address = addressOf(await homard(['start']).started);
      const response = await fetch(`${address}/chat/stream`, {
        method: 'POST',
        headers: { authorization: 'Bearer t', 'content-type': 'application/json' },
        body: JSON.stringify({ query: '你好，现在几点？', conversationId: 'web' }),
      });
      const names: string[] = [];
      let text = '';
      for await (const { event, data } of framesOf(response.body!)) {
        if (event !== names.at(-1)) names.push(event);
        if (event === 'token') text += String(data.text);
        if (event === 'tool_call') expect(data.calls).toHaveLength(2);
      }
      expect(names.filter((name) => name !== 'token' && name !== 'reasoning')).toEqual([
        'run_start',
        'usage',
        'tool_call',
        'tool_result',
        'usage',
        'run_end',
      ]);
      expect(text).toMatch(/演示/);
      expect(text).toContain('OPENAI_API_KEY');
    },
  );

  it('MODEL-11 says which model of a running Ollama answers', { timeout: 60_000 }, async () => {
    await prepare();
    await using ollama = await createFakeOllama([{ name: 'llama3.2:latest' }]);
    const { child } = homard(['start'], { OLLAMA_HOST: ollama.host });
    let output = '';
    child.stdout.on('data', (chunk) => (output += String(chunk)));
    await expect.poll(() => output, { timeout: 30_000 }).toContain('\nModel: ollama/llama3.2:latest\n');
  });

  it('a second process on the same data directory is told so, and the first goes on', { timeout: 60_000 }, async () => {
    await prepare();
    const first = homard(['start']);
    const address = addressOf(await first.started);
    const second = await homard(['start']).ended;
    expect(second.code).toBe(1);
    expect(second.output).toContain('store.locked');
    expect(second.output).toContain(join(folder, 'data'));
    expect(second.output).not.toMatch(/at .*\.ts:\d+/);
    expect((await fetch(`${address}/health`)).status).toBe(200);
    const link = await homard(['link']).ended;
    expect(link.output).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/sign-in\?code=\S+\n$/);
    const { pathname, search } = new URL(link.output.trim());
    expect((await fetch(address + pathname + search, { redirect: 'manual' })).status).toBe(303);
    first.child.kill('SIGTERM');
    expect((await first.ended).code).toBe(0);
    expect((await homard(['migrate']).ended).output).toBe('The database is up to date.\n');
  });

  const refusals: [string, string[], Record<string, string>, string, RegExp][] = [
    ['an unknown command', ['fly'], {}, 'cli.unknown_command', /"fly"/],
    ['a port that is none', ['start'], { HOMARD_PORT: '99999' }, 'config.invalid', /HOMARD_PORT is "99999"/],
    ['a missing configuration file', ['start'], { HOMARD_CONFIG: 'nowhere.yaml' }, 'config.not_found', /nowhere\.yaml/],
    [
      'a database that is not there',
      ['start'],
      { HOMARD_DATABASE_URL: 'postgres://me:pass-word@127.0.0.1:1/x' },
      'store.unreachable',
      /127\.0\.0\.1:1/,
    ],
    ['a data directory that is no database', ['start'], { HOMARD_DATA: 'garbage' }, 'store.unreadable', /garbage/],
  ];

  it.each(refusals)(
    '%s is refused with a sentence, a hint and a code',
    { timeout: 60_000 },
    async (_, arguments_, environment, code, words) => {
      await mkdir(join(folder, 'garbage', 'db'), { recursive: true });
      await writeFile(join(folder, 'garbage', 'db', 'PG_VERSION'), 'not a version');
      const { code: exit, output } = await homard(arguments_, environment).ended;
      expect(exit).toBe(1);
      expect(output).toMatch(words);
      expect(output).toContain(`(${code})`);
      expect(output).not.toContain('pass-word');
      expect(output.trim().split('\n').length).toBeLessThanOrEqual(3);
    },
  );

  it('a configuration with a wrong key names the key; unknown keys are refused', { timeout: 60_000 }, async () => {
    await writeFile(join(folder, 'homard.config.yaml'), 'port: many\nlimitz: 3\n');
    const { code, output } = await homard(['start'], { HOMARD_PORT: '' }).ended;
    expect(code).toBe(1);
    expect(output).toMatch(/homard\.config\.yaml is not valid: .*port/);
    expect(output).toContain('limitz');
  });

  it('a busy port is named', { timeout: 60_000 }, async () => {
    await prepare();
    const address = addressOf(await homard(['start']).started);
    await copyTemplate(join(folder, 'other', 'db'), schemaTemplate);
    const { port } = new URL(address);
    const { output } = await homard(['start'], { HOMARD_PORT: port, HOMARD_DATA: join(folder, 'other') }).ended;
    expect(output).toMatch(new RegExp(`Port ${port} .*in use`));
    expect(output).toContain('HOMARD_PORT=');
  });
});
