// One command of a caller in a machine: exact arguments and environment, its end told apart from the end of what it left in
// the background, and its killing with all that descends from it.
import type { Sandbox as Machine } from 'e2b';
import { MARK, askMachine, runInMachine } from './machine.ts';
import type { ExecSpec, SandboxLimits } from '../sandbox.ts';

export const WORKSPACE = '/workspace';
const VALUE = 'HOMARD_VALUE_';
/** After the end of a command, for what is still on its way; a background process may hold the stream much longer. */
const GRACE_MS = 150;

// The end is told on stderr, between NUL bytes and by a name that nobody else knows. `env` starts the program as it is: no
// built-in command of the shell, no profile, and nothing of the machine's environment. Values come by other names, so that
// they stand in no list of arguments that stays.
const WRAPPER = `
mark=$1 folder=$2 input=$3 bytes=$4 seconds=$5 count=$6; shift 6
exec 3>&2 2>/dev/null
tell() { printf '\\0%s:%s\\0' "$mark" "$1" >&3; exit; }
cd -- "$folder" || tell folder
if [ "$input" ]; then exec <"$input"; rm -f -- "$input"; fi
ulimit -c 0; ulimit -f "$bytes"; ulimit -t "$seconds"
own=(PATH="\${PATH:-/usr/local/bin:/usr/bin:/bin}" HOME="\${HOME:-/tmp}" LANG=C.UTF-8 TMPDIR=/tmp ${MARK}="$mark")
for ((n = 0; n < count; n++)); do value=${VALUE}$n; own+=("$1=\${!value}"); shift; done
/usr/bin/env -i "\${own[@]}" "$@" 2>&3 3>&-
tell $?`;

// Ends marked processes and all below them, until none is left. What left its parent and lost its mark cannot be told from
// others then; but whatever is neither marked, nor below that, nor was there from the beginning, makes it fail.
const KILLER = `
declare -A parents found early
for pid in $2; do early[$pid]=1; done
look() {
  parents=() found=()
  local file name value pid dead
  while IFS=$':\\t ' read -r file name value _; do
    pid=\${file#/proc/} pid=\${pid%/status}
    if [ $name = State ]; then dead=$value; elif [[ $dead != [ZX] ]]; then parents[$pid]=$value; fi
  done < <(grep -sE '^(State|PPid):' /proc/[0-9]*/status)
  for file in $(grep -lszE "$1" /proc/[0-9]*/environ); do pid=\${file#/proc/}; found[\${pid%/*}]=1; done
  local more=1
  while [ $more ]; do
    more=
    for pid in "\${!parents[@]}"; do
      if [ ! "\${found[$pid]}" ] && [ "\${found[\${parents[$pid]}]}" ]; then found[$pid]=1 more=1; fi
    done
  done
}
for round in {1..60}; do
  look "^${MARK}=$1$"
  if [ \${#found[@]} = 0 ]; then
    look '^${MARK}='
    for pid in "\${!parents[@]}"; do
      # Those below 2 are the kernel's.
      [ "\${found[$pid]}\${early[$pid]}" ] || [ "\${parents[$pid]}" = 2 ] || exit 3
    done
    exit 0
  fi
  kill -KILL "\${!found[@]}" 2>/dev/null
  sleep 0.01
done
exit 1`;

export interface CallerCommand {
  spec: ExecSpec;
  limits: SandboxLimits;
  /** Ends the watching. */
  signal: AbortSignal;
  onStart: () => void;
  onOutput: (stream: 'stdout' | 'stderr', chunk: Uint8Array) => void;
}

/** Its exit code; null where nobody can tell. `noFolder`: its folder is not there, and nothing was run. */
export type CommandEnd = { exitCode: number | null } | 'noFolder';

/** Resolves when the command has ended; what it left in the background goes on. Rejects as `runInMachine`. */
export async function runCommand(machine: Machine, id: string, command: CallerCommand): Promise<CommandEnd> {
  const { spec, limits, signal, onStart, onOutput } = command;
  const input = await sendInput(machine, spec.stdin, signal);
  const watching = new AbortController();
  const told = Promise.withResolvers<string>();
  const errors = createEndReader(id, { pass: (chunk) => onOutput('stderr', chunk), onEnd: told.resolve });
  const kilobytes = Math.ceil(limits.fileBytes / 1024);
  const settings = [id, spec.cwd ?? WORKSPACE, input, `${kilobytes}`, `${limits.cpuSeconds}`];
  const { names, values, argv } = toArguments(spec);
  const ended = runInMachine(machine, {
    argv: ['/bin/bash', '-c', WRAPPER, 'homard', ...settings, `${names.length}`, ...names, ...argv],
    env: values,
    // The shell around it is killed with it, also before it has come to the command.
    id,
    signal: AbortSignal.any([signal, watching.signal]),
    onStart,
    onOutput: (stream, chunk) => (stream === 'stderr' ? errors.push(chunk) : onOutput(stream, chunk)),
  });
  const wasTold = await Promise.race([told.promise.then(() => true), ended.then(() => false)]);
  if (wasTold) await Promise.race([ended.catch(() => undefined), new Promise((go) => setTimeout(go, GRACE_MS))]);
  errors.flush();
  ended.catch(() => undefined);
  watching.abort();
  if (!wasTold) return { exitCode: await ended };
  const code = await told.promise;
  return code === 'folder' ? 'noFolder' : { exitCode: Number(code) };
}

/** The ids of all processes, with spaces between. */
export async function listProcesses(machine: Machine, signal: AbortSignal): Promise<string> {
  const found = await askMachine(machine, ['cd /proc && echo [0-9]*'], { limitBytes: 1_000_000, signal });
  return found.toString().trim();
}

/** Ends a command with all that it started. Rejects when something of it may be alive. `early`: what ran before all commands. */
export async function killCommand(machine: Machine, id: string, early: string): Promise<void> {
  const signal = AbortSignal.timeout(3_000);
  await askMachine(machine, [KILLER, id, early], { isRoot: true, limitBytes: 65_536, signal });
}

function toArguments({ argv, env = {} }: ExecSpec) {
  const values = Object.fromEntries(Object.values(env).map((value, n) => [`${VALUE}${n}`, value]));
  // `env` would take a program with "=" in its name for one more value.
  const program = argv[0].includes('=') ? ['nice', '-n', '0', '--', ...argv] : argv;
  return { names: Object.keys(env), values, argv: program };
}

/** The input goes ahead as a file: exact, and with an end, however large. '' where there is none. */
async function sendInput(machine: Machine, stdin: ExecSpec['stdin'], signal: AbortSignal): Promise<string> {
  if (!stdin?.length) return '';
  const path = `/tmp/.homard-${crypto.randomUUID()}`;
  await machine.files.write(path, new Blob([typeof stdin === 'string' ? stdin : new Uint8Array(stdin)]), {
    useOctetStream: true,
    signal,
  });
  return path;
}

/** Takes the telling of the end out of stderr, wherever its chunks are cut. */
function createEndReader(id: string, on: { pass: (chunk: Uint8Array) => void; onEnd: (code: string) => void }) {
  const mark = Buffer.from(`\0${id}:`);
  let held: Buffer = Buffer.alloc(0);
  let isOver = false;
  const pass = (chunk: Buffer) => {
    if (chunk.byteLength) on.pass(chunk);
  };

  function takeEnd(at: number): void {
    const end = held.indexOf(0, at + mark.byteLength);
    if (end < 0) return;
    pass(held.subarray(0, at));
    pass(held.subarray(end + 1));
    const code = held.subarray(at + mark.byteLength, end).toString();
    held = Buffer.alloc(0);
    isOver = true;
    on.onEnd(code);
  }

  return {
    push(chunk: Uint8Array): void {
      if (isOver) return pass(Buffer.from(chunk));
      held = Buffer.concat([held, chunk]);
      const at = held.indexOf(mark);
      if (at >= 0) return takeEnd(at);
      // What may be the beginning of the mark waits for the rest.
      const last = held.lastIndexOf(0);
      const isBeginning = last >= 0 && mark.subarray(0, held.byteLength - last).equals(held.subarray(last));
      const cut = isBeginning ? last : held.byteLength;
      pass(held.subarray(0, cut));
      held = held.subarray(cut);
    },
    /** Nothing more comes. */
    flush(): void {
      pass(held);
      held = Buffer.alloc(0);
    },
  };
}
