// Commands in sandboxes of bubblewrap: namespaces of their own, the programs of this host and nothing else of it, no
// network, no privileges, a filter of system calls. Needs no daemon and no rights.
import { execFile } from 'node:child_process';
import { lstatSync, readlinkSync } from 'node:fs';
import { promisify } from 'node:util';
import { messageOf } from '../kernel/index.ts';
import { findCgroups } from './namespaces/cgroup.ts';
import { toCovers } from './namespaces/covers.ts';
import { sandboxError } from './errors.ts';
import { folderSeen, launch } from './namespaces/launch.ts';
import { createOneShotExecution, type Launch } from './namespaces/one-shot.ts';
import { adviceFor, findProgram, tryOut } from './namespaces/probe.ts';
import type { BackendConfig, CreateBackend, Execution, SandboxCapabilities } from './sandbox.ts';
import { createSeccompFilter, isMachine } from './namespaces/seccomp.ts';
import { networkFiles, systemFiles, systemFolders } from './namespaces/shown.ts';

/** The first with `--disable-userns`: without it, a command may become root in a namespace of its own. */
const MIN_VERSION = [0, 8];
const SHARED_MEMORY_BYTES = 67_108_864;

const passwd = 'root:x:0:0:root:/:/usr/sbin/nologin\nsandbox:x:1000:1000:sandbox:/workspace:/bin/bash\n';
const group = 'root:x:0:\nsandbox:x:1000:\n';
const hosts = '127.0.0.1 localhost sandbox\n::1 localhost\n';

/** What may hold something of this server. */
const shown = ['/usr', ...systemFolders, ...systemFiles];

/** As `CreateBackend`; tries a command before it resolves. */
export const createBwrapBackend: CreateBackend = async (config) => {
  const program = findProgram('bwrap');
  if (!program) {
    throw sandboxError('unavailable', 'bubblewrap is not installed (no program "bwrap").', {
      hint: 'Install it: apt install bubblewrap (Debian, Ubuntu), dnf install bubblewrap (Fedora), apk add bubblewrap bash (Alpine).',
    });
  }
  const version = await versionOf(program);
  const start = createLaunch(program, config);
  const found = await tryOut(start, config);
  if ('failure' in found) {
    throw sandboxError('unavailable', `bubblewrap does not work here. ${found.failure}`, { hint: found.hint });
  }

  const cgroups = await findCgroups();
  const executions = new Set<Execution>();
  const hasFilter = isMachine(process.arch);
  const capabilities: SandboxCapabilities = {
    isolation: 'namespace',
    hasPrograms: true,
    hasNetwork: config.network === 'host',
    keepsBackground: false,
    killsAll: true,
    memoryLimit: 'total',
    diskLimit: 'total',
    hasProcessLimit: true,
  };
  return {
    kind: 'bwrap',
    capabilities,
    description: `bubblewrap ${version}${hasFilter ? '' : `, without a filter of system calls (unknown machine ${process.arch})`}${cgroups ? ', memory held by cgroup' : ''}`,
    advice: adviceFor(found.programs, config.network),
    opensEmpty: true,
    async open(slot, signal) {
      const execution = await createOneShotExecution(slot, start, { limits: config.limits, cgroups, signal });
      const close = async () => {
        await execution.close();
        executions.delete(opened);
      };
      const opened = { ...execution, close };
      executions.add(opened);
      return opened;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...executions].map((execution) => execution.close()));
    },
  };
};

async function versionOf(program: string): Promise<string> {
  let text: string;
  try {
    text = (await promisify(execFile)(program, ['--version'], { timeout: 10_000, env: {} })).stdout;
  } catch (cause) {
    throw sandboxError('unavailable', `${program} cannot be started: ${messageOf(cause)}`, { cause });
  }
  const version = /\d+(\.\d+)+/.exec(text)?.[0] ?? '0';
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [minMajor = 0, minMinor = 0] = MIN_VERSION;
  if (major > minMajor || (major === minMajor && minor >= minMinor)) return version;
  throw sandboxError('unavailable', `bubblewrap ${version} is too old; ${MIN_VERSION.join('.')} or later is needed.`, {
    hint: 'Update it, or set sandbox.kind to unshare, which needs nothing to be installed.',
  });
}

/** Options come through descriptors: none is in the arguments of a process. */
function createLaunch(program: string, { network, hidden }: BackendConfig): Launch {
  const contents: (string | Uint8Array)[] = [];
  /** Descriptor 5 is that of the options. */
  const descriptorOf = (content: string | Uint8Array) => String(5 + contents.push(content));
  const file = (path: string, content: string) => ['--perms', '0644', '--file', descriptorOf(content), path];
  const options = [
    namespaceOptions(network),
    systemOptions(),
    file('/etc/passwd', passwd),
    file('/etc/group', group),
    network === 'host' ? networkFiles.flatMap((path) => ['--ro-bind-try', path, path]) : file('/etc/hosts', hosts),
    isMachine(process.arch) ? ['--seccomp', descriptorOf(createSeccompFilter(process.arch))] : [],
  ].flat();
  return (slot, entry, entrance) => {
    // Looked for anew: they may be made after the first start.
    const covers = toCovers(hidden, shown).flatMap((path) => ['--tmpfs', path, '--remount-ro', path]);
    const all = [...options, ...covers, '--bind', folderSeen(slot), '/slot', '--remount-ro', '/'];
    const text = all.map((option) => `${option}\0`).join('');
    return launch(slot, [program, '--args', '5', '--', ...entry], { inputs: [text, ...contents], entrance });
  };
}

const namespaceOptions = (network: BackendConfig['network']): string[] =>
  [
    ['--unshare-user', '--disable-userns', '--unshare-ipc', '--unshare-pid', '--unshare-uts', '--unshare-cgroup-try'],
    network === 'host' ? [] : ['--unshare-net'],
    ['--die-with-parent', '--new-session'],
    ['--uid', '1000', '--gid', '1000', '--hostname', 'sandbox'],
  ].flat();

/** The file system, but for the slot: what else can be written is small, and not on disk. */
const systemOptions = (): string[] =>
  [
    ['--ro-bind', '/usr', '/usr'],
    ...systemFolders.map(systemFolder),
    ['--dir', '/etc'],
    ...systemFiles.map((path) => ['--ro-bind-try', path, path]),
    ['--proc', '/proc'],
    ['--dev', '/dev', '--remount-ro', '/dev'],
    ['--perms', '1777', '--size', String(SHARED_MEMORY_BYTES), '--tmpfs', '/dev/shm'],
    ['--symlink', 'slot/ws', '/workspace', '--symlink', 'slot/tmp', '/tmp'],
  ].flat();

/** As on this host, where most of them are links into /usr. */
function systemFolder(path: string): string[] {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found?.isSymbolicLink()) return ['--symlink', readlinkSync(path), path];
  return found?.isDirectory() ? ['--ro-bind', path, path] : [];
}
