import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createWorkspaceFiles } from '../../src/sandbox/files.ts';
import { withQuota } from '../../src/sandbox/quota.ts';

test('SBX-10: what the file tools write is no more than the disk of a conversation', async () => {
  const root = mkdtempSync(join(tmpdir(), 'homard-quota-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
  const files = withQuota(createWorkspaceFiles(root, { fileBytes: 10_000_000 }), 3_000_000);
  const write = (name: number, bytes: number) => files.write(`f${name}`, Buffer.alloc(bytes));
  for (let i = 0; i < 3; i++) await write(i, 900_000);
  await expect(write(3, 900_000)).rejects.toMatchObject({ code: 'sandbox.disk_full' });
  for (let i = 10; i < 20; i++) await write(i, 50_000);
  await expect(
    (async () => {
      for (let i = 20; i < 40; i++) await write(i, 50_000);
    })(),
  ).rejects.toMatchObject({ code: 'sandbox.disk_full' });
  for (let i = 0; i < 3; i++) await files.remove(`f${i}`);
  await write(50, 900_000);
});
