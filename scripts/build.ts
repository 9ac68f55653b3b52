// Compiles src to dist, adds the web page and the empty database that first starts copy, then proves that the packed tarball
// works: installs it in an empty folder, imports every entry, and starts the server.
import { execFileSync, spawn } from 'node:child_process';
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const run = (command: string, arguments_: string[], cwd = '.') =>
  execFileSync(command, arguments_, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });

// The template stays: its name says what it is made of.
for (const name of globSync('dist/*', { exclude: ['dist/*.template'] })) rmSync(name, { recursive: true });
run('tsc', ['-p', 'tsconfig.build.json']);
run(process.execPath, ['--liftoff-only', 'scripts/template.ts']);
// Before this script the page was built, where it was older than its sources.
cpSync('web/dist', 'dist/web', { recursive: true });

const folder = mkdtempSync(join(tmpdir(), 'homard-pack-'));
try {
  const packed = JSON.parse(run('npm', ['pack', '--json', '--pack-destination', folder])) as { filename: string }[];
  const tarball = join(folder, packed[0]!.filename);
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'try', private: true, type: 'module' }));
  run('npm', ['install', '--no-audit', '--no-fund', '--loglevel=error', tarball], folder);
  const script = `import { createHomard } from 'homard'; import { createAgent } from 'homard/kernel';
    import { createModelServer } from 'homard/testing';
    if (![createHomard, createAgent, createModelServer].every((f) => typeof f === 'function')) process.exit(1);`;
  writeFileSync(join(folder, 'try.mjs'), script);
  run(process.execPath, ['try.mjs'], folder);
  if (!globSync('node_modules/homard/dist/*.template', { cwd: folder }).length)
    throw new Error('no template is packed');
  await startsAndAnswers(folder);
  console.log(`build: ok (${packed[0]!.filename}, installed and started in an empty folder)`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function startsAndAnswers(cwd: string): Promise<void> {
  const { version } = JSON.parse(readFileSync(resolve('package.json'), 'utf8')) as { version: string };
  const environment = { ...process.env, HOMARD_PORT: '0', HOMARD_DATA: join(cwd, 'data'), HOMARD_TOKEN: 't' };
  const child = spawn(process.execPath, ['node_modules/homard/dist/cli.js', 'start'], { cwd, env: environment });
  try {
    const address = await new Promise<string>((done, fail) => {
      let output = '';
      child.stdout.on('data', (chunk) => {
        output += String(chunk);
        const found = /listens on (\S+)/.exec(output)?.[1];
        if (found) done(found);
      });
      child.stderr.on('data', (chunk) => process.stderr.write(String(chunk)));
      child.once('exit', (code) => fail(new Error(`the packed server ended with ${code}: ${output}`)));
      setTimeout(() => fail(new Error('the packed server did not start in 60 s')), 60_000).unref();
    });
    const headers = { authorization: 'Bearer t', 'content-type': 'application/json' };
    const answer = await fetch(`${address}/chat`, { method: 'POST', headers, body: '{"query":"hello"}' });
    const body = (await answer.json()) as { status?: string; text?: string };
    if (body.status !== 'done' || !body.text)
      throw new Error(`the packed server ${version} answered ${JSON.stringify(body)}`);
    const page = await (await fetch(address, { headers: { accept: 'text/html' } })).text();
    if (!page.includes('id="app"')) throw new Error(`the packed server shows no web page: ${page.slice(0, 200)}`);
  } finally {
    child.kill('SIGTERM');
    await new Promise((done) => child.once('exit', done));
  }
}
