// A filter of system calls, made without a library: what no command needs and what attacks on the kernel begin with. It
// stands behind the namespaces of a sandbox, which refuse most of this already.
import { existsSync } from 'node:fs';

/** Machines that the filter knows, as Node names them. */
export type Machine = 'x64' | 'arm64';
export const isMachine = (name: string): name is Machine => name === 'x64' || name === 'arm64';

/** Values of <linux/audit.h>. */
const auditArch: Record<Machine, number> = { x64: 0xc000003e, arm64: 0xc00000b7 };

/** Numbers of <asm/unistd_64.h> and of <asm-generic/unistd.h>. */
type Numbers = Readonly<Record<string, Record<Machine, number>>>;

const keyctl = { x64: 250, arm64: 219 };

/** Refused with EPERM. */
const refused: Numbers = {
  // Other processes, their memory and their descriptors.
  ptrace: { x64: 101, arm64: 117 },
  process_vm_readv: { x64: 310, arm64: 270 },
  process_vm_writev: { x64: 311, arm64: 271 },
  process_madvise: { x64: 440, arm64: 440 },
  pidfd_getfd: { x64: 438, arm64: 438 },
  kcmp: { x64: 312, arm64: 272 },
  // Namespaces and mounts.
  unshare: { x64: 272, arm64: 97 },
  setns: { x64: 308, arm64: 268 },
  mount: { x64: 165, arm64: 40 },
  umount2: { x64: 166, arm64: 39 },
  pivot_root: { x64: 155, arm64: 41 },
  chroot: { x64: 161, arm64: 51 },
  open_tree: { x64: 428, arm64: 428 },
  move_mount: { x64: 429, arm64: 429 },
  fsopen: { x64: 430, arm64: 430 },
  fsconfig: { x64: 431, arm64: 431 },
  fsmount: { x64: 432, arm64: 432 },
  fspick: { x64: 433, arm64: 433 },
  mount_setattr: { x64: 442, arm64: 442 },
  open_tree_attr: { x64: 467, arm64: 467 },
  // Parts of the kernel with a history of holes.
  add_key: { x64: 248, arm64: 217 },
  request_key: { x64: 249, arm64: 218 },
  keyctl,
  bpf: { x64: 321, arm64: 280 },
  perf_event_open: { x64: 298, arm64: 241 },
  userfaultfd: { x64: 323, arm64: 282 },
  io_uring_setup: { x64: 425, arm64: 425 },
  io_uring_enter: { x64: 426, arm64: 426 },
  io_uring_register: { x64: 427, arm64: 427 },
  name_to_handle_at: { x64: 303, arm64: 264 },
  open_by_handle_at: { x64: 304, arm64: 265 },
  lookup_dcookie: { x64: 212, arm64: 18 },
  // The machine as a whole.
  init_module: { x64: 175, arm64: 105 },
  finit_module: { x64: 313, arm64: 273 },
  delete_module: { x64: 176, arm64: 106 },
  kexec_load: { x64: 246, arm64: 104 },
  kexec_file_load: { x64: 320, arm64: 294 },
  reboot: { x64: 169, arm64: 142 },
  swapon: { x64: 167, arm64: 224 },
  swapoff: { x64: 168, arm64: 225 },
  acct: { x64: 163, arm64: 89 },
  syslog: { x64: 103, arm64: 116 },
  quotactl: { x64: 179, arm64: 60 },
  quotactl_fd: { x64: 443, arm64: 443 },
  vhangup: { x64: 153, arm64: 58 },
};

/** Answered with ENOSYS, as a kernel without them does: programs then take an older way. */
const absent: Numbers = {
  // Its flags are in memory, where a filter cannot look; C libraries then use clone.
  clone3: { x64: 435, arm64: 435 },
  // Memory that no process has mapped, so that no limit sees it.
  shmget: { x64: 29, arm64: 194 },
  semget: { x64: 64, arm64: 190 },
  msgget: { x64: 68, arm64: 186 },
  io_setup: { x64: 206, arm64: 0 },
  memfd_secret: { x64: 447, arm64: 447 },
};

/** It takes all of a disk at once. Where it is not supported, C libraries and programs write instead, which takes time. */
const fallocate = { x64: 285, arm64: 47 };

/** Looked at more closely. */
const clone = { x64: 56, arm64: 220 };
const ioctl = { x64: 16, arm64: 29 };
const personality = { x64: 135, arm64: 92 };
const socket = { x64: 41, arm64: 198 };

const CLONE_NEWUSER = 0x10000000;
/** They put characters into the terminal of somebody else. */
const TERMINAL_INPUT = { TIOCSTI: 0x5412, TIOCLINUX: 0x541c };
/** The usual one, and the question which one it is. */
const PERSONALITIES = [0, 0xffffffff];
/** AF_UNIX, AF_INET, AF_INET6, AF_NETLINK. Others, such as AF_VSOCK, know no network namespace or are rarely used. */
const SOCKET_FAMILIES = [1, 2, 10, 16];
/** Bit of the numbers of x32, a second set of system calls on x86-64. */
const X32 = 0x40000000;

const EPERM = 1;
const ENOSYS = 38;
const EOPNOTSUPP = 95;
const EAFNOSUPPORT = 97;

/** `struct sock_filter` of <linux/filter.h>. */
interface Instruction {
  code: number;
  jumpTrue: number;
  jumpFalse: number;
  value: number;
}
type Block = readonly Instruction[];

const LOAD_WORD = 0x20;
const JUMP_EQUAL = 0x15;
const JUMP_GREATER_OR_EQUAL = 0x35;
const JUMP_ANY_BIT = 0x45;
const RETURN = 0x06;

/** Offsets in `struct seccomp_data`; of an argument, the low half: the kernel takes no more of those looked at. */
const NUMBER = 0;
const ARCH = 4;
const argument = (index: number) => 16 + 8 * index;

const load = (offset: number): Instruction => ({ code: LOAD_WORD, jumpTrue: 0, jumpFalse: 0, value: offset });
const leave = (value: number): Instruction => ({ code: RETURN, jumpTrue: 0, jumpFalse: 0, value });
const allow = leave(0x7fff0000);
const kill = leave(0x80000000);
const fail = (errno: number) => leave(0x00050000 | errno);

/** Runs `block` where the loaded word passes the test; else goes on behind it. */
function when(test: number, value: number, block: Block): Block {
  return [{ code: test, jumpTrue: 0, jumpFalse: block.length, value }, ...block];
}
const whenEqual = (value: number, block: Block) => when(JUMP_EQUAL, value, block);

/** The filter as `bwrap --seccomp` and the kernel read it. What it does not name is allowed. */
export function createSeccompFilter(machine: Machine): Uint8Array {
  const program: Instruction[] = [
    load(ARCH),
    // 32-bit programs have other numbers.
    { code: JUMP_EQUAL, jumpTrue: 1, jumpFalse: 0, value: auditArch[machine] },
    kill,
    load(NUMBER),
    ...(machine === 'x64' ? when(JUMP_GREATER_OR_EQUAL, X32, [fail(ENOSYS)]) : []),
    ...Object.values(refused).flatMap((number) => whenEqual(number[machine], [fail(EPERM)])),
    ...Object.values(absent).flatMap((number) => whenEqual(number[machine], [fail(ENOSYS)])),
    ...whenEqual(fallocate[machine], [fail(EOPNOTSUPP)]),
    ...whenEqual(clone[machine], [load(argument(0)), ...when(JUMP_ANY_BIT, CLONE_NEWUSER, [fail(EPERM)]), allow]),
    ...whenEqual(ioctl[machine], [
      load(argument(1)),
      ...Object.values(TERMINAL_INPUT).flatMap((request) => whenEqual(request, [fail(EPERM)])),
      allow,
    ]),
    ...whenEqual(personality[machine], [
      load(argument(0)),
      ...PERSONALITIES.flatMap((value) => whenEqual(value, [allow])),
      fail(EPERM),
    ]),
    ...whenEqual(socket[machine], [
      load(argument(0)),
      ...SOCKET_FAMILIES.flatMap((family) => whenEqual(family, [allow])),
      fail(EAFNOSUPPORT),
    ]),
    allow,
  ];
  return encode(program);
}

function encode(program: readonly Instruction[]): Uint8Array {
  const bytes = Buffer.alloc(program.length * 8);
  for (const [index, { code, jumpTrue, jumpFalse, value }] of program.entries()) {
    bytes.writeUInt16LE(code, index * 8);
    bytes.writeUInt8(jumpTrue, index * 8 + 2);
    bytes.writeUInt8(jumpFalse, index * 8 + 3);
    bytes.writeUInt32LE(value, index * 8 + 4);
  }
  return bytes;
}

const prctl = { x64: 157, arm64: 167 };
const PR_SET_SECCOMP = 22;
const SECCOMP_MODE_FILTER = 2;
const KEYCTL_JOIN_SESSION_KEYRING = 1;

/**
 * A program and its arguments, to be followed by those of another: it takes the filter upon itself and becomes that other.
 * Before, it leaves the keys of whoever started it: they are inherited, across all namespaces. Should it get no keyring of
 * its own, as when its user has too many, the filter keeps it from the old one. Needs perl and no_new_privs.
 */
export function toFilterLoader(machine: Machine): string[] {
  const filter = Buffer.from(createSeccompFilter(machine)).toString('hex');
  const program = `
syscall(${keyctl[machine]}, ${KEYCTL_JOIN_SESSION_KEYRING}, 0);
my $filter = pack 'H*', '${filter}';
my $program = pack 'S x![Q] P', length($filter) / 8, $filter;
syscall(${prctl[machine]}, ${PR_SET_SECCOMP}, ${SECCOMP_MODE_FILTER}, $program) == 0
  or die "The filter of system calls was not taken: $!\n";
exec { $ARGV[0] } @ARGV or die "$ARGV[0]: $!\n";
`;
  return [LOADER, '-e', program, '--'];
}

/** It can make any system call, and a part of it that Debian always has is enough. */
const LOADER = '/usr/bin/perl';
export const hasFilterLoader = (): boolean => existsSync(LOADER);
