import * as z from 'zod';
import { messageOf } from '../kernel/index.ts';
import type { Tool } from '../kernel/index.ts';
import type { ExecEnd, ExecResult, Output, SandboxCapabilities, SandboxFiles } from '../sandbox/sandbox.ts';
import { createLiveOutput } from './bash-live.ts';
import { GAP, MOST_CHARS, shareOut, toShown } from './bash-result.ts';
import { defineSandboxTool } from './sandbox-tool.ts';
import type { Hands, SandboxSource } from './sandbox-tool.ts';

const SECONDS = { default: 120, most: 600 };
/** A command may run for all its time after it waited for a sandbox and for its start. */
const WAIT_MS = 120_000;
/** Of each stream, for the file that has all of it. */
const KEEP_BYTES = 10_000_000;
const FOLDER = '.outputs';
const MOST_KEPT_BYTES = 100_000_000;

export function createBashTool(sandboxes: SandboxSource): Tool {
  return defineSandboxTool(sandboxes, {
    name: 'Bash',
    title: 'Run a command',
    icon: 'terminal',
    description:
      'Runs a bash command in the workspace of this conversation. Each call is a new shell: files stay, `cd` and variables ' +
      'do not. Shows what it wrote, stderr apart, and the exit code unless it is 0. Of more than ' +
      `${MOST_CHARS.toLocaleString('en-US')} characters the middle is left out, and all of it kept in a file that is named. ` +
      'For files use Read, Write, Edit, Grep, Glob and List where they do. ' +
      sandboxes.backend.advice,
    parameters: z.strictObject({
      command: z.string().min(1).describe('Given to bash -c'),
      timeoutSeconds: z
        .number()
        .min(1)
        .max(SECONDS.most)
        .default(SECONDS.default)
        .describe(`Seconds after which it is ended, at most ${SECONDS.most}`),
      cwd: z.string().optional().describe('A folder of the workspace to run in; the workspace itself when absent'),
      description: z.string().optional().describe('What it does, in a few words, for the person who watches'),
    }),
    effect: 'once',
    isContained: isContained(sandboxes.backend.capabilities),
    timeoutMs: SECONDS.most * 1000 + WAIT_MS,
    async run({ command, cwd, timeoutSeconds }, { sandbox, context }) {
      const live = createLiveOutput(context.output);
      try {
        const result = await sandbox.exec({
          argv: ['bash', '-c', command],
          timeoutMs: timeoutSeconds * 1000,
          keepBytes: KEEP_BYTES,
          signal: context.signal,
          onOutput: (stream, chunk) => live.push(stream, chunk),
          ...(cwd !== undefined && { cwd }),
        });
        live.end();
        return await tell(result, { timeoutSeconds, hands: { sandbox, context } });
      } finally {
        live.end();
      }
    },
  });
}

/** A network of this host is outside; that of a machine elsewhere is not. */
function isContained({ isolation, hasNetwork }: SandboxCapabilities): boolean {
  return isolation === 'vm' || (isolation !== 'none' && !hasNetwork);
}

async function tell(
  result: ExecResult,
  { timeoutSeconds, hands }: { timeoutSeconds: number; hands: Hands },
): Promise<string> {
  const { scrub } = hands.context;
  const shown = shareOut(toShown(result.stdout, scrub), toShown(result.stderr, scrub));
  const [stdout, stderr] = [shown.stdout.trimEnd(), shown.stderr.trimEnd()];
  const parts = [
    ...(stdout ? [stdout] : []),
    ...(stderr ? [`[stderr]\n${stderr}`] : []),
    ...(shown.isCut ? [`[truncated: ${await keepAll(result, hands)}]`] : []),
  ];
  if (result.reason !== 'exit') parts.push(`[${endings[result.reason](timeoutSeconds)}]`);
  else if (result.exitCode !== 0) parts.push(`[exit code ${result.exitCode}]`);
  return parts.join('\n') || '(no output)';
}

const endings: Record<Exclude<ExecEnd, 'exit'>, (seconds: number) => string> = {
  timeout: (seconds) =>
    `It ran longer than ${seconds} s and was ended. Give timeoutSeconds up to ${SECONDS.most}, or do the work in smaller steps.`,
  aborted: () => 'It was ended because the call was stopped.',
  memory_limit: () => 'It was ended because it used more memory than a sandbox has. Work on less data at once.',
  disk_limit: () => 'It was ended because it wrote more than a sandbox may keep. Remove files, or write less.',
  output_limit: () => 'It was ended because it wrote too much output. Write it to a file, or filter it.',
  lost: () => 'The sandbox went away while it ran: it may have done some of its work. Look before you run it again.',
  closed: () => 'It was ended because the sandbox was closed.',
};

/** Puts the whole output where Read and Grep find it, and tells how large it is and where. */
async function keepAll(result: ExecResult, { sandbox: { files }, context }: Hands): Promise<string> {
  const [out, err] = [sizeOf(result.stdout), sizeOf(result.stderr)];
  const size = `the output has ${(out + err).toLocaleString('en-US')} bytes`;
  const isWhole = !result.stdout.omittedBytes && !result.stderr.omittedBytes;
  const path = `${FOLDER}/${context.call}.txt`;
  try {
    // Ids of calls may come again in another run.
    const isTaken = (await files.stat(path)) !== null;
    const free = isTaken ? `${FOLDER}/${context.call}-${context.run}.txt` : path;
    const stderr = err ? [Buffer.from('\n[stderr]\n'), ...partsOf(result.stderr)] : [];
    const all = Buffer.concat([...partsOf(result.stdout), ...stderr]);
    const text = all.toString();
    const scrubbed = context.scrub(text);
    await makeRoom(files, all.byteLength);
    // Later runs read it, which do not know the secrets of this one.
    await files.write(free, scrubbed === text ? all : scrubbed);
    return `${size}; ${isWhole ? 'all of it is' : `its first and last ${KEEP_BYTES / 2e6} MB are`} in ${free}`;
  } catch (error) {
    return `${size}; it could not be kept in a file: ${messageOf(error)}`;
  }
}

const sizeOf = ({ head, tail, omittedBytes }: Output): number => head.byteLength + tail.byteLength + omittedBytes;

const partsOf = ({ head, tail, omittedBytes }: Output): Uint8Array[] =>
  omittedBytes ? [head, Buffer.from(GAP), tail] : [head];

/** The oldest go, so that a conversation does not fill its disk with them. */
async function makeRoom(files: SandboxFiles, bytes: number): Promise<void> {
  if (!(await files.stat(FOLDER))) return;
  const kept = (await files.list(FOLDER)).files.sort((a, b) => a.modifiedAt - b.modifiedAt);
  let total = bytes + kept.reduce((sum, file) => sum + file.bytes, 0);
  for (const file of kept) {
    if (total <= MOST_KEPT_BYTES) return;
    await files.remove(file.path);
    total -= file.bytes;
  }
}
