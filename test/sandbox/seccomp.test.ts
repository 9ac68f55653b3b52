import { expect, test } from 'vitest';
import { createSeccompFilter, isMachine, type Machine } from '../../src/sandbox/namespaces/seccomp.ts';

const ALLOW = 'allow';
const KILL = 'kill';
const EPERM = 1;
const ENOSYS = 38;
const EOPNOTSUPP = 95;
const EAFNOSUPPORT = 97;

interface Call {
  machine?: Machine;
  arch?: number;
  number: number;
  args?: number[];
}

const archs: Record<Machine, number> = { x64: 0xc000003e, arm64: 0xc00000b7 };

/** Runs the filter as the kernel does, of classic BPF what such filters use. */
function judge(machine: Machine, { arch = archs[machine], number, args = [] }: Call): number | string {
  const program = Buffer.from(createSeccompFilter(machine));
  const data = Buffer.alloc(64);
  data.writeUInt32LE(number, 0);
  data.writeUInt32LE(arch, 4);
  args.forEach((value, index) => data.writeBigUInt64LE(BigInt(value), 16 + 8 * index));
  let accumulator = 0;
  for (let at = 0; at * 8 < program.length; at++) {
    const code = program.readUInt16LE(at * 8);
    const [jumpTrue, jumpFalse] = [program.readUInt8(at * 8 + 2), program.readUInt8(at * 8 + 3)];
    const value = program.readUInt32LE(at * 8 + 4);
    if (code === 0x20) accumulator = data.readUInt32LE(value);
    else if (code === 0x15) at += accumulator === value ? jumpTrue : jumpFalse;
    else if (code === 0x35) at += accumulator >= value ? jumpTrue : jumpFalse;
    else if (code === 0x45) at += (accumulator & value) !== 0 ? jumpTrue : jumpFalse;
    else if (code === 0x06) return toVerdict(value);
    else throw new Error(`instruction ${code} at ${at}`);
  }
  throw new Error('the filter has no end');
}

function toVerdict(value: number): number | string {
  if (value === 0x7fff0000) return ALLOW;
  if (value === 0x80000000) return KILL;
  if (value >>> 16 === 0x0005) return value & 0xffff;
  throw new Error(`verdict ${value}`);
}

/** Numbers from the kernel's headers, not from the code under test. */
const numbers = {
  x64: {
    read: 0,
    execve: 59,
    fork: 57,
    futex: 202,
    openat: 257,
    memfd_create: 319,
    clone: 56,
    clone3: 435,
    unshare: 272,
    setns: 308,
    mount: 165,
    ptrace: 101,
    keyctl: 250,
    bpf: 321,
    io_uring_setup: 425,
    userfaultfd: 323,
    process_vm_readv: 310,
    open_by_handle_at: 304,
    kexec_load: 246,
    init_module: 175,
    reboot: 169,
    shmget: 29,
    semget: 64,
    msgget: 68,
    io_setup: 206,
    fallocate: 285,
    ioctl: 16,
    personality: 135,
    socket: 41,
  },
  arm64: {
    read: 63,
    execve: 221,
    fork: 1079,
    futex: 98,
    openat: 56,
    memfd_create: 279,
    clone: 220,
    clone3: 435,
    unshare: 97,
    setns: 268,
    mount: 40,
    ptrace: 117,
    keyctl: 219,
    bpf: 280,
    io_uring_setup: 425,
    userfaultfd: 282,
    process_vm_readv: 270,
    open_by_handle_at: 265,
    kexec_load: 104,
    init_module: 105,
    reboot: 142,
    shmget: 194,
    semget: 190,
    msgget: 186,
    io_setup: 0,
    fallocate: 47,
    ioctl: 29,
    personality: 92,
    socket: 198,
  },
} satisfies Record<Machine, Record<string, number>>;

const CLONE_THREAD_FLAGS = 0x3d0f00;
const CLONE_NEWUSER = 0x10000000;

test.each(['x64', 'arm64'] as const)(
  '%s: ordinary calls are allowed, those that reach out of a sandbox are not',
  (machine) => {
    const number = numbers[machine];
    for (const name of ['read', 'execve', 'fork', 'futex', 'openat', 'memfd_create'] as const) {
      expect([name, judge(machine, { number: number[name] })]).toEqual([name, ALLOW]);
    }
    const refused = [
      ...(['unshare', 'setns', 'mount', 'ptrace', 'keyctl', 'bpf', 'io_uring_setup', 'userfaultfd'] as const),
      ...(['process_vm_readv', 'open_by_handle_at', 'kexec_load', 'init_module', 'reboot'] as const),
    ];
    for (const name of refused) expect([name, judge(machine, { number: number[name] })]).toEqual([name, EPERM]);
    for (const name of ['clone3', 'shmget', 'semget', 'msgget', 'io_setup'] as const) {
      expect([name, judge(machine, { number: number[name] })]).toEqual([name, ENOSYS]);
    }
    expect(judge(machine, { number: number.fallocate })).toBe(EOPNOTSUPP);
  },
);

test.each(['x64', 'arm64'] as const)('%s: arguments decide where a call is needed and dangerous', (machine) => {
  const { clone, ioctl, personality, socket } = numbers[machine];
  expect(judge(machine, { number: clone, args: [CLONE_THREAD_FLAGS] })).toBe(ALLOW);
  expect(judge(machine, { number: clone, args: [CLONE_NEWUSER | 17] })).toBe(EPERM);
  expect(judge(machine, { number: ioctl, args: [0, 0x5401] })).toBe(ALLOW); // TCGETS
  expect(judge(machine, { number: ioctl, args: [0, 0x5412] })).toBe(EPERM); // TIOCSTI
  expect(judge(machine, { number: ioctl, args: [0, 0x541c] })).toBe(EPERM); // TIOCLINUX
  // The kernel looks at the low half only, so a high half must not hide it.
  expect(judge(machine, { number: ioctl, args: [0, 0x1_0000_5412] })).toBe(EPERM);
  expect(judge(machine, { number: personality, args: [0xffffffff] })).toBe(ALLOW);
  expect(judge(machine, { number: personality, args: [0x0040000] })).toBe(EPERM); // ADDR_NO_RANDOMIZE
  expect([1, 2, 10, 16].map((family) => judge(machine, { number: socket, args: [family] }))).toEqual(
    Array(4).fill(ALLOW),
  );
  expect([17, 38, 40].map((family) => judge(machine, { number: socket, args: [family] }))).toEqual(
    Array(3).fill(EAFNOSUPPORT), // AF_PACKET, AF_ALG, AF_VSOCK
  );
});

test('calls by other numbers are not let through: 32-bit programs, x32', () => {
  expect(judge('x64', { arch: 0x40000003, number: 26 })).toBe(KILL); // i386: ptrace
  expect(judge('arm64', { arch: 0x40000028, number: 26 })).toBe(KILL); // arm
  expect(judge('x64', { number: 0x40000000 | 521 })).toBe(ENOSYS); // x32: ptrace
});

test('a machine without a table is known as such', () => {
  expect(['x64', 'arm64', 'riscv64', 'ia32'].map(isMachine)).toEqual([true, true, false, false]);
});
