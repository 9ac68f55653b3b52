// Installs the lock when node_modules does not match it, and packs an empty database for quick first starts. Plain
// JavaScript: it runs before Node 24 is here.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { createHash } from 'node:crypto';

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

if (!hasTemplate()) {
  console.error('homard: preparing an empty database, of which each new one is a copy (once, 3-10 s) ...');
  const node = `node_modules/node/bin/node${process.platform === 'win32' ? '.exe' : ''}`;
  try {
    // V8 does not optimise an engine that lives for seconds, which would take half of the time.
    execFileSync(node, ['--liftoff-only', 'scripts/template.ts'], { stdio: ['ignore', 'ignore', 'pipe'] });
  } catch (error) {
    console.error(`homard: that failed, so first starts take longer: ${String(error.stderr || error.message).trim()}`);
  }
}

/** For the PGlite that is installed, and not older than the schema. */
function hasTemplate() {
  const { version } = JSON.parse(readFileSync('node_modules/@electric-sql/pglite/package.json', 'utf8'));
  const name = existsSync('dist') && readdirSync('dist').find((entry) => entry.startsWith(`pglite-${version}-`));
  if (!name) return false;
  const { mtimeMs } = statSync(`dist/${name}`);
  const schema = 'src/store/migrations';
  return readdirSync(schema).every((entry) => statSync(`${schema}/${entry}`).mtimeMs < mtimeMs);
}
