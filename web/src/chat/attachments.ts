// Files on their way to the server: uploaded when they are added, sent by id with the message.
import { shallowRef } from 'vue';
import { uploadFile } from '../api/files.ts';
import { describeError } from '../api/http.ts';
import type { UploadedFile } from '../api/types.ts';

export interface Attachment {
  key: string;
  name: string;
  bytes: number;
  isImage: boolean;
  file?: UploadedFile;
  error?: string;
}

export function createAttachments() {
  const list = shallowRef<Attachment[]>([]);
  const uploads = new Map<string, AbortController>();

  const change = (key: string, values: Partial<Attachment>) => {
    list.value = list.value.map((entry) => (entry.key === key ? { ...entry, ...values } : entry));
  };

  async function upload(key: string, file: File): Promise<void> {
    const stop = new AbortController();
    uploads.set(key, stop);
    try {
      change(key, { file: await uploadFile(file, stop.signal) });
    } catch (error) {
      change(key, { error: describeError(error).message });
    } finally {
      uploads.delete(key);
    }
  }

  return {
    list,
    add(files: Iterable<File>): void {
      for (const file of files) {
        const key = crypto.randomUUID();
        const entry = { key, name: file.name, bytes: file.size, isImage: file.type.startsWith('image/') };
        list.value = [...list.value, entry];
        void upload(key, file);
      }
    },
    remove(key: string): void {
      uploads.get(key)?.abort();
      list.value = list.value.filter((entry) => entry.key !== key);
    },
    /** Empties the list and gives back what it held. */
    take(): Attachment[] {
      const taken = list.value;
      list.value = [];
      return taken;
    },
    putBack(entries: Attachment[]): void {
      list.value = [...entries, ...list.value];
    },
  };
}
