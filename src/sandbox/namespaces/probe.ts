// Whether sandboxes of namespaces work on this host: found out by one command in one of them.
import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs';
import { chmod, chown, lstat, mkdir, mkdtemp, readdir, realpath, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { removeTree } from '../../files/remove-tree.ts';
import { messageOf } from '../../kernel/index.ts';
import { commandUser } from '../server-process.ts';
import { createOneShotExecution, type Launch } from './one-shot.ts';
import type { BackendConfig, Slot } from '../sandbox.ts';

/** The path of a program of this host; undefined where there is none. */
export function findProgram(name: string): string | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/bin', '/bin', '/usr/sbin', '/sbin'];
  return folders
    .filter((folder) => folder.startsWith('/'))
    .map((folder) => join(folder, name))
    .find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false; // Not there, or not ours to run.
  }
}

const USEFUL_PROGRAMS = ['bash', 'python3', 'node', 'git', 'jq', 'rg', 'curl'];

const PREFIX = 'homard-probe-';
const OLD_MS = 3_600_000;

/** Tells what there is, what it sees at paths of the host ("$@"), and its privileges. */
const PROBE = `
for name in ${USEFUL_PROGRAMS.join(' ')}; do command -v "$name" >/dev/null && echo "has $name"; done
for path in "$@"; do
  if [ -e "$path" ]; then stat -L -c 'sees %d:%i' -- "$path"; else echo 'sees nothing'; fi
done
cat /proc/self/status
`;

/** Why there is no sandbox, or why it is not safe, and what to do. */
interface Failure {
  failure: string;
  hint: string;
}

const LEAK_HINT =
  'Start the server in a folder of its own, with its data in another than those of the programs of the host.';

/**
 * Runs a command in a sandbox over a folder of its own. `programs` are those of a few that commands have. Never rejects.
 */
export async function tryOut(
  start: Launch,
  { limits, hidden }: BackendConfig,
): Promise<{ programs: string[] } | Failure> {
  let directory: string | undefined;
  try {
    const parent = await realpath(tmpdir());
    await removeLeft(parent);
    directory = await mkdtemp(join(parent, PREFIX));
    const slot = await makeSlot(directory);
    const canary = join(directory, 'canary');
    await writeFile(canary, '');
    const execution = await createOneShotExecution(slot, start, { limits, signal: new AbortController().signal });
    try {
      const result = await execution.exec({
        argv: ['/bin/sh', '-c', PROBE, 'sh', canary, ...hidden],
        timeoutMs: 10_000,
      });
      const text = Buffer.from(result.stdout.head).toString();
      if (result.exitCode !== 0) return fail(`A command failed: ${Buffer.from(result.stderr.head).toString()}`);
      const leak = findLeak(text, [canary, ...hidden]);
      if (leak) return fail(`A command sees ${leak}.`, LEAK_HINT);
      const weakness = weaknessOf(text);
      if (weakness) return fail(weakness);
      return { programs: USEFUL_PROGRAMS.filter((name) => text.includes(`has ${name}\n`)) };
    } finally {
      await execution.close();
    }
  } catch (error) {
    return fail(messageOf(error));
  } finally {
    if (directory) await removeTree(directory);
  }
}

/** Those of servers that ended while they probed. */
async function removeLeft(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    if (!name.startsWith(PREFIX)) continue;
    try {
      const { uid, mtimeMs } = await lstat(join(parent, name));
      if (uid === process.getuid?.() && Date.now() - mtimeMs > OLD_MS) await removeTree(join(parent, name));
    } catch {
      // Another server removes it.
    }
  }
}

/** As slots are in use, see folders.ts: commands cannot write to the folder itself. */
async function makeSlot(directory: string): Promise<Slot> {
  const user = process.getuid?.() === 0 ? commandUser : undefined;
  const slot: Slot = { id: 'probe', directory: join(directory, 'slot'), ...(user && { user }) };
  await mkdir(slot.directory);
  await chmod(slot.directory, 0o755);
  for (const path of [join(slot.directory, 'ws'), join(slot.directory, 'tmp')]) {
    await mkdir(path, { mode: 0o700 });
    if (user) await chown(path, user.uid, user.gid);
  }
  return slot;
}

/** A path may be there inside, too, but not as the same folder. */
function findLeak(text: string, paths: readonly string[]): string | undefined {
  const seen = [...text.matchAll(/^sees (.*)$/gm)].map(([, identity]) => identity);
  return paths.find((path, index) => seen[index] === undefined || seen[index] === identityOf(path));
}

function identityOf(path: string): string | undefined {
  try {
    const { dev, ino } = statSync(path, { bigint: true });
    return `${dev}:${ino}`;
  } catch {
    return undefined; // There is nothing to be seen.
  }
}

function weaknessOf(status: string): string | undefined {
  if (!/^CapEff:\s*0+$/m.test(status)) return 'A command has privileges (CapEff is not 0).';
  if (!/^NoNewPrivs:\s*1$/m.test(status)) return 'A command may gain privileges (NoNewPrivs is not 1).';
  return undefined;
}

const fail = (failure: string, hint = namespaceHint()): Failure => ({ failure, hint });

/** What most likely keeps namespaces from working here, and what to do. */
function namespaceHint(): string {
  if (setting('kernel/apparmor_restrict_unprivileged_userns') === '1') {
    return 'AppArmor forbids user namespaces here, as Ubuntu sets it. Allow them: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (keep it in /etc/sysctl.d), or give the program an AppArmor profile with "userns,".';
  }
  if (setting('kernel/unprivileged_userns_clone') === '0') {
    return 'Allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1 (keep it in /etc/sysctl.d).';
  }
  if (setting('user/max_user_namespaces') === '0') {
    return 'Allow user namespaces: sysctl -w user.max_user_namespaces=10000 (keep it in /etc/sysctl.d).';
  }
  if (existsSync('/.dockerenv') || existsSync('/run/.containerenv')) {
    return 'This is a container, and most forbid namespaces. Start it with --security-opt seccomp=unconfined --security-opt systempaths=unconfined (as root also --cap-add SYS_ADMIN), or set sandbox.kind to docker, e2b or virtual.';
  }
  return 'Namespaces of users, processes, mounts and the network must be allowed. Else set sandbox.kind to docker, e2b or virtual.';
}

function setting(name: string): string | undefined {
  try {
    return readFileSync(`/proc/sys/${name}`, 'utf8').trim();
  } catch {
    return undefined; // This kernel does not have it.
  }
}

/** What a model should know of a sandbox with the programs of the host. */
export function adviceFor(programs: readonly string[], network: BackendConfig['network']): string {
  const missing = USEFUL_PROGRAMS.filter((name) => !programs.includes(name));
  const has = `Commands run on Linux with the programs of the host (${programs.join(', ')}${missing.length ? `; no ${missing.join(', ')}` : ''})`;
  const reach = network === 'host' ? 'with network' : 'without network';
  return `${has}, ${reach}. Keep files below /workspace: nothing else stays; what runs in the background ends with its command.`;
}
