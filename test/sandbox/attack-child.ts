// A server of its own, for attacks.test.ts: `main` tries the main attacks, `hang` begins a command that goes on.
import { createSandboxUnderTest, runOnBench, stdoutOf } from '../../src/testing/sandbox-bench.ts';
import { kinds, loadBackend } from './attack.ts';
import { exhaustingAttacks } from './exhausting-attacks.ts';
import { reachingAttacks } from './reaching-attacks.ts';

const [wanted, mode, mark = ''] = process.argv.slice(2);
const kind = kinds.find((each) => each === wanted) ?? 'bwrap';
await using subject = await createSandboxUnderTest(await loadBackend[kind]());
console.log(`probe ${kind} as uid ${process.getuid?.()}: ${subject.backend.description}`);

if (mode === 'hang') {
  const { execution } = await subject.open();
  const script =
    'setsid sleep 300 & (nohup sleep 300 &) & trap "" TERM HUP INT; sleep 0.3; echo up; while :; do sleep 1; done';
  await execution.exec({ argv: ['bash', '-c', script], env: { MARK: mark }, onOutput: () => console.log('up') });
} else {
  // The test gave this process a descriptor that a command must not find.
  await runOnBench(subject, async ({ bash }) => {
    const text = stdoutOf(await bash('ls -l /proc/*/fd 2>/dev/null; cat /proc/*/fd/{9,20} 2>/dev/null; true'));
    if (text.includes(mark) || /inherited/.test(text)) throw new Error(`A command has an inherited file:\n${text}`);
    console.log(`attack inherited descriptors on ${kind}: refused: commands have none of the server`);
  });
  for (const attack of [...reachingAttacks, ...exhaustingAttacks].filter(({ isMain }) => isMain)) {
    await runOnBench(subject, async (bench) =>
      console.log(`attack ${attack.name} on ${kind}: ${await attack.run(bench)}`),
    );
  }
  console.log('all refused');
}
