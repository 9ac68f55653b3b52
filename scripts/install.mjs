// Installs the lock when node_modules does not match it, packs an empty database for quick first starts, and builds the web
// page when its sources are newer. Plain JavaScript: it runs before Node 24 is here.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { join, resolve } from 'node:path';

const stamp = 'node_modules/.homard-lock';
const lock = createHash('sha256').update(readFileSync('package-lock.json')).digest('hex');
const installed = existsSync(stamp) ? readFileSync(stamp, 'utf8') : '';

if (installed !== lock) {
  console.error('homard: installing dependencies (once) ...');
  execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    stdio: ['ignore', 'ignore', 'inherit'],
    shell: process.platform === 'win32',
  });
  writeFileSync(stamp, lock);
}

const node = resolve(`node_modules/node/bin/node${process.platform === 'win32' ? '.exe' : ''}`);

if (!hasTemplate()) {
  console.error('homard: preparing an empty database, of which each new one is a copy (once, 3-10 s) ...');
  try {
    // V8 does not optimise an engine that lives for seconds, which would take half of the time.
    execFileSync(node, ['--liftoff-only', 'scripts/template.ts'], { stdio: ['ignore', 'ignore', 'pipe'] });
  } catch (error) {
    console.error(`homard: that failed, so first starts take longer: ${String(error.stderr || error.message).trim()}`);
  }
}

if (!hasPage()) {
  console.error('homard: building the web page (once, 5-15 s) ...');
  // Built aside, then put in its place: a server that runs meanwhile never sees half of it.
  const built = resolve(`web/node_modules/.page-${process.pid}`);
  try {
    const vite = resolve('node_modules/vite/bin/vite.js');
    mkdirSync('web/node_modules', { recursive: true });
    execFileSync(node, [vite, 'build', '--outDir', built, '--emptyOutDir', '--logLevel', 'error'], {
      cwd: 'web',
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const old = `${built}-old`;
    if (existsSync('web/dist')) renameSync('web/dist', old);
    renameSync(built, 'web/dist');
    rmSync(old, { recursive: true, force: true });
  } catch (error) {
    rmSync(built, { recursive: true, force: true });
    console.error(`homard: that failed, so there is no web page: ${String(error.stderr || error.message).trim()}`);
  }
}

/** Not older than anything it is made of. */
function hasPage() {
  if (!existsSync('web/dist/index.html')) return false;
  const { mtimeMs } = statSync('web/dist/index.html');
  const folders = ['web/src', 'web/public'].flatMap((folder) =>
    readdirSync(folder, { recursive: true }).map((entry) => join(folder, entry)),
  );
  const sources = ['package-lock.json', 'web/index.html', 'web/vite.config.ts', ...folders];
  return sources.every((source) => statSync(source).mtimeMs < mtimeMs);
}

/** For the PGlite that is installed, and not older than the schema and what compiles it. */
function hasTemplate() {
  const { version } = JSON.parse(readFileSync('node_modules/@electric-sql/pglite/package.json', 'utf8'));
  const name = existsSync('dist') && readdirSync('dist').find((entry) => entry.startsWith(`pglite-${version}-`));
  if (!name) return false;
  const { mtimeMs } = statSync(`dist/${name}`);
  const schema = 'src/store/migrations';
  const sources = ['package-lock.json', ...readdirSync(schema).map((entry) => `${schema}/${entry}`)];
  return sources.every((source) => statSync(source).mtimeMs < mtimeMs);
}
