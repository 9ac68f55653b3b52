// Whether sandboxes of namespaces work on this host: found out by one command in one of them.
import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { chown, mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { messageOf } from '../kernel/index.ts';
import { commandUser } from './server-process.ts';
import { createOneShotExecution, type Launch } from './one-shot.ts';
import type { BackendConfig, SandboxLimits, Slot } from './sandbox.ts';

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

/** Tells what there is, what it may see of the host ("$1"), and its privileges. */
const PROBE = `
for name in ${USEFUL_PROGRAMS.join(' ')}; do command -v "$name" >/dev/null && echo "has $name"; done
[ -e "$1" ] && echo leaks
cat /proc/self/status
`;

/**
 * Runs a command in a sandbox over a folder of its own. `failure` says why there is none, or why it is not safe;
 * `programs` are those of a few that commands have. Never rejects.
 */
export async function tryOut(start: Launch, limits: SandboxLimits): Promise<{ programs: string[]; failure?: string }> {
  let directory: string | undefined;
  try {
    directory = await mkdtemp(join(await realpath(tmpdir()), 'homard-probe-'));
    const slot = await makeSlot(directory);
    const canary = join(directory, 'canary');
    await writeFile(canary, '');
    const execution = await createOneShotExecution(slot, start, { limits, signal: new AbortController().signal });
    try {
      const result = await execution.exec({ argv: ['/bin/sh', '-c', PROBE, 'sh', canary], timeoutMs: 10_000 });
      const text = Buffer.from(result.stdout.head).toString();
      if (result.exitCode !== 0)
        return { programs: [], failure: `A command failed: ${Buffer.from(result.stderr.head).toString()}` };
      const failure = weaknessOf(text);
      return {
        programs: USEFUL_PROGRAMS.filter((name) => text.includes(`has ${name}\n`)),
        ...(failure && { failure }),
      };
    } finally {
      await execution.close();
    }
  } catch (error) {
    return { programs: [], failure: messageOf(error) };
  } finally {
    if (directory) await rm(directory, { recursive: true, force: true });
  }
}

async function makeSlot(directory: string): Promise<Slot> {
  const user = process.getuid?.() === 0 ? commandUser : undefined;
  const slot: Slot = { id: 'probe', directory: join(directory, 'slot'), ...(user && { user }) };
  for (const path of [slot.directory, join(slot.directory, 'ws'), join(slot.directory, 'tmp')]) {
    await mkdir(path);
    if (user) await chown(path, user.uid, user.gid);
  }
  return slot;
}

function weaknessOf(status: string): string | undefined {
  if (status.includes('leaks\n')) return 'A command sees the files of the host.';
  if (!/^CapEff:\s*0+$/m.test(status)) return 'A command has privileges (CapEff is not 0).';
  if (!/^NoNewPrivs:\s*1$/m.test(status)) return 'A command may gain privileges (NoNewPrivs is not 1).';
  return undefined;
}

/** What most likely keeps namespaces from working here, and what to do. */
export function namespaceHint(): string {
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
