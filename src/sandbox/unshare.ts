// Commands in sandboxes of util-linux, which every Linux has: `unshare` makes the namespaces, a shell script the file
// system in them, and perl, where it is there, loads a filter of system calls. As bubblewrap, but slower to start.
import { execFile } from 'node:child_process';
import { existsSync, lstatSync, realpathSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { messageOf } from '../kernel/index.ts';
import { findCgroups } from './namespaces/cgroup.ts';
import { toCovers } from './namespaces/covers.ts';
import { sandboxError } from './errors.ts';
import { folderSeen, launch } from './namespaces/launch.ts';
import { createOneShotExecution, type Launch } from './namespaces/one-shot.ts';
import { adviceFor, findProgram, tryOut } from './namespaces/probe.ts';
import type { BackendConfig, CreateBackend, Execution, SandboxCapabilities } from './sandbox.ts';
import { hasFilterLoader, isMachine, toFilterLoader } from './namespaces/seccomp.ts';
import { networkFiles, systemFiles, systemFolders } from './namespaces/shown.ts';

const devices = ['/dev/null', '/dev/zero', '/dev/full', '/dev/random', '/dev/urandom'];
const SHARED_MEMORY = { bytes: 67_108_864, files: 16_384 };
/** Of what programs share by System V's calls: pages of memory, 64 MB; semaphores; queues. It outlives processes, unlimited. */
const kernelLimits = { shmall: '16384', sem: '250 32000 32 128', msgmni: '32' };

/**
 * Runs as root of a new user namespace, whose only rights are in its own namespaces: makes a file system in `root`, with
 * the folder "$1" as its slot, moves into it, gives up all rights, and goes on as the program that follows. One more user
 * namespace may be made in it, and the step from this root to an ordinary user uses it up. What this server inherited open
 * is closed first: commands could open it by way of the first process of the sandbox.
 */
function createInit(root: string, { network, hidden }: BackendConfig): string {
  const all = [...systemFolders, ...systemFiles, ...(network === 'host' ? networkFiles : [])].filter(existsSync);
  const [links, shown] = [all.filter(isFolderLink), all.filter((path) => !isFolderLink(path))];
  const folders = ['/usr', ...shown.filter((path) => statSync(path).isDirectory())];
  const files = shown.filter((path) => !folders.includes(path));
  const below = (paths: string[]) => paths.map((path) => `.${path}`).join(' ');
  const table = [
    ...[...folders, ...files].map((path) => `${path} ${root}${path} none rbind,ro,nosuid,nodev`),
    ...devices.map((path) => `${path} ${root}${path} none bind`),
    `/proc/self/fd/9 ${root}/slot none bind,nosuid,nodev`,
    ...toCovers(hidden, folders).map((path) => `tmpfs ${root}${toField(path)} tmpfs ro,nosuid,nodev`),
    `tmpfs ${root}/dev/shm tmpfs size=${SHARED_MEMORY.bytes},nr_inodes=${SHARED_MEMORY.files},mode=1777,nosuid,nodev`,
    `proc ${root}/proc proc nosuid,nodev,noexec`,
  ];
  return `
set -e
for path in /proc/self/fd/*; do
  [ "\${path##*/}" -le 4 ] || eval "exec \${path##*/}>&-"
done
exec 9<"$1"
shift
mount -t tmpfs -o size=4m,mode=755,nosuid,nodev tmpfs ${root}
cd ${root}
mkdir -p proc dev/shm slot etc ${below([...folders, ...files.map(dirname)])}
${[...files, ...devices].map((path) => `: >.${path}`).join('\n')}
echo '${table.join('\n')}' >etc/fstab
mount --all --fstab etc/fstab
rm etc/fstab
exec 9<&-
cp -P ${['/dev/fd', '/dev/stdin', '/dev/stdout', '/dev/stderr'].join(' ')} dev
${links.length ? `cp -P ${links.join(' ')} .` : ''}
ln -s slot/ws workspace
ln -s slot/tmp tmp
echo 'root:x:0:0:root:/:/usr/sbin/nologin
sandbox:x:1000:1000:sandbox:/workspace:/bin/bash' >etc/passwd
echo 'root:x:0:
sandbox:x:1000:' >etc/group
${network === 'none' ? "echo '127.0.0.1 localhost sandbox\n::1 localhost' >etc/hosts\nip link set lo up 2>/dev/null || :" : ''}
pivot_root . .
umount -l .
mount -o remount,bind,ro,nosuid,nodev /
hostname sandbox 2>/dev/null || :
${Object.entries(kernelLimits)
  .map(([name, value]) => `{ echo ${value} >/proc/sys/kernel/${name}; } 2>/dev/null || :`)
  .join('\n')}
echo 1 >/proc/sys/user/max_user_namespaces
exec setpriv --no-new-privs --bounding-set=-all,+setfcap --inh-caps=-all --ambient-caps=-all -- "$@"
`;
}

/** As a table of file systems has a path. */
const toField = (path: string): string =>
  [...Buffer.from(path)]
    .map((byte) => String.fromCharCode(byte))
    .map((one) => (/[\w/.-]/.test(one) ? one : `\\${one.charCodeAt(0).toString(8).padStart(3, '0')}`))
    .join('');

/** As those into /usr; a file of /etc that is a link is shown as what it leads to. */
const isFolderLink = (path: string): boolean => systemFolders.includes(path) && lstatSync(path).isSymbolicLink();

/**
 * The first process of the sandbox: the kernel sends it no signal and leaves it all orphans, so the program is its child,
 * an ordinary user of a namespace of its own, from which it cannot be traced; to make one of a root takes setfcap. It holds
 * nothing of the streams. (A shell gives its children in the background no standard input, hence 5.)
 */
const REAP = `
exec 5<&0
unshare --user --map-user 1000 --map-group 1000 --keep-caps -- setpriv --bounding-set=-all --inh-caps=-all --ambient-caps=-all -- env -i "$@" <&5 5<&- &
exec <&- >&- 2>&- 3<&- 4>&- 5<&-
wait $!
`;

/** As `CreateBackend`; tries a command before it resolves. */
export const createUnshareBackend: CreateBackend = async (config) => {
  const version = await findVersion();
  const start = createLaunch(config);
  const found = await tryOut(start, config);
  if ('failure' in found) {
    throw sandboxError('unavailable', `unshare does not work here. ${found.failure}`, { hint: found.hint });
  }
  const cgroups = await findCgroups();
  const executions = new Set<Execution>();
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
    kind: 'unshare',
    capabilities,
    description: `unshare (util-linux ${version})${toLoader() ? '' : ', without a filter of system calls'}${cgroups ? ', memory held by cgroup' : ''}`,
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

async function findVersion(): Promise<string> {
  if (process.platform !== 'linux') {
    throw sandboxError('unavailable', `Namespaces are a part of Linux; this is ${process.platform}.`);
  }
  const missing = ['unshare', 'setpriv', 'mount', 'pivot_root', 'bash'].filter((name) => !findProgram(name));
  if (missing.length) {
    throw sandboxError('unavailable', `These programs are missing: ${missing.join(', ')}.`, {
      hint: 'Install them: apt install util-linux mount bash (Debian, Ubuntu), dnf install util-linux bash (Fedora), apk add util-linux bash (Alpine).',
    });
  }
  try {
    const { stdout } = await promisify(execFile)('unshare', ['--version'], {
      timeout: 10_000,
      env: { PATH: '/usr/bin:/bin' },
    });
    return /\d+(\.\d+)+/.exec(stdout)?.[0] ?? 'of unknown version';
  } catch (cause) {
    throw sandboxError('unavailable', `unshare cannot be started: ${messageOf(cause)}`, { cause });
  }
}

/** Undefined where there is no filter. */
const toLoader = (): string[] | undefined =>
  isMachine(process.arch) && hasFilterLoader() ? toFilterLoader(process.arch) : undefined;

/** The death of the server ends the outer `unshare`, whose death ends the sandbox. */
function createLaunch(config: BackendConfig): Launch {
  const namespaces = ['--user', '--map-root-user', '--mount', '--pid', '--ipc', '--uts', '--cgroup'];
  if (config.network === 'none') namespaces.push('--net');
  const loader = toLoader() ?? [];
  return (slot, entry, entrance) => {
    const seen = folderSeen(slot);
    // What is made there hides what was there.
    const root = realpathSync(seen).startsWith('/var/') ? '/tmp' : '/var';
    const outer = ['setpriv', '--pdeathsig', 'KILL', 'unshare', ...namespaces, '--fork', '--kill-child', '--'];
    const init = ['/bin/bash', '--norc', '--noprofile', '-c', createInit(root, config), 'bash', seen];
    return launch(slot, [...outer, ...init, '/bin/sh', '-c', REAP, 'sh', ...loader, ...entry], { entrance });
  };
}
