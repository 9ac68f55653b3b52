// The files of one conversation as the panel works with them: what is there, and what is on its way there.
import { ref, shallowRef } from 'vue';
import { describeError } from '../api/http.ts';
import type { WorkspaceFile } from '../api/types.ts';
import { listFiles, removeFile, writeFile } from '../api/workspace.ts';

export type Problem = ReturnType<typeof describeError>;

export interface Upload {
  key: string;
  name: string;
  /** From 0 to 1. */
  part: number;
  problem?: Problem;
}

type Workspace = ReturnType<typeof createWorkspace>;

let kept: Workspace | undefined;

/** Kept until another conversation is asked for: an upload goes on while the panel is closed. */
export function workspaceOf(conversation: string): Workspace {
  if (kept?.conversation !== conversation) kept = createWorkspace(conversation);
  return kept;
}

function createWorkspace(conversation: string) {
  /** Null until they were read. */
  const files = shallowRef<WorkspaceFile[] | null>(null);
  const isComplete = ref(true);
  const problem = shallowRef<Problem | null>(null);
  const uploads = shallowRef<Upload[]>([]);
  let asked = 0;
  let sent: Promise<void> = Promise.resolve();

  /** Of several requests under way only the last one counts. Never rejects. */
  async function load(): Promise<void> {
    const turn = ++asked;
    try {
      const found = await listFiles(conversation);
      if (turn !== asked) return;
      files.value = found.files;
      isComplete.value = found.isComplete;
      problem.value = null;
    } catch (error) {
      if (turn !== asked) return;
      const told = describeError(error);
      // Its first message is on the way to the server.
      if (told.code === 'server.conversation_not_found') files.value = [];
      else problem.value = told;
    }
  }

  function change(key: string, values: Partial<Upload>): void {
    uploads.value = uploads.value.map((upload) => (upload.key === key ? { ...upload, ...values } : upload));
  }

  const forget = (key: string) => void (uploads.value = uploads.value.filter((upload) => upload.key !== key));

  async function send(key: string, file: File): Promise<void> {
    try {
      await writeFile({ conversation, path: file.name, body: file, onProgress: (part) => change(key, { part }) });
      forget(key);
    } catch (error) {
      change(key, { problem: describeError(error) });
    }
    await load();
  }

  return {
    conversation,
    files,
    isComplete,
    problem,
    uploads,
    load,
    forget,
    /** One after the other, over files of the same names. */
    upload(chosen: readonly File[]): void {
      for (const file of chosen) {
        const key = crypto.randomUUID();
        uploads.value = [...uploads.value, { key, name: file.name, part: 0 }];
        sent = sent.then(() => send(key, file));
      }
    },
    /** Rejects with ApiError where the server refuses. */
    async remove(path: string): Promise<void> {
      await removeFile(conversation, path);
      await load();
    },
  };
}
